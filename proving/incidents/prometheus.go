package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// prometheus scrapes every gate once a second and evaluates the shipped rules.
type prometheus struct {
	address, dir string
	cmd          *exec.Cmd
	exited       chan struct{}
}

func newPrometheus(ctx context.Context, targets []string) (p *prometheus, err error) {
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		return nil, err
	}
	p = &prometheus{address: freePort()}
	if p.dir, err = os.MkdirTemp("", "incidents-prometheus"); err != nil {
		return nil, err
	}
	config := fmt.Sprintf("global: { scrape_interval: 1s, evaluation_interval: 1s }\nrule_files: [%q]\nscrape_configs: [{ job_name: admitd, static_configs: [{ targets: [%q] }] }]\n",
		os.Getenv("INCIDENTS_RULES"), strings.Join(targets, `", "`))
	config = strings.ReplaceAll(config, `\"`, `"`)
	file := filepath.Join(p.dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	log, err := os.Create(filepath.Join(p.dir, "log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.CommandContext(ctx, binary, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(p.dir, "data"), "--web.listen-address="+p.address)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.exited = make(chan struct{})
	go func() { defer close(p.exited); _ = p.cmd.Wait() }()
	_, err = until(ctx, 30*time.Second, func() (string, error) {
		res, err := port.Get("http://" + p.address + "/-/ready")
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return "", errors.New(res.Status)
		}
		return "", nil
	})
	if err != nil {
		text, _ := os.ReadFile(log.Name())
		err = fmt.Errorf("%w; its log: %s", err, text)
	}
	return p, err
}

func (p *prometheus) close() {
	_ = p.cmd.Process.Kill()
	<-p.exited
	_ = os.RemoveAll(p.dir)
}

// has sees that an alert of a gate is there, pending or firing, or that it is not.
func (p *prometheus) has(ctx context.Context, instance, alert string, want bool) (string, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.address+"/api/v1/alerts", http.NoBody)
	if err != nil {
		return "", err
	}
	res, err := port.Do(r)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	var d struct {
		Data struct {
			Alerts []struct {
				Labels, Annotations map[string]string
				State               string
			}
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&d); err != nil {
		return "", err
	}
	var others []string
	for _, a := range d.Data.Alerts {
		if a.Labels["instance"] != instance {
			continue
		}
		if a.Labels["alertname"] == alert {
			if !want {
				return "", fmt.Errorf("still %s: %s", a.State, a.Annotations["summary"])
			}
			return a.State + ": " + a.Annotations["summary"], nil
		}
		others = append(others, a.Labels["alertname"])
	}
	if want {
		return "", fmt.Errorf("no alert %s; there are %v", alert, others)
	}
	return "", nil
}
