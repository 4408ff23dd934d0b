package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// server is a backend: its configuration, how it is started, and how it says
// what it saw.
type server struct {
	command []string
	files   map[string]string
	parse   func(line string) (seen, bool)
}

// servers are the backends by name. DIR and PORT stand for what is not known yet.
func servers() map[string]server {
	bars := func(line string) (seen, bool) {
		_, line, found := strings.Cut(line, "SAW|")
		parts := strings.Split(line, "|")
		if !found || len(parts) != 4 || parts[3] == "400" { // what it refused it did not see
			return seen{}, false
		}
		if parts[2] == "-" {
			parts[2] = ""
		}
		return seen{parts[0], parts[1], parts[2]}, true
	}
	return map[string]server{
		"nginx": {
			command: []string{"nginx", "-p", "DIR", "-c", "DIR/nginx.conf", "-e", "DIR/error.log"},
			files: map[string]string{"nginx.conf": `daemon off; worker_processes 1; pid DIR/pid; error_log DIR/error.log;
events {}
http {
  log_format saw escape=none 'SAW|$request_method|$request_uri|$http_x_tenant|$status';
  access_log /dev/stdout saw;
  client_body_temp_path DIR; proxy_temp_path DIR; fastcgi_temp_path DIR; uwsgi_temp_path DIR; scgi_temp_path DIR;
  server { listen 127.0.0.1:PORT; lingering_close off; location / { return 200 ok; } }
}
`},
			parse: bars,
		},
		"haproxy": {
			command: []string{"haproxy", "-db", "-f", "DIR/haproxy.cfg"},
			files: map[string]string{"haproxy.cfg": `global
  log stdout format raw local0
defaults
  mode http
  timeout client 5s
  timeout server 5s
  timeout connect 5s
frontend f
  bind 127.0.0.1:PORT
  http-request capture req.fhdr(X-Tenant) len 64
  log global
  log-format "SAW|%HM|%HU|%[capture.req.hdr(0)]|%ST"
  http-request wait-for-body time 1s if METH_POST
  http-request return status 200 content-type text/plain string ok
`},
			parse: bars,
		},
		"node": {
			command: []string{"node", "DIR/server.js"},
			files: map[string]string{"server.js": `require('node:http').createServer((q, a) => {
  console.log(JSON.stringify([q.method, q.url, q.headers['x-tenant'] || '']));
  q.resume().on('end', () => a.end('ok'));
}).listen(PORT, '127.0.0.1');
`},
			parse: func(line string) (seen, bool) {
				var p [3]string
				if json.Unmarshal([]byte(line), &p) != nil {
					return seen{}, false
				}
				// Node has headers as Latin 1.
				return seen{p[0], latin1(p[1]), latin1(p[2])}, true
			},
		},
	}
}

// latin1 turns characters that stand for bytes into these bytes.
func latin1(s string) string {
	var b []byte
	for _, r := range s {
		if r > 0xff {
			return s
		}
		b = append(b, byte(r))
	}
	return string(b)
}

// backend starts one and returns its address. stop ends it, and returns when all
// that it said is in the ledger.
func backend(ctx context.Context, kind string, l *ledger) (address string, stop func(), err error) {
	s, ok := servers()[kind]
	if !ok {
		return "", nil, fmt.Errorf("there is no backend %q", kind)
	}
	dir, err := os.MkdirTemp("", "differ")
	if err != nil {
		return "", nil, err
	}
	probe, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	address = probe.Addr().String()
	_, port, _ := net.SplitHostPort(address)
	_ = probe.Close()
	fill := strings.NewReplacer("DIR", dir, "PORT", port)
	for name, text := range s.files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(fill.Replace(text)), 0o600); err != nil {
			return "", nil, err
		}
	}
	args := strings.Fields(fill.Replace(strings.Join(s.command, " ")))
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		follow(out, s.parse, l)
	}()
	stop = func() {
		time.Sleep(500 * time.Millisecond) // the last lines are on their way
		_ = cmd.Process.Signal(syscall.SIGTERM)
		<-read
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	}
	if !listens(ctx, address) {
		stop()
		return "", nil, errors.New(kind + " does not listen")
	}
	return address, stop, nil
}

// listens waits for somebody to.
func listens(ctx context.Context, address string) bool {
	for range 100 {
		if c, err := new(net.Dialer).DialContext(ctx, "tcp", address); err == nil {
			_ = c.Close()
			return true
		}
		time.Sleep(50 * time.Millisecond)
	}
	return false
}

// follow reads what a backend says.
func follow(out io.Reader, parse func(string) (seen, bool), l *ledger) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if s, ok := parse(lines.Text()); ok {
			l.add(s)
		}
	}
}
