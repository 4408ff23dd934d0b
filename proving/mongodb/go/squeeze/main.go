// Command squeeze stands before a server that does not speak OP_COMPRESSED and
// speaks it for it: no server that can be had does. What it counts it tells over
// HTTP: driver, compressor, requests and replies that were compressed.
//
//	squeeze LISTEN SERVER COUNTS
package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"sync"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver"
	"go.mongodb.org/mongo-driver/v2/x/mongo/driver/wiremessage"
)

// counts are what was compressed, by driver and compressor.
type counts struct {
	mu sync.Mutex
	n  map[string]*[2]int
}

func (c *counts) add(who string, id wiremessage.CompressorID, way int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := who + " " + id.String()
	if c.n[key] == nil {
		c.n[key] = &[2]int{}
	}
	c.n[key][way]++
}

// ServeHTTP tells them, a line each.
func (c *counts) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(c.n)) {
		_, _ = fmt.Fprintln(w, key, c.n[key][0], c.n[key][1])
	}
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: squeeze LISTEN SERVER COUNTS")
		os.Exit(2)
	}
	fmt.Fprintln(os.Stderr, run(context.Background(), os.Args[1], os.Args[2], os.Args[3]))
	os.Exit(1)
}

// run serves until it cannot.
func run(ctx context.Context, listen, server, tell string) error {
	all := &counts{n: map[string]*[2]int{}}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", listen)
	if err != nil {
		return err
	}
	t, err := lc.Listen(ctx, "tcp", tell)
	if err != nil {
		return err
	}
	go func() { fmt.Fprintln(os.Stderr, http.Serve(t, all)) }()
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go serve(ctx, c, server, all)
	}
}

// serve passes one connection on.
func serve(ctx context.Context, c net.Conn, server string, all *counts) {
	defer func() { _ = c.Close() }()
	var d net.Dialer
	up, err := d.DialContext(ctx, "tcp", server)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	defer func() { _ = up.Close() }()
	p := &pair{client: c, server: up, counts: all, how: map[int32]wiremessage.CompressorID{}, offers: map[int32][]string{}}
	go func() {
		if err := p.replies(); !errors.Is(err, io.EOF) {
			fmt.Fprintln(os.Stderr, "replies:", err)
		}
		_ = c.Close()
	}()
	if err := p.requests(); !errors.Is(err, io.EOF) {
		fmt.Fprintln(os.Stderr, "requests:", err)
	}
}

// pair is a client and its server.
type pair struct {
	client, server net.Conn
	counts         *counts

	mu     sync.Mutex
	who    string                             // driver
	how    map[int32]wiremessage.CompressorID // by id of the request
	offers map[int32][]string                 // what a hello offered
}

// frame reads one.
func frame(r io.Reader) ([]byte, error) {
	head := make([]byte, 4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil, io.EOF
	}
	n := binary.LittleEndian.Uint32(head)
	if n < 16 || n > 49<<20 {
		return nil, fmt.Errorf("a frame of %d bytes", n)
	}
	b := make([]byte, n)
	copy(b, head)
	_, err := io.ReadFull(r, b[4:])
	return b, err
}

// requests passes what the client says, opened.
func (p *pair) requests() error {
	for {
		b, err := frame(p.client)
		if err != nil {
			return err
		}
		_, id, to, op, rest, _ := wiremessage.ReadHeader(b)
		if op == wiremessage.OpCompressed {
			if b, err = p.open(id, to, rest); err != nil {
				return err
			}
		} else {
			p.greeted(id, op, rest)
		}
		if _, err := p.server.Write(b); err != nil {
			return err
		}
	}
}

// open returns the frame within a compressed one.
func (p *pair) open(id, to int32, rest []byte) ([]byte, error) {
	op, rest, _ := wiremessage.ReadCompressedOriginalOpCode(rest)
	size, rest, _ := wiremessage.ReadCompressedUncompressedSize(rest)
	how, rest, ok := wiremessage.ReadCompressedCompressorID(rest)
	if !ok {
		return nil, io.ErrUnexpectedEOF
	}
	plain, err := driver.DecompressPayload(rest, driver.CompressionOpts{Compressor: how, UncompressedSize: size})
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	p.how[id] = how
	p.counts.add(p.who, how, 0)
	p.mu.Unlock()
	return build(id, to, op, plain), nil
}

func build(id, to int32, op wiremessage.OpCode, payload []byte) []byte {
	at, b := wiremessage.AppendHeaderStart(nil, id, to, op)
	b = append(b, payload...)
	return bsoncore.UpdateLength(b, at, int32(len(b)))
}

// greeted notes what a hello offers.
func (p *pair) greeted(id int32, op wiremessage.OpCode, rest []byte) {
	doc, _ := document(op, rest)
	if doc == nil {
		return
	}
	offered, ok := doc.Lookup("compression").ArrayOK()
	if !ok {
		return
	}
	var names []string
	values, _ := offered.Values()
	for _, v := range values {
		names = append(names, v.StringValue())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.offers[id] = names
	if name, ok := doc.Lookup("client", "driver", "name").StringValueOK(); ok {
		p.who = name
	}
}

// opQuery carries the first hello of some drivers.
const opQuery wiremessage.OpCode = 2004

// document finds the body of a message, and where it begins.
func document(op wiremessage.OpCode, b []byte) (bsoncore.Document, int) {
	skip := 0
	switch op { //nolint:exhaustive // hellos come in no other
	case wiremessage.OpMsg:
		skip = 5 // flags, kind
	case wiremessage.OpReply:
		skip = 20
	case opQuery: // flags, name, how many to skip and to return
		skip = 4 + bytes.IndexByte(b[4:], 0) + 1 + 8
	}
	if skip == 0 || skip > len(b) {
		return nil, 0
	}
	doc, _, ok := bsoncore.ReadDocument(b[skip:])
	if !ok {
		return nil, 0
	}
	return doc, skip
}

// replies passes what the server says, squeezed where the request was.
func (p *pair) replies() error {
	for {
		b, err := frame(p.server)
		if err != nil {
			return err
		}
		_, id, to, op, rest, _ := wiremessage.ReadHeader(b)
		p.mu.Lock()
		how, squeezed := p.how[to]
		delete(p.how, to)
		offered := p.offers[to]
		delete(p.offers, to)
		who := p.who
		p.mu.Unlock()
		switch {
		case offered != nil:
			b = agree(id, to, op, rest, offered)
		case squeezed:
			if b, err = squeeze(id, to, op, rest, how); err != nil {
				return err
			}
			p.counts.add(who, how, 1)
		}
		if _, err := p.client.Write(b); err != nil {
			return err
		}
	}
}

// agree adds to the answer to a hello what can be spoken.
func agree(id, to int32, op wiremessage.OpCode, rest []byte, offered []string) []byte {
	doc, at := document(op, rest)
	b := bsoncore.NewArrayBuilder()
	for _, name := range offered {
		switch name {
		case "zlib", "snappy", "zstd":
			b.AppendString(name)
		}
	}
	elements := append([]byte{}, doc[4:len(doc)-1]...)
	elements = bsoncore.AppendArrayElement(elements, "compression", b.Build())
	return build(id, to, op, append(append([]byte{}, rest[:at]...), bsoncore.BuildDocument(nil, elements)...))
}

func squeeze(id, to int32, op wiremessage.OpCode, rest []byte, how wiremessage.CompressorID) ([]byte, error) {
	small, err := driver.CompressPayload(rest, driver.CompressionOpts{Compressor: how, ZlibLevel: 6, ZstdLevel: 6})
	if err != nil {
		return nil, err
	}
	b := wiremessage.AppendCompressedOriginalOpCode(nil, op)
	b = wiremessage.AppendCompressedUncompressedSize(b, int32(len(rest)))
	b = wiremessage.AppendCompressedCompressorID(b, how)
	return build(id, to, wiremessage.OpCompressed, append(b, small...)), nil
}
