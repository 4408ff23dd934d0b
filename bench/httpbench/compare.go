package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"
)

// comparison measures every peer in turn, round by round.
type comparison struct {
	round    time.Duration
	rounds   int
	conns    int
	size     int
	dir      string
	self     string
	other    string // another build; "" = none
	only     string // peers to measure; "" = all
	profiles string // directory of CPU profiles; "" = none
	tls      bool
	h2       int // streams of a connection of HTTP/2; 0 = HTTP/1.1
}

// peer is one process, or family of processes, under test.
type peer struct {
	name   string
	addr   string
	cmd    *exec.Cmd
	want   int // status of every answer; 0 = any
	loads  []load
	cpu    []float64 // seconds of each round
	rssMiB float64
}

// run starts everything, measures, and prints the tables.
func (c *comparison) run(ctx context.Context, out io.Writer) (err error) {
	if c.self, err = os.Executable(); err != nil {
		return err
	}
	if c.dir, err = os.MkdirTemp("", "httpbench"); err != nil {
		return err
	}
	defer os.RemoveAll(c.dir)
	if c.tls {
		if err := c.certify(); err != nil {
			return err
		}
	}
	backend, err := c.start(ctx, "direct", func(addr string) *exec.Cmd {
		return exec.Command(c.self, "backend", "-listen", addr, "-size", strconv.Itoa(c.size))
	})
	if err != nil {
		return err
	}
	defer backend.stop()
	for _, refuse := range []bool{false, true} {
		if err := c.table(ctx, out, backend, refuse); err != nil {
			return err
		}
	}
	return nil
}

// table measures one table: passing on, or refusing.
func (c *comparison) table(ctx context.Context, out io.Writer, backend *peer, refuse bool) error {
	backend.loads, backend.cpu = nil, nil
	peers := []*peer{backend}
	defer func() {
		for _, p := range peers {
			if p != backend {
				p.stop()
			}
		}
	}()
	for _, form := range c.forms(backend.addr, refuse) {
		if !c.wants(out, form) {
			continue
		}
		p, err := c.start(ctx, form.name, form.command)
		if err != nil {
			return err
		}
		p.want = form.want
		peers = append(peers, p)
	}
	if c.tls || c.h2 > 0 {
		peers = peers[1:] // the backend speaks neither
	}
	for range c.rounds {
		for _, p := range peers {
			if err := c.measure(ctx, p); err != nil {
				return err
			}
		}
	}
	c.print(out, peers, refuse)
	return nil
}

// form is how to make a peer.
type form struct {
	name, needs string
	want        int
	command     func(addr string) *exec.Cmd
}

// forms lists the peers.
func (c *comparison) forms(backend string, refuse bool) []form {
	build := func(name, file string) form {
		return form{name, "", 200, func(addr string) *exec.Cmd {
			args := []string{"gate", "-listen", addr, "-backend", backend, "-refuse=" + strconv.FormatBool(refuse)}
			if c.profiles != "" {
				args = append(args, "-profile", filepath.Join(c.profiles, fmt.Sprintf("%s-refuse=%t.pprof", filepath.Base(file), refuse)))
			}
			if c.tls {
				args = append(args, "-cert", c.certificate())
			}
			return exec.Command(file, args...)
		}}
	}
	gates := []form{build("admitd", c.self)}
	if c.other != "" {
		gates = append(gates, build("admitd, other build", c.other))
	}
	if c.tls || c.h2 > 0 {
		gates = append(gates, c.bare(refuse))
	}
	reverse := form{"httputil tuned", "", 200, func(addr string) *exec.Cmd {
		return exec.Command(c.self, "reverse", "-listen", addr, "-backend", backend)
	}}
	nginx := form{"nginx + limits", "nginx", 200, func(addr string) *exec.Cmd {
		rate := "rate=1000000r/s"
		use := "limit_req zone=r burst=100000 nodelay; limit_conn c 60000;"
		if refuse {
			rate, use = "rate=1r/m", "limit_req zone=r;"
		}
		return exec.Command("nginx", "-p", c.dir, "-e", "stderr", "-c", c.write("nginx.conf", fmt.Sprintf(nginxConf, c.dir, rate, backend, addr+c.nginxListens(), use)))
	}}
	haproxy := form{"HAProxy + limits", "haproxy", 200, func(addr string) *exec.Cmd {
		most := 1_000_000_000
		if refuse {
			most = 1
		}
		return exec.Command("haproxy", "-q", "-db", "-f", c.write("haproxy.cfg", fmt.Sprintf(haproxyConf, addr+c.haproxyBinds(), most, backend)))
	}}
	if refuse {
		nginx.want, haproxy.want = 503, 429
		for i := range gates {
			gates[i].want = 429
		}
		return append([]form{nginx, haproxy}, gates...)
	}
	if c.tls || c.h2 > 0 { // it has no limits, and what it adds is known
		return append([]form{nginx, haproxy}, gates...)
	}
	return append([]form{nginx, haproxy, reverse}, gates...)
}

// wants reports whether a peer is to be measured and is there.
func (c *comparison) wants(out io.Writer, f form) bool {
	if c.only != "" && !slices.ContainsFunc(strings.Split(c.only, ","), func(head string) bool { return strings.HasPrefix(f.name, head) }) {
		return false
	}
	if f.needs == "" {
		return true
	}
	_, err := exec.LookPath(f.needs)
	if err != nil {
		fmt.Fprintf(out, "%s skipped: %s is not installed (Debian: apt-get install %s)\n", f.name, f.needs, f.needs)
	}
	return err == nil
}

const nginxConf = `
daemon off; worker_processes 2; pid %[1]s/nginx.pid; error_log /dev/null crit;
events { worker_connections 8000; }
http {
  access_log off; keepalive_requests 100000000; server_tokens off;
  client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  limit_req_zone $http_x_tenant zone=r:10m %[2]s; limit_conn_zone $http_x_tenant zone=c:10m;
  upstream b { server %[3]s; keepalive 4096; keepalive_requests 100000000; }
  server { listen %[4]s; location / { %[5]s proxy_pass http://b; proxy_http_version 1.1; proxy_set_header Connection "";
    proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for; proxy_set_header Host $host; } }
}
`

const haproxyConf = `
global
  nbthread 2
  maxconn 4000
defaults
  mode http
  timeout connect 5s
  timeout client 60s
  timeout server 60s
  option http-keep-alive
  option forwardfor
  http-reuse always
frontend f
  bind %[1]s
  stick-table type string len 64 size 100k expire 10m store http_req_rate(10m)
  http-request track-sc0 req.hdr(X-Tenant)
  http-request deny deny_status 429 if { sc_http_req_rate(0) gt %[2]d }
  default_backend b
backend b
  server s %[3]s
`

// write writes a configuration and returns its path.
func (c *comparison) write(name, text string) string {
	file := filepath.Join(c.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		panic(err) // a bug or a full disk: nothing to compare
	}
	return file
}

// start runs a process on a free port and waits until it listens.
func (c *comparison) start(ctx context.Context, name string, command func(addr string) *exec.Cmd) (*peer, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := ln.Addr().String()
	ln.Close()
	p := &peer{name: name, addr: addr, cmd: command(addr)}
	p.cmd.Stderr = os.Stderr
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for range 250 {
		if conn, err := net.Dial("tcp", addr); err == nil {
			conn.Close()
			return p, nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p.stop()
	return nil, fmt.Errorf("%s does not listen on %s", name, addr)
}

// stop ends the process.
func (p *peer) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
}

// measure runs one round against p.
func (c *comparison) measure(ctx context.Context, p *peer) error {
	if _, err := c.drive(ctx, p, c.round/5); err != nil { // warm
		return fmt.Errorf("%s: %w", p.name, err)
	}
	before, _ := usage(p.cmd.Process.Pid)
	l, err := c.drive(ctx, p, c.round)
	if err != nil {
		return fmt.Errorf("%s: %w", p.name, err)
	}
	after, rss := usage(p.cmd.Process.Pid)
	if p.want != 0 && l.status[p.want] < l.done*999/1000 {
		return fmt.Errorf("%s: answers %v, want %d", p.name, l.status, p.want)
	}
	p.loads, p.cpu, p.rssMiB = append(p.loads, l), append(p.cpu, after-before), max(p.rssMiB, rss)
	return ctx.Err()
}

// print prints medians over the rounds, relative to nginx where it ran.
func (c *comparison) print(out io.Writer, peers []*peer, refuse bool) {
	title := "passed on"
	if refuse {
		title = "refused"
	}
	fmt.Fprintf(out, "\n%s%s: %d connections, %d-byte answers, median of %d rounds of %v\n", title, c.over(), c.conns, c.size, c.rounds, c.round)
	tw := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "peer\trequests/s\tvs nginx\tp50\tp99\tCPU s/100k\tvs nginx\tper CPU-second\tvs nginx\tRSS MiB\t")
	var base *peer
	for _, p := range peers {
		if strings.HasPrefix(p.name, "nginx") {
			base = p
		}
	}
	for _, p := range peers {
		perSec, cpu := p.perSecond(), p.cpuPer100k()
		rel := func(v, of float64) string {
			if base == nil || of == 0 {
				return "-"
			}
			return strconv.FormatFloat(v/of, 'f', 2, 64)
		}
		var b1, b2 float64
		if base != nil {
			b1, b2 = base.perSecond(), base.cpuPer100k()
		}
		fmt.Fprintf(tw, "%s\t%.0f\t%s\t%v\t%v\t%.2f\t%s\t%.0f\t%s\t%.0f\t\n", p.name, perSec, rel(perSec, b1),
			p.median(func(l load) float64 { return float64(l.p50) }, time.Microsecond), p.median(func(l load) float64 { return float64(l.p99) }, time.Microsecond),
			cpu, rel(cpu, b2), 1e5/cpu, rel(b2, cpu), p.rssMiB)
	}
	tw.Flush()
}

// perSecond is the median of requests per second.
func (p *peer) perSecond() float64 {
	return median(p.loads, func(l load) float64 { return float64(l.done) / l.took.Seconds() })
}

// cpuPer100k is the median of CPU seconds per 100,000 requests.
func (p *peer) cpuPer100k() float64 {
	var v []float64
	for i, l := range p.loads {
		v = append(v, p.cpu[i]/float64(l.done)*1e5)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// median is the median of a duration, rounded.
func (p *peer) median(f func(load) float64, unit time.Duration) time.Duration {
	return time.Duration(median(p.loads, f)).Round(unit)
}

func median(loads []load, f func(load) float64) float64 {
	var v []float64
	for _, l := range loads {
		v = append(v, f(l))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// usage returns the CPU seconds that a process and its children have used, and
// their resident memory.
func usage(pid int) (cpuSeconds, rssMiB float64) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range stats {
		raw, err := os.ReadFile(file)
		if err != nil {
			continue // gone meanwhile
		}
		text := string(raw)
		id, _ := strconv.Atoi(strings.Split(file, "/")[2])
		fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:]) // from the state on
		if len(fields) < 22 {
			continue
		}
		if parent, _ := strconv.Atoi(fields[1]); id != pid && parent != pid {
			continue
		}
		user, _ := strconv.ParseFloat(fields[11], 64)
		system, _ := strconv.ParseFloat(fields[12], 64)
		pages, _ := strconv.ParseFloat(fields[21], 64)
		cpuSeconds += (user + system) / 100 // clock ticks, 100 per second on Linux
		rssMiB += pages * float64(os.Getpagesize()) / (1 << 20)
	}
	return cpuSeconds, rssMiB
}
