package relay

import (
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// canSleep is whether sides of sessions can sleep here.
const canSleep = true

// sleepers watches the descriptors of those who sleep, with one goroutine, which
// runs from the first of them until the relay is empty. Descriptors are closed
// and their numbers given to others while events are on their way, so that events
// name the sleeper and not the descriptor. It is safe for concurrent use.
type idlePoller struct {
	mu    sync.Mutex // guards the fields below; never held across a wait
	epoll int
	file  *os.File // of epoll; nil = nobody watches
	over  chan struct{}
	last  uint64
	who   map[uint64]*side
}

// add watches a descriptor and returns by which name; 0 = it cannot be watched.
// What has come already wakes the sleeper at once.
func (p *idlePoller) add(raw syscall.RawConn, who *side) (name uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.file == nil && p.openLocked() != nil {
		return 0
	}
	p.last++
	event := unix.EpollEvent{
		Events: unix.EPOLLIN | unix.EPOLLRDHUP | unix.EPOLLONESHOT, Fd: int32(p.last), Pad: int32(p.last >> 32),
	}
	var err error
	closed := raw.Control(func(fd uintptr) { err = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_ADD, int(fd), &event) })
	if errors.Join(closed, err) != nil {
		return 0
	}
	p.who[p.last] = who
	return p.last
}

// openLocked begins to watch.
func (p *idlePoller) openLocked() error {
	fd, err := unix.EpollCreate1(unix.EPOLL_CLOEXEC)
	if err != nil {
		return err
	}
	_ = unix.SetNonblock(fd, true) // so that the runtime's poller waits for it, and no thread
	file := os.NewFile(uintptr(fd), "sleepers")
	wait, err := file.SyscallConn()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	p.epoll, p.file, p.over, p.who = fd, file, make(chan struct{}), map[uint64]*side{}
	go p.watch(wait, p.over)
	return nil
}

// remove forgets a sleeper. A descriptor that was closed is forgotten already.
func (p *idlePoller) remove(name uint64, raw syscall.RawConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.who, name)
	_ = raw.Control(func(fd uintptr) { _ = unix.EpollCtl(p.epoll, unix.EPOLL_CTL_DEL, int(fd), nil) })
}

// tidy ends the watching unless somebody sleeps.
func (p *idlePoller) tidy() {
	p.mu.Lock()
	if p.file == nil || len(p.who) > 0 {
		p.mu.Unlock()
		return
	}
	file, over := p.file, p.over
	p.file, p.who = nil, nil
	p.mu.Unlock()
	_ = file.Close()
	<-over
}

// watch rouses those to whom something has come, until wait is closed.
func (p *idlePoller) watch(wait syscall.RawConn, over chan<- struct{}) {
	defer close(over)
	var events [64]unix.EpollEvent
	var n int
	look := func(fd uintptr) bool {
		var err error
		for n, err = unix.EpollWait(int(fd), events[:], 0); errors.Is(err, unix.EINTR); {
			n, err = unix.EpollWait(int(fd), events[:], 0)
		}
		return n > 0
	}
	for wait.Read(look) == nil {
		for _, e := range events[:n] {
			name := uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32
			if who := p.find(name); who != nil {
				who.wakeFrom(name)
			}
		}
	}
}

// find returns who sleeps by that name; nil = nobody does any more.
func (p *idlePoller) find(name uint64) *side {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.who[name]
}
