// Command copyproxy copies bytes between clients and a backend, and nothing else:
// what any proxy costs on this machine, to compare gates with.
package main

import (
	"fmt"
	"io"
	"net"
	"os"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: copyproxy LISTEN BACKEND")
		os.Exit(2)
	}
	ln, err := net.Listen("tcp", os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for {
		c, err := ln.Accept()
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		go serve(c, os.Args[2])
	}
}

// serve copies both ways until either side has gone.
func serve(c net.Conn, backend string) {
	defer c.Close()
	up, err := net.Dial("tcp", backend)
	if err != nil {
		return
	}
	defer up.Close()
	go func() { pump(up, c); _ = up.Close() }()
	pump(c, up)
}

// pump copies through a buffer: the kernel's own way costs more for small
// messages, and two more descriptors for each direction.
func pump(to, from net.Conn) {
	_, _ = io.Copy(struct{ io.Writer }{to}, struct{ io.Reader }{from})
}
