package pulsargate

import (
	"errors"
	"net"

	"github.com/admitd/admitd/askers"
	"github.com/admitd/admitd/limiter"
)

// saw tells who sent a message, once it is decided, if somebody wants to know.
func (p *producer) saw(err error) {
	board := p.s.srv.o.Askers
	if !board.Due() {
		return
	}
	a := askers.Asker{Operation: askers.Operation{Verb: "send", Object: p.topic.name.base}}
	if tcp, ok := p.s.remote.(*net.TCPAddr); ok {
		a.Client = tcp.AddrPort().Addr().Unmap()
	}
	_, refused := errors.AsType[*limiter.Rejection](err)
	board.Saw(&a, refused)
}
