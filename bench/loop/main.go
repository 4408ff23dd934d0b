//go:build linux

// Loop is an experiment: a MongoDB gate of one epoll loop per processor, with
// sessions as state machines and without goroutines. It finds messages, reads
// which database a command is for, asks the limiter and ends the permit with the
// reply, as the gate does; what else a gate does it leaves out, so that what it
// gains is the most that can be gained. See ADR 26.
//
//	loop LISTEN BACKEND
package main

import (
	"fmt"
	"net"
	"os"
	"runtime"
	"syscall"
	"time"

	"github.com/admitd/admitd/limiter"
)

func main() {
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: loop LISTEN BACKEND")
		os.Exit(2)
	}
	listen, err := net.ResolveTCPAddr("tcp4", os.Args[1])
	check(err)
	backend, err := net.ResolveTCPAddr("tcp4", os.Args[2])
	check(err)
	gate := limiter.New("loop", &limiter.Policy{
		Rate:    limiter.Rate{PerSecond: 1e7},
		Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return fixed(2000) }},
	}, limiter.Options{})
	ln := listenOn(listen)
	for range runtime.NumCPU() - 1 {
		go newLoop(gate, ln, backend).run()
	}
	newLoop(gate, ln, backend).run()
}

// fixed is a limit that never moves.
type fixed int

func (f fixed) Current() int                          { return int(f) }
func (fixed) Observe(int64, time.Duration, int, bool) {}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "loop:", err)
		os.Exit(1)
	}
}

// listenOn returns a listening descriptor that never blocks.
func listenOn(at *net.TCPAddr) int {
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_NONBLOCK|syscall.SOCK_CLOEXEC, 0)
	check(err)
	check(syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1))
	check(syscall.Bind(fd, address(at)))
	check(syscall.Listen(fd, 4096))
	return fd
}

func address(a *net.TCPAddr) *syscall.SockaddrInet4 {
	return &syscall.SockaddrInet4{Port: a.Port, Addr: [4]byte(a.IP.To4())}
}

// loop serves the sessions that it accepted.
type loop struct {
	gate    *limiter.Gate
	poll    int
	listen  int
	backend *net.TCPAddr
	ends    map[int32]*end // by descriptor
	buf     []byte         // what is being moved; nobody holds one
}

func newLoop(g *limiter.Gate, listen int, backend *net.TCPAddr) *loop {
	poll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	check(err)
	l := &loop{gate: g, poll: poll, listen: listen, backend: backend, ends: map[int32]*end{}, buf: make([]byte, 64<<10)}
	check(l.watch(listen, 1<<28)) // EPOLLEXCLUSIVE: one loop wakes
	return l
}

// watch has the loop woken by fd.
func (l *loop) watch(fd int, flags uint32) error {
	return syscall.EpollCtl(l.poll, syscall.EPOLL_CTL_ADD, fd, &syscall.EpollEvent{Events: syscall.EPOLLIN | flags, Fd: int32(fd)})
}

// run serves for ever.
func (l *loop) run() {
	runtime.LockOSThread()
	events := make([]syscall.EpollEvent, 128)
	for {
		n, err := syscall.EpollWait(l.poll, events, -1)
		if err == syscall.EINTR {
			continue
		}
		check(err)
		for _, e := range events[:n] {
			if int(e.Fd) == l.listen {
				l.accept()
			} else if c := l.ends[e.Fd]; c != nil && !l.move(c) {
				l.close(c)
			}
		}
	}
}
