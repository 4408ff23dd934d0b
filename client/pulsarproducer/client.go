package pulsarproducer

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/admitd/admitd/internal/pulsarwire"
)

// maxRedirects bounds how often a lookup is sent on.
const maxRedirects = 20

// Client is the connections to one service. It is safe for concurrent use.
type Client struct {
	address string
	o       Options

	mu     sync.Mutex // guards the fields below; never held across a wait
	conns  map[string]*conn
	closed bool
}

// Connect connects to the service at address, host:port. The client lives until
// [Client.Close], whatever becomes of ctx.
func Connect(ctx context.Context, address string, o Options) (*Client, error) {
	c := &Client{address: address, o: o.withDefaults(), conns: map[string]*conn{}}
	if _, err := c.conn(ctx, address, ""); err != nil {
		return nil, err
	}
	return c, nil
}

// Close closes all connections and waits for their goroutines. Producers and
// their messages fail with [ErrClosed].
func (c *Client) Close() {
	c.mu.Lock()
	c.closed = true
	conns := c.conns
	c.conns = map[string]*conn{}
	c.mu.Unlock()
	for _, cn := range conns {
		cn.fail(ErrClosed)
		cn.wg.Wait()
	}
}

// NewProducer returns a producer on a topic.
func (c *Client) NewProducer(ctx context.Context, topic string, o ProducerOptions) (*Producer, error) {
	cn, err := c.lookup(ctx, topic)
	if err != nil {
		return nil, err
	}
	return cn.newProducer(ctx, topic, o.withDefaults())
}

// partitions returns the number of partitions of a topic, 0 = not partitioned.
func (c *Client) partitions(ctx context.Context, topic string) (int, error) {
	cn, err := c.conn(ctx, c.address, "")
	if err != nil {
		return 0, err
	}
	f, err := cn.request(ctx, pulsarwire.TypePartitionedMetadata, func(id uint64) []byte {
		return pulsarwire.TopicRequest{Topic: topic, RequestID: id}.Append(nil)
	})
	if err != nil {
		return 0, err
	}
	m, err := pulsarwire.DecodePartitionedMetadata(f.Body)
	if err == nil && m.Failed {
		err = &ServerError{Code: m.Code, Message: m.Message}
	}
	return int(m.Partitions), err
}

// lookup returns a connection to the broker that serves a topic. It stays on the
// service when the answer says so.
func (c *Client) lookup(ctx context.Context, topic string) (*conn, error) {
	cn, err := c.conn(ctx, c.address, "")
	for range maxRedirects {
		if err != nil {
			return nil, err
		}
		f, err := cn.request(ctx, pulsarwire.TypeLookup, func(id uint64) []byte {
			return pulsarwire.TopicRequest{Topic: topic, RequestID: id}.Append(nil)
		})
		if err != nil {
			return nil, err
		}
		l, err := pulsarwire.DecodeLookupResponse(f.Body)
		if err != nil {
			return nil, err
		}
		if l.Response == pulsarwire.LookupFailed {
			return nil, &ServerError{Code: l.Code, Message: l.Message}
		}
		broker := strings.TrimPrefix(l.BrokerURL, "pulsar://")
		physical, proxied := broker, ""
		if l.ThroughServiceURL {
			physical, proxied = c.address, broker
		}
		cn, err = c.conn(ctx, physical, proxied)
		if l.Response == pulsarwire.LookupConnect {
			return cn, err
		}
	}
	return nil, fmt.Errorf("pulsarproducer: lookup of %s was sent on more than %d times", topic, maxRedirects)
}

// conn returns the connection to an address on behalf of a broker, making it
// when there is none.
func (c *Client) conn(ctx context.Context, address, proxied string) (*conn, error) {
	key := address + " " + proxied
	c.mu.Lock()
	cn, closed := c.conns[key], c.closed
	c.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	if cn != nil && !cn.over() {
		return cn, nil
	}
	cn, err := dial(ctx, &c.o, address, proxied)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if other := c.conns[key]; c.closed || (other != nil && !other.over()) {
		cn.fail(ErrClosed)
		if c.closed {
			return nil, ErrClosed
		}
		return other, nil
	}
	c.conns[key] = cn
	return cn, nil
}
