// Patience shows what callers that give up do to a backend behind admitd: it
// starts a backend that finishes what it took in, admitd before it with its
// shipped defaults or with the algorithms named, and callers who hang up. It
// prints the share of the backend's capacity that was served in time.
//
//	patience -admitd bin/admitd [-limits default,aimd,…] [-for 20s] [-deadline]
//
// Everything runs on the loopback and is bounded in time. It ends with 1 when the
// shipped defaults serve less than wanted, or work piles up behind a fixed limit.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	workers = 4
	work    = 50 * time.Millisecond
	warmUp  = 5 * time.Second // not counted
)

// capacity is what the backend can do, per second.
const capacity = float64(workers) / (float64(work) / float64(time.Second))

// want is the least share of the capacity for callers of some patience.
type want struct {
	patience time.Duration
	share    float64
}

// wanted returns what the program asks for.
func wanted() []want {
	return []want{{time.Second, 0.93}, {300 * time.Millisecond, 0.85}, {200 * time.Millisecond, 0.75}}
}

func main() {
	bin := flag.String("admitd", "bin/admitd", "the binary")
	limits := flag.String("limits", "default", "algorithms, comma separated; default = as shipped")
	length := flag.Duration("for", 20*time.Second, "how long each case is loaded, at most 5m")
	deadline := flag.Bool("deadline", false, "callers announce their patience (X-Admitd-Deadline-Ms)")
	flag.Parse()
	good := true
	for limit := range strings.SplitSeq(*limits, ",") {
		if !compare(*bin, limit, min(*length, 5*time.Minute), *deadline) && limit == "default" {
			good = false
		}
	}
	if !pileUp(*bin) {
		good = false
	}
	if !good {
		os.Exit(1)
	}
}

// compare loads one gate per patience, side by side, with twice the capacity.
func compare(bin, limit string, length time.Duration, deadline bool) bool {
	var wg sync.WaitGroup
	lines, good := make([]string, len(wanted())), make([]bool, len(wanted()))
	for i, w := range wanted() {
		wg.Go(func() {
			b := newBackend(workers, work)
			defer b.Close()
			text := ""
			if limit != "default" {
				text = "    partitions: { default: { limit: { algorithm: " + limit + " } } }\n"
			}
			g, err := startGate(bin, b.addr, text)
			if err != nil {
				lines[i] = err.Error()
				return
			}
			defer g.stop()
			in, all := load(g.url, 2*capacity, w.patience, length, deadline)
			share := float64(in) / (capacity * (length - warmUp).Seconds())
			good[i] = share >= w.share
			lines[i] = fmt.Sprintf("%-10s patience %6v  asked %5d  in time %5d  share %.2f (wanted %.2f)  most inside the backend %d",
				limit, w.patience, all, in, share, w.share, b.most.Load())
		})
	}
	wg.Wait()
	for _, l := range lines {
		fmt.Println(l)
	}
	for _, g := range good {
		if !g {
			return false
		}
	}
	return true
}

// pileUp sends callers that leave after 30 ms to 2 s of work behind a limit of 3.
func pileUp(bin string) bool {
	b := newBackend(1000, 2*time.Second)
	defer b.Close()
	g, err := startGate(bin, b.addr, "    partitions: { default: { limit: { algorithm: fixed, limit: 3 } } }\n")
	if err != nil {
		fmt.Println(err)
		return false
	}
	defer g.stop()
	_, all := load(g.url, 40, 30*time.Millisecond, 12*time.Second, false)
	most := b.most.Load()
	fmt.Printf("fixed 3    patience   30ms of 2s  asked %5d  most inside the backend %d (at most 3)\n", all, most)
	return most <= 3
}

// backend works on everything that it has taken in, whoever still waits for it.
type backend struct {
	*http.Server
	addr   string
	inside atomic.Int64
	most   atomic.Int64
}

func newBackend(workers int, work time.Duration) *backend {
	b := &backend{}
	places := make(chan struct{}, workers)
	b.Server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		n := b.inside.Add(1)
		for most := b.most.Load(); n > most && !b.most.CompareAndSwap(most, n); most = b.most.Load() {
		}
		places <- struct{}{}
		time.Sleep(work)
		<-places
		b.inside.Add(-1)
		_, _ = io.WriteString(w, "done")
	}), ReadHeaderTimeout: time.Minute}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	b.addr = ln.Addr().String()
	go func() { _ = b.Serve(ln) }()
	return b
}

// gate is a running admitd.
type gate struct {
	cmd   *exec.Cmd
	dir   string
	url   string
	ended chan struct{} // closed when the process has
}

// startGate runs admitd in front of backend. more is appended to its ingress.
func startGate(bin, backend, more string) (*gate, error) {
	dir, err := os.MkdirTemp("", "patience")
	if err != nil {
		return nil, err
	}
	listen, admin := freeAddress(), freeAddress()
	config := filepath.Join(dir, "admitd.yaml")
	text := "admin: { listen: \"" + admin + "\" }\nlog: { level: warn }\ningresses:\n  - name: orders\n    listen: " + listen +
		"\n    backend: http://" + backend + "\n" + more
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	g := &gate{cmd: exec.Command(bin, "serve", "--config", config), dir: dir, url: "http://" + listen, ended: make(chan struct{})}
	g.cmd.Stderr = os.Stderr
	if err := g.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = g.cmd.Wait()
		close(g.ended)
	}()
	for range 200 {
		select {
		case <-g.ended:
			_ = os.RemoveAll(dir)
			return nil, fmt.Errorf("admitd ended; it ran with\n%s", text)
		case <-time.After(50 * time.Millisecond):
		}
		if resp, err := http.Get("http://" + admin + "/readyz"); err == nil {
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return g, nil
			}
		}
	}
	g.stop()
	return nil, fmt.Errorf("admitd is not ready after 10 s; it ran with\n%s", text)
}

func (g *gate) stop() {
	_ = g.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(20*time.Second, func() { _ = g.cmd.Process.Kill() })
	<-g.ended
	timer.Stop()
	_ = os.RemoveAll(g.dir)
}

func freeAddress() string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	defer ln.Close()
	return ln.Addr().String()
}

// load sends requests at a rate, at random times, and returns how many were sent
// after the warm-up and how many of them were answered 200 within their patience.
func load(url string, perSecond float64, patience, length time.Duration, deadline bool) (inTime, all int64) {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000, DisableCompression: true}}
	defer client.CloseIdleConnections()
	var good atomic.Int64
	var wg sync.WaitGroup
	random := rand.New(rand.NewPCG(1, 2))
	start := time.Now()
	for at := time.Duration(0); at < length; at += time.Duration(random.ExpFloat64() / perSecond * float64(time.Second)) {
		time.Sleep(time.Until(start.Add(at)))
		counted := at >= warmUp
		if counted {
			all++
		}
		wg.Go(func() {
			if ask(client, url, patience, deadline) && counted {
				good.Add(1)
			}
		})
	}
	wg.Wait()
	return good.Load(), all
}

// ask sends one request and reports whether it was served in time.
func ask(client *http.Client, url string, patience time.Duration, deadline bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	if deadline {
		req.Header.Set("X-Admitd-Deadline-Ms", strconv.FormatInt(patience.Milliseconds(), 10))
	}
	resp, err := client.Do(req)
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return err == nil && resp.StatusCode == http.StatusOK
}
