package roundtrip

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
	"github.com/admitd/admitd/limiter"
)

// upgradeOf returns the protocol that the client asks to switch to, "" for
// none. A request with a body does not switch. Neither does h2c: behind it the
// gate could not see requests any more.
func upgradeOf(r *http.Request) string {
	asked := r.Header["Upgrade"]
	if len(asked) == 0 || asked[0] == "" || r.ProtoMajor != 1 || r.ContentLength != 0 || upstream.HasToken(asked[0], "h2c") ||
		!upstream.HasToken(strings.Join(r.Header["Connection"], ","), "upgrade") {
		return ""
	}
	return asked[0]
}

// tunnel passes bytes both ways until both sides have ended.
func (x *roundTrip) tunnel() Result {
	x.established(limiter.Success)
	res := Result{Status: http.StatusSwitchingProtocols, Outcome: limiter.Ignored}
	bc := x.bc
	defer x.hangUp()
	// Before net/http forgets of the client: a drain would miss both in between.
	if !x.rt.Tunnels.Add(bc) {
		return Result{Err: net.ErrClosed, Outcome: limiter.Ignored, Cut: true}
	}
	x.control()
	client, rw, err := x.rc.Hijack()
	if err != nil {
		x.rt.Tunnels.Remove(bc)
		return Result{Err: err, Outcome: limiter.Ignored, Cut: true}
	}
	x.rt.Tunnels.Swap(bc, client)
	defer x.rt.Tunnels.Remove(client)
	defer func() { _ = client.Close() }() // the tunnel is over
	if !x.stop() {
		return res
	}
	if err := errors.Join(client.SetDeadline(time.Time{}), bc.SetDeadline(time.Time{})); err != nil {
		return res
	}
	if _, err := client.Write(appendSwitch(x.out[:0], &x.head)); err != nil {
		return res
	}
	var both sync.WaitGroup
	both.Go(func() { pump(bc, client, rw.Reader, x.rt.StreamIdle) })
	pump(client, bc, bc.Reader, x.rt.StreamIdle)
	both.Wait()
	return res
}

// appendSwitch appends the head of the 101 answer.
func appendSwitch(b []byte, head *upstream.Head) []byte {
	b = strconv.AppendInt(append(b, "HTTP/1.1 "...), int64(head.Status), 10)
	b = append(b, " Switching Protocols\r\n"...)
	for _, f := range head.Fields {
		if f.Name == "Upgrade" || !upstream.IsHop(f.Name, head.Listed) {
			b = upstream.AppendField(b, f.Name, f.Value)
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
