package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/admitd/admitd/bench/rig"
	"github.com/admitd/admitd/internal/modelmongo"
	"github.com/admitd/admitd/internal/modelpostgres"
)

// serveModel answers at once, as a backend that costs little.
func serveModel(ctx context.Context, protocol, addr string) error {
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	if protocol == "postgres" {
		return modelpostgres.New(1, 0).Serve(ctx, ln)
	}
	return modelmongo.New(1, 0).Serve(ctx, ln)
}

// form is how to make a peer.
type form struct {
	name, needs string
	command     func(addr string) *exec.Cmd
}

// forms lists what stands between the client and the backend.
func (c *comparison) forms(protocol, backend string) []form {
	gate := func(binary string, env ...string) func(string) *exec.Cmd {
		return func(addr string) *exec.Cmd {
			_, port, _ := net.SplitHostPort(addr)
			conf := c.write(protocol+port+".yaml", fmt.Sprintf(gateConf, protocol, addr, backend, partitionBy[protocol]))
			cmd := exec.Command(binary, "serve", "--config", conf)
			cmd.Env = append(os.Environ(), env...)
			return cmd
		}
	}
	all := []form{
		{"HAProxy, TCP", "haproxy", func(addr string) *exec.Cmd {
			return exec.Command("haproxy", "-q", "-db", "-f", c.write(protocol+".cfg", fmt.Sprintf(haproxyConf, addr, backend)))
		}},
		{"copying Go proxy", "", func(addr string) *exec.Cmd { return exec.Command(c.copyproxy, addr, backend) }},
		{"admitd", "", gate(c.admitd)},
	}
	for _, binary := range c.others {
		all = append(all, form{"admitd, " + filepath.Base(binary), "", gate(binary)})
	}
	for _, n := range c.procs {
		all = append(all, form{"admitd, GOMAXPROCS=" + n, "", gate("GOMAXPROCS=" + n)})
	}
	return all
}

// partitionBy is the key of the partitions.
var partitionBy = map[string]string{"mongodb": "database", "postgres": "application"} //nolint:gochecknoglobals // a table

// The gate has all its limiters on: a rate, a partition and a limit.
const gateConf = `
admin: { listen: "127.0.0.1:0" }
log: { level: error }
ingresses:
  - name: wire
    protocol: %s
    listen: %s
    backend: %s
    connections: { maxOpen: 100000 }
    requests: { rate: 10000000 }
    partitions: { by: %s, default: { limit: { algorithm: fixed, limit: 2000 } } }
`

const haproxyConf = `
global
  nbthread 2
defaults
  mode tcp
  timeout connect 5s
  timeout client 10m
  timeout server 10m
frontend f
  bind %s
  default_backend b
backend b
  server s %s
`

// start starts what is installed.
func (c *comparison) start(ctx context.Context, f *form) (*rig.Process, error) {
	if f.needs != "" {
		if _, err := exec.LookPath(f.needs); err != nil {
			fmt.Fprintf(c.out, "%s is left out: it is not installed (Debian: apt-get install %s)\n\n", f.name, f.needs)
			return nil, nil //nolint:nilnil // nothing to measure is no error
		}
	}
	return rig.Start(ctx, f.name, f.command)
}

// write writes a configuration and returns its path.
func (c *comparison) write(name, text string) string {
	file := filepath.Join(c.dir, name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		panic(err) // a full disk: nothing to compare
	}
	return file
}
