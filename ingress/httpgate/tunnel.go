package httpgate

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/admitd/admitd/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// mayTunnel accepts an answer that switches protocols only when the client
// asked for it.
func (x *exchange) mayTunnel() error {
	if x.upgrade == "" {
		return fmt.Errorf("%w: switches protocols unasked", upstream.ErrBadResponse)
	}
	return nil
}

// interim passes a 1xx answer on, less 100: the gate has answered Expect
// itself.
func (x *exchange) interim() {
	if x.head.Status == http.StatusContinue || x.r == nil || !x.r.ProtoAtLeast(1, 1) {
		return
	}
	h := x.w.Header()
	for _, f := range x.head.Fields {
		if !upstream.IsHop(f.Name, x.head.Listed) {
			h[f.Name] = append(h[f.Name], f.Value)
		}
	}
	x.w.WriteHeader(x.head.Status)
	clear(h)
}

// tunnel passes bytes both ways until both sides have ended.
func (x *exchange) tunnel() result {
	x.established(limiter.Success)
	res := result{status: http.StatusSwitchingProtocols, outcome: limiter.Ignored}
	bc := x.bc
	defer x.hangUp()
	// Before net/http forgets of the client: a drain would miss both in between.
	if !x.rt.tunnels.Add(bc) {
		return result{err: net.ErrClosed, outcome: limiter.Ignored, cut: true}
	}
	x.control()
	client, rw, err := x.rc.Hijack()
	if err != nil {
		x.rt.tunnels.Remove(bc)
		return result{err: err, outcome: limiter.Ignored, cut: true}
	}
	x.rt.tunnels.Swap(bc, client)
	defer x.rt.tunnels.Remove(client)
	defer func() { _ = client.Close() }() // the tunnel is over
	if !x.stop() {
		return res
	}
	if err := errors.Join(client.SetDeadline(time.Time{}), bc.SetDeadline(time.Time{})); err != nil {
		return res
	}
	if _, err := client.Write(x.appendSwitch(x.out[:0])); err != nil {
		return res
	}
	var both sync.WaitGroup
	both.Go(func() { pump(bc, client, rw.Reader, x.rt.o.StreamIdle) })
	pump(client, bc, bc.Reader, x.rt.o.StreamIdle)
	both.Wait()
	return res
}

// appendSwitch appends the head of the 101 answer.
func (x *exchange) appendSwitch(b []byte) []byte {
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(x.head.Status), 10)
	b = append(b, " Switching Protocols\r\n"...)
	for _, f := range x.head.Fields {
		if f.Name == "Upgrade" || !upstream.IsHop(f.Name, x.head.Listed) {
			b = appendField(b, f.Name, f.Value)
		}
	}
	return append(b, "Connection: Upgrade\r\n\r\n"...)
}

// pump copies from src, which buffers what comes from from, to dst. At the end
// it ends dst's stream and gives the other direction a last bound.
func pump(dst, from net.Conn, src io.Reader, idle time.Duration) {
	buf, _ := buffers.Get().(*[]byte)
	defer buffers.Put(buf)
	_, err := io.CopyBuffer(struct{ io.Writer }{dst}, struct{ io.Reader }{src}, *buf)
	half, ok := dst.(interface{ CloseWrite() error })
	if err != nil || !ok || half.CloseWrite() != nil {
		_ = dst.Close()
		_ = from.Close()
		return
	}
	_ = dst.SetReadDeadline(time.Now().Add(idle)) // fails only when closed
}
