package main

import (
	"fmt"
	"net"
	"syscall"
	"testing"
)

// A signal stops the daemon at once also while a backend that says nothing keeps it
// from starting, or a reload from coming to an end: it was not even heard, nor was a
// second one.
func TestStopsWhileABackendIsSilent(t *testing.T) {
	const alone = "ingresses:\n  - { name: orders, listen: 127.0.0.1:0, backend: 'http://127.0.0.1:1' }\n"
	for _, started := range []bool{false, true} {
		t.Run(fmt.Sprintf("started %v", started), func(t *testing.T) {
			silent, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer silent.Close()
			waits := alone + fmt.Sprintf("  - { name: db, protocol: mongodb, listen: 127.0.0.1:0, backend: %q, mongodb: { dialTimeout: 10m } }\n", silent.Addr())
			var p *process
			if started {
				p = startProcess(t, alone)
				p.write(waits)
				p.signal(syscall.SIGHUP)
			} else {
				p = newProcess(t, waits)
				p.launch()
			}
			c, err := silent.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			p.signal(syscall.SIGTERM)
			p.said("signal received, stopping")
			if code := p.exit(); code != 0 {
				t.Errorf("exit code %d; want 0", code)
			}
		})
	}
}
