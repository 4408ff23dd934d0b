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

// downward is the state of the backend's side.
type downward struct {
	at     reply
	taken  bool // the right to write to the client is held: part of a message was written
	nobody bool // the client reads no more
	wasted int  // bytes read to nobody
}

// down reads the backend's messages and passes them on. It returns when either
// side has gone.
func (s *Session) down() error {
	var d downward
	defer func() {
		if d.taken {
			s.client.tear()
		}
	}()
	handle := func() (more bool, err error) {
		err = s.landAll(&d)
		mid := d.at.left > 0 || len(s.back.next()) > 0
		if s.reading[Backend].set(mid); mid {
			s.reading[Backend].moved.Store(s.back.total)
		}
		return mid || s.Owes(), err
	}
	for {
		err := s.back.each(handle)
		if !errors.Is(err, os.ErrDeadlineExceeded) || !s.life.hungUp.Load() {
			return err
		}
		if d.at.left == 0 && len(s.back.next()) == 0 { // a drain ends between messages
			return io.EOF
		}
		if err := s.backend.Load().conn.SetReadDeadline(time.Now().Add(s.c.o.Linger)); err != nil {
			return err
		}
		s.life.hungUp.Store(false)
	}
}

// landAll deals with what is in the buffer.
func (s *Session) landAll(d *downward) error {
	for len(s.back.next()) > 0 {
		if d.at.left > 0 {
			if err := s.carry(d); err != nil {
				return err
			}
			continue
		}
		if ready, err := s.land(d); err != nil || !ready {
			return errors.Join(err, s.pour(d))
		}
	}
	return s.pour(d)
}

// land asks about the message at the head. ready is false when more of it must
// be there first.
func (s *Session) land(d *downward) (ready bool, err error) {
	m, ok, err := s.head(s.back, Backend)
	if err != nil || !ok {
		return false, err
	}
	v, err := s.p.Landed(s, m)
	if err != nil {
		return false, err
	}
	if v.Action == More {
		if err := s.pour(d); err != nil {
			return false, err
		}
		if s.back.full() {
			s.back.grow()
		}
		return false, nil
	}
	if v.Last {
		s.turn.land()
	}
	d.at = reply{left: m.Total, shown: len(m.Bytes), pass: v.Action == Pass && v.Instead == nil, last: v.Last}
	if d.at.pass {
		return true, nil
	}
	if err := s.pour(d); err != nil { // what is skipped must not stand behind what is not written
		return false, err
	}
	if v.Instead != nil {
		return true, s.deliver(d, v.Instead)
	}
	return true, nil
}

// carry moves behind what is there of a message.
func (s *Session) carry(d *downward) error {
	in, at := s.back, &d.at
	part := in.next()
	part = part[:min(at.left, len(part))]
	if len(part) > at.shown && s.follow != nil {
		s.follow.Follow(Backend, part[at.shown:])
	}
	at.shown = max(0, at.shown-len(part))
	in.p += len(part)
	at.left -= len(part)
	if !at.pass {
		in.r = in.p
	}
	if at.left > 0 || !at.last {
		return nil
	}
	if err := s.pour(d); err != nil {
		return err
	}
	return s.answered()
}

// answered ends the turn: whatever the client sent meanwhile has its own now.
func (s *Session) answered() error {
	s.turn.close()
	s.Wake()
	switch {
	case s.life.leaving.Load():
		return errNobody
	case s.Draining():
		s.life.answered.Store(true)
		s.nudge()
	}
	return nil
}

// pour writes what is decided to the client.
func (s *Session) pour(d *downward) error {
	in := s.back
	if in.p == in.r {
		return nil
	}
	b := in.buf[in.r:in.p]
	in.r = in.p
	return s.deliver(d, b)
}

// deliver writes to the client, and keeps the right to write in the middle of a
// message. When the client has gone it goes on while a permit is held: the
// backend is at work, and its answer is read to nobody.
func (s *Session) deliver(d *downward, b []byte) error {
	if !d.nobody {
		if !d.taken {
			s.client.take()
		}
		err := s.client.send(b)
		if d.taken = d.at.left > 0 && d.at.pass; !d.taken {
			s.client.give()
		}
		if err == nil {
			return nil
		}
		d.nobody = true
		s.turn.leave()
		_ = s.raw.Close() // the client's side notices
	}
	if d.wasted += len(b); d.wasted > finishBytes || s.c.o.Cancel || !s.turn.working() {
		return errNobody
	}
	return nil
}
