package mongogate

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// ErrUnreachable is wrapped by [Server.Probe] when a backend does not answer.
var ErrUnreachable = errors.New("mongogate: backend does not answer")

// probedMax bounds the reply to the hello of a probe, in bytes.
const probedMax = 1 << 20

// Probe says hello to every backend and checks that the topology keeps drivers
// from walking around the gate. An error wraps [ErrBypass], which is a reason
// not to start, or [ErrUnreachable], which is not: until the backend answers,
// and with every later hello, the gate checks again.
func (s *Server) Probe(ctx context.Context) error {
	var errs []error
	for range s.o.Backends {
		c, addr, err := s.dial(ctx)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: %s: %w", ErrUnreachable, addr, err))
			continue
		}
		reply, err := s.askHello(c)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: %s: %w", ErrUnreachable, addr, err))
			continue
		}
		if err := s.hellos.check(reply); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
		}
	}
	return errors.Join(errs...)
}

// askHello says hello on c, closes it, and returns the reply's document.
func (s *Server) askHello(c net.Conn) ([]byte, error) {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(s.o.DialTimeout)); err != nil {
		return nil, err
	}
	doc := bsoncore.BuildDocument(nil, bsoncore.AppendInt32Element(nil, "hello", 1),
		bsoncore.AppendStringElement(nil, "$db", "admin"))
	if _, err := c.Write(newReply(0, opMsg, doc)); err != nil {
		return nil, err
	}
	var head [headerLen]byte
	if _, err := io.ReadFull(c, head[:]); err != nil {
		return nil, err
	}
	h, err := readHeader(head[:], probedMax)
	if err != nil {
		return nil, err
	}
	b := make([]byte, h.length-headerLen)
	if _, err := io.ReadFull(c, b); err != nil {
		return nil, err
	}
	m, ok := parseMessage(h.op, b)
	if !ok {
		return nil, fmt.Errorf("%w: reply to hello, opcode %d", errFrame, h.op)
	}
	return m.body, nil
}

// check returns an error that wraps ErrBypass when a backend with this reply
// to hello would be bypassed.
func (t *hellos) check(reply []byte) error {
	switch t.mode {
	case TopologyDirect, TopologyLoadBalanced:
		return nil
	case TopologyMembers:
		me, ok := lookup(reply, "me")
		if !ok {
			return nil
		}
		if _, mapped := t.members[string(me.str())]; !mapped {
			return fmt.Errorf("%w: topology.members has no gate for %s, which is how the member calls itself", ErrBypass, me.str())
		}
		return nil
	default:
		if replicaSet(reply) {
			return fmt.Errorf("%w: %s", ErrBypass, bypassAdvice)
		}
		return nil
	}
}
