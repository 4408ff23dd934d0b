package relay

import (
	"errors"
	"io"
	"os"
	"time"
)

// reply is a message of the backend of which the end has not come.
type reply struct {
	left  int  // bytes to come; 0 = between messages
	shown int  // of those that Landed was shown
	pass  bool // to the client
	last  bool // it ends the turn
}

// backendSide is the backend's side of a session.
type backendSide struct {
	side

	at     reply
	taken  bool          // the right to write to the client is held: part of a message was written
	nobody bool          // the client reads no more
	lane   peerWriter    // to the backend, for the client's side
	wasted int           // bytes read to nobody
	ended  chan struct{} // closed when its goroutine returned
	crash  any           // what it panicked with; read after ended, as is the next
	fault  error         // why it ended the session; nil = it did not
}

// gone is closed when the backend's side has ended; nil while there is none.
func (d *backendSide) gone() <-chan struct{} {
	if d == nil {
		return nil
	}
	return d.ended
}

// loop runs the backend's side until it is over or sleeps. A panic is handed to Serve's goroutine,
// whose caller recovers it.
func (d *backendSide) loop() {
	asleep := false
	defer func() {
		if !asleep {
			d.crash = recover()
			d.cut()
			close(d.ended)
		}
	}()
	err := d.run()
	for errors.Is(err, errIdle) {
		if asleep = d.parkIdle(); asleep {
			return
		}
		err = d.run()
	}
	ours := errors.Is(err, errNobody) || errors.Is(err, os.ErrDeadlineExceeded) || d.life.hungUp.Load()
	if ours {
		return
	}
	d.life.lost.Store(true)
	if !d.life.leaving.Load() {
		d.fault = err
	}
}

// run reads the backend's messages and passes them on. It returns when either
// side has gone, and errTired when nothing has come for a while.
func (d *backendSide) run() error {
	defer func() {
		if d.taken {
			d.client.tear()
		}
	}()
	handle := func() (more bool, err error) {
		err = d.landAll()
		mid := d.at.left > 0 || len(d.in.next()) > 0
		if d.reading.set(mid); mid {
			d.reading.moved.Store(d.in.total)
		}
		d.setIdleDeadline()
		return mid || d.Owes(), err
	}
	for {
		d.setIdleDeadline()
		err := d.in.each(handle)
		if d.isIdle(err) {
			if err = d.idled(d.at.left > 0); err != nil {
				return err
			}
			continue
		}
		if !errors.Is(err, os.ErrDeadlineExceeded) || !d.life.hungUp.Load() {
			return err
		}
		if d.at.left == 0 && len(d.in.next()) == 0 { // a drain ends between messages
			return io.EOF
		}
		if err := d.backend.Load().conn.SetReadDeadline(time.Now().Add(d.o.Linger)); err != nil {
			return err
		}
		d.life.hungUp.Store(false)
	}
}

// landAll deals with what is in the buffer.
func (d *backendSide) landAll() error {
	for len(d.in.next()) > 0 {
		if d.at.left > 0 {
			if err := d.carry(); err != nil {
				return err
			}
			continue
		}
		if ready, err := d.land(); err != nil || !ready {
			return errors.Join(err, d.pour())
		}
	}
	return d.pour()
}

// land asks about the message at the head. ready is false when more of it must
// be there first.
func (d *backendSide) land() (ready bool, err error) {
	m, ok, err := d.head()
	if err != nil || !ok {
		return false, err
	}
	d.health.Answered()
	v, err := d.p.Landed(d.Session, m)
	if err != nil {
		return false, err
	}
	if v.Action == More {
		if err := d.pour(); err != nil {
			return false, err
		}
		if d.in.full() {
			d.in.grow()
		}
		return false, nil
	}
	if v.Last {
		d.Turn.land()
	}
	d.at = reply{left: m.Total, shown: len(m.Bytes), pass: v.Action == Pass && v.Instead == nil, last: v.Last}
	if d.at.pass {
		return true, nil
	}
	if err := d.pour(); err != nil { // what is skipped must not stand behind what is not written
		return false, err
	}
	if v.Instead != nil {
		return true, d.deliver(v.Instead)
	}
	return true, nil
}

// carry moves behind what is there of a message.
func (d *backendSide) carry() error {
	at := &d.at
	d.advance(&at.left, &at.shown)
	if !at.pass {
		d.in.r = d.in.p
	}
	if at.left > 0 || !at.last {
		return nil
	}
	if err := d.pour(); err != nil {
		return err
	}
	return d.answered()
}

// answered ends the turn: whatever the client sent meanwhile has its own now.
func (d *backendSide) answered() error {
	d.fulfil()
	d.Wake()
	switch {
	case d.life.leaving.Load() && (d.many == nil || !d.many.Leave()):
		return errNobody
	case d.Draining():
		d.life.answered.Store(true)
		d.nudge()
	}
	return nil
}

// pour writes what is decided to the client.
func (d *backendSide) pour() error {
	in := &d.in
	if in.p == in.r {
		return nil
	}
	b := in.buf[in.r:in.p]
	in.r = in.p
	return d.deliver(b)
}

// deliver writes to the client, and keeps the right to write in the middle of a
// message. When the client has gone it goes on while a permit is held: the
// backend is at work, and its answer is read to nobody.
func (d *backendSide) deliver(b []byte) error {
	if !d.nobody {
		if !d.taken {
			d.client.take()
		}
		err := d.client.send(b)
		d.resume()
		if d.taken = d.at.left > 0 && d.at.pass; !d.taken {
			d.client.give()
		}
		if err == nil {
			return nil
		}
		d.nobody = true
		d.cut() // the client's side notices
	}
	working := d.leave()
	if d.wasted += len(b); d.wasted > finishBytes || d.o.Cancel || !working {
		return errNobody
	}
	return nil
}
