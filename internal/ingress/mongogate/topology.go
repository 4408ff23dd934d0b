package mongogate

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/internal/mongowire"
)

// ErrBypass is wrapped by errors about a backend whose hello would lead
// drivers around the gate.
var ErrBypass = errors.New("mongogate: drivers would bypass the gate")

// bypassAdvice says how to fix what ErrBypass reports.
const bypassAdvice = "the backend is a member of a replica set, whose hello tells drivers to connect to the members themselves; " +
	"set topology.mode to members and map each member to its gate, or to loadBalanced and connect with loadBalanced=true, " +
	"or to direct if every client connects with directConnection=true"

// hellos treats hello according to a topology.
type helloRewriter struct {
	mode    TopologyMode
	members map[string]string
}

// refuse returns why a client with this hello is not served, "" when it is.
func (t *helloRewriter) refuse(c *client) string {
	if t.mode == TopologyLoadBalanced && !c.loadBalanced {
		return "this gate serves load-balanced connections: add loadBalanced=true to the connection string"
	}
	return ""
}

// rewrite returns the reply to hello as the client may see it, appended to
// dst. An error wraps ErrBypass: the reply must not be passed on.
func (t *helloRewriter) rewrite(dst, reply []byte, backend string) ([]byte, error) {
	switch t.mode {
	case TopologyDirect:
		return append(dst, reply...), nil
	case TopologyMembers:
		return t.rename(dst, reply), nil
	case TopologyLoadBalanced:
		return addServiceID(dst, reply, backend), nil
	default:
		if replicaSet(reply) {
			return dst, fmt.Errorf("%w: %s", ErrBypass, bypassAdvice)
		}
		return append(dst, reply...), nil
	}
}

// replicaSet reports whether a reply to hello comes from a replica-set member.
func replicaSet(reply []byte) bool {
	var e mongowire.Element
	s := mongowire.Scan(reply)
	for s.Next(&e) {
		switch string(e.Key) {
		case "setName", "hosts", "isreplicaset":
			return true
		}
	}
	return false
}

// rename maps every member's address in the reply. Members without a gate are
// left out: clients never learn of them.
func (t *helloRewriter) rename(dst, reply []byte) []byte {
	at, dst := bsoncore.AppendDocumentStart(dst)
	var e mongowire.Element
	s := mongowire.Scan(reply)
	for s.Next(&e) {
		switch string(e.Key) {
		case "me", "primary":
			if to, ok := t.members[string(e.Text())]; ok {
				dst = bsoncore.AppendStringElement(dst, string(e.Key), to)
			}
		case "hosts", "passives", "arbiters":
			dst = t.renameAll(dst, string(e.Key), e.Document())
		default:
			dst = appendElement(dst, &e)
		}
	}
	return endDocument(dst, at)
}

// renameAll maps an array of addresses.
func (t *helloRewriter) renameAll(dst []byte, key string, s mongowire.Scanner) []byte {
	at, dst := bsoncore.AppendArrayElementStart(dst, key)
	var e mongowire.Element
	for i := 0; s.Next(&e); {
		if to, ok := t.members[string(e.Text())]; ok {
			dst = bsoncore.AppendStringElement(dst, strconv.Itoa(i), to)
			i++
		}
	}
	return endDocument(dst, at)
}

// addServiceID adds the id by which drivers tell the backends behind a load
// balancer apart, derived from the backend's address.
func addServiceID(dst, reply []byte, backend string) []byte {
	if _, ok := mongowire.Lookup(reply, "serviceId"); ok || !replyOK(reply) {
		return append(dst, reply...)
	}
	sum := sha256.Sum256([]byte(backend))
	at, dst := bsoncore.AppendDocumentStart(dst)
	var e mongowire.Element
	s := mongowire.Scan(reply)
	for s.Next(&e) {
		switch string(e.Key) {
		case "hosts", "passives", "arbiters", "me", "primary":
		default:
			dst = appendElement(dst, &e)
		}
	}
	dst = bsoncore.AppendObjectIDElement(dst, "serviceId", [12]byte(sum[:12]))
	return endDocument(dst, at)
}

// appendElement appends e as it is.
func appendElement(dst []byte, e *mongowire.Element) []byte {
	dst = append(dst, e.Type)
	dst = append(dst, e.Key...)
	dst = append(dst, 0)
	return append(dst, e.Value...)
}

// ErrUnreachable is wrapped by [Server.Probe] when a backend does not answer.
var ErrUnreachable = errors.New("mongogate: backend does not answer")

// probedMax bounds the reply to the hello of a probe, in bytes.
const probedMax = 1 << 20

// Probe asks the backends of the server's options, as [Probe] does.
func (s *Server) Probe(ctx context.Context) error { return s.current.Load().probe(ctx) }

// Probe is [settings.probe] for options that no server has yet.
func Probe(ctx context.Context, o Options) error {
	s, err := newSettings(o)
	if err != nil {
		return err
	}
	return s.probe(ctx)
}

// probe says hello to every backend and checks that the topology keeps drivers
// from walking around the gate. An error wraps [ErrBypass], which is a reason
// not to start, or [ErrUnreachable], which is not: until the backend answers,
// and with every later hello, the gate checks again.
func (o *settings) probe(ctx context.Context) error {
	var errs []error
	for _, addr := range o.Backends {
		c, _, err := o.dialer.Dial(ctx, addr)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: %s: %w", ErrUnreachable, addr, err))
			continue
		}
		reply, err := o.askHello(ctx, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("%w: %s: %w", ErrUnreachable, addr, err))
			continue
		}
		if err := o.hellos.check(reply); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
		}
	}
	return errors.Join(errs...)
}

// askHello says hello on c, closes it, and returns the reply's document.
func (s *settings) askHello(ctx context.Context, c net.Conn) ([]byte, error) {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(s.DialTimeout)); err != nil {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })() // fails only when closed
	doc := bsoncore.BuildDocument(nil, bsoncore.AppendInt32Element(nil, "hello", 1),
		bsoncore.AppendStringElement(nil, "$db", "admin"))
	if _, err := c.Write(newReply(0, mongowire.OpMsg, doc)); err != nil {
		return nil, err
	}
	h, b, err := mongowire.ReadFrame(c, nil, probedMax)
	if err != nil {
		return nil, err
	}
	m, ok := mongowire.ParseMessage(h.Op, b)
	if !ok {
		return nil, fmt.Errorf("%w: reply to hello, opcode %d", mongowire.ErrFrame, h.Op)
	}
	return m.Body, nil
}

// check returns an error that wraps ErrBypass when a backend with this reply
// to hello would be bypassed.
func (t *helloRewriter) check(reply []byte) error {
	switch t.mode {
	case TopologyDirect, TopologyLoadBalanced:
		return nil
	case TopologyMembers:
		me, ok := mongowire.Lookup(reply, "me")
		if !ok {
			return nil
		}
		if _, mapped := t.members[string(me.Text())]; !mapped {
			return fmt.Errorf("%w: topology.members has no gate for %s, which is how the member calls itself", ErrBypass, me.Text())
		}
		return nil
	default:
		if replicaSet(reply) {
			return fmt.Errorf("%w: %s", ErrBypass, bypassAdvice)
		}
		return nil
	}
}
