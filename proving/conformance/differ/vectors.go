package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// vector is something that a client may send.
type vector struct {
	id, name string
	raw      string // over HTTP/1.1; "" = frames
	frames   func(id string) []byte
}

// dial connects to the gate.
func (v *vector) dial(ctx context.Context, address string, overTLS bool) (net.Conn, error) {
	if !overTLS {
		return new(net.Dialer).DialContext(ctx, "tcp", address)
	}
	cfg := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // nobody else listens there
	if v.frames != nil {
		cfg.NextProtos = []string{"h2"}
	}
	return (&tls.Dialer{Config: cfg}).DialContext(ctx, "tcp", address)
}

// send sends the vector on a connection of its own and returns what came back
// until the gate fell silent.
func (v *vector) send(ctx context.Context, address string, overTLS bool) string {
	c, err := v.dial(ctx, address, overTLS)
	if err != nil {
		return err.Error()
	}
	defer c.Close()
	raw := []byte(v.raw)
	if v.frames != nil {
		raw = v.frames(v.id)
	}
	if _, err := c.Write(raw); err != nil {
		return err.Error()
	}
	var answer []byte
	b := make([]byte, 16<<10)
	for {
		_ = c.SetReadDeadline(time.Now().Add(700 * time.Millisecond))
		n, err := c.Read(b)
		answer = append(answer, b[:n]...)
		if err != nil {
			return string(answer)
		}
	}
}

// book collects vectors and numbers them.
type book struct{ vectors []vector }

// add adds requests; ID in them becomes the vector's number. Every line of the
// text ends in CRLF, but what is written as an escape stays as it is.
func (b *book) add(name, raw string) {
	id := fmt.Sprintf("v%03dv", len(b.vectors))
	b.vectors = append(b.vectors, vector{id: id, name: name, raw: strings.ReplaceAll(raw, "ID", id)})
}

const (
	post = "POST /ID/first HTTP/1.1\r\nHost: a\r\nX-Tenant: one\r\n"
	get  = "GET /ID/first HTTP/1.1\r\nHost: a\r\nX-Tenant: one\r\n"
	// hidden is the request that must not arrive unseen.
	hidden = "GET /ID/hidden HTTP/1.1\r\nHost: a\r\nX-Tenant: two\r\n\r\n"
)

// overHTTP1 returns the vectors over HTTP/1.1.
func overHTTP1() []vector {
	b := &book{}
	b.add("plain, two in a row", get+"\r\n"+hidden)
	b.add("length, two in a row", post+"Content-Length: 5\r\n\r\nhello"+hidden)
	b.add("chunked, two in a row", post+"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"+hidden)
	lengths(b)
	encodings(b)
	chunks(b)
	lines(b)
	targets(b)
	tenants(b)
	return b.vectors
}

// lengths are about Content-Length, alone and beside Transfer-Encoding.
func lengths(b *book) {
	length := strconv.Itoa(len(strings.ReplaceAll(hidden, "ID", "v000v")))
	for _, value := range []string{
		"+5", "-5", "0x5", "05", " 5", "5 ", "\t5", "5\t", "5,5", "5, 5", "5,6", "5;x", "5a", "a5", "5.0", "5e0", "٥", "", " ", "\"5\"",
		"18446744073709551621", "99999999999999999999", "5\v", "\v5", "5\x00", "4294967301",
	} {
		b.add(fmt.Sprintf("Content-Length %q", value), post+"Content-Length:"+value+"\r\n\r\nhello"+hidden)
	}
	for _, name := range []string{"Content-Length ", " Content-Length", "Content_Length", "Content-Length\x00", "Content-Length\t", "Content-Length\v", "X-Content-Length", "Content-Lengt\u212a"} {
		b.add(fmt.Sprintf("%q for a name", name), post+name+": 5\r\n\r\nhello"+hidden)
		b.add(fmt.Sprintf("%q beside a right one", name), post+name+": 0\r\nContent-Length: "+length+"\r\n\r\n"+hidden)
	}
	b.add("two lengths, equal", post+"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"+hidden)
	b.add("two lengths, different", post+"Content-Length: 0\r\nContent-Length: "+length+"\r\n\r\n"+hidden)
	b.add("two lengths, different, the other way", post+"Content-Length: "+length+"\r\nContent-Length: 0\r\n\r\n"+hidden)
	b.add("CL.0: GET with a body", get+"Content-Length: "+length+"\r\n\r\n"+hidden)
	b.add("CL.0: HEAD with a body", strings.Replace(get, "GET", "HEAD", 1)+"Content-Length: "+length+"\r\n\r\n"+hidden)
	b.add("CL.0: POST without a length", post+"\r\n"+hidden)
	b.add("CL.0: Connection lists Content-Length", post+"Connection: Content-Length\r\nContent-Length: "+length+"\r\n\r\n"+hidden)
	b.add("Expect with a body that comes at once", post+"Expect: 100-continue\r\nContent-Length: "+length+"\r\n\r\n"+hidden)
	b.add("Expect in another spelling", post+"Expect: 100-Continue, x\r\nContent-Length: "+length+"\r\n\r\n"+hidden)
	b.add("an upgrade with a body", post+"Connection: Upgrade\r\nUpgrade: websocket\r\nContent-Length: "+length+"\r\n\r\n"+hidden)
	b.add("an upgrade to h2c", get+"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n\r\n"+hidden)
}

// encodings are about Transfer-Encoding: CL.TE, TE.CL and TE.TE.
func encodings(b *book) {
	length := strconv.Itoa(len(strings.ReplaceAll(hidden, "ID", "v000v")) + 5)
	fields := []string{
		"Transfer-Encoding: chunked", "transfer-encoding: CHUNKED", "Transfer-Encoding:chunked", "Transfer-Encoding:\tchunked", "Transfer-Encoding: chunked ",
		"Transfer-Encoding : chunked", " Transfer-Encoding: chunked", "\tTransfer-Encoding: chunked", "Transfer-Encoding\t: chunked", "Transfer-Encoding\x00: chunked",
		"Transfer-Encoding: xchunked", "Transfer-Encoding: chunkedx", "Transfer-Encoding: x, chunked", "Transfer-Encoding: chunked, x", "Transfer-Encoding: chunked, chunked",
		"Transfer-Encoding: identity", "Transfer-Encoding: identity, chunked", "Transfer-Encoding: chunked, identity", "Transfer-Encoding: gzip, chunked", "Transfer-Encoding: \"chunked\"",
		"Transfer-Encoding: 'chunked'", "Transfer-Encoding: chunked;q=1", "Transfer-Encoding:\vchunked", "Transfer-Encoding: \x00chunked", "Transfer-Encoding: chunked\x00", "Transfer-Encoding: chunked\v",
		"Transfer-Encoding:\r\n chunked", "Transfer-Encoding: x\r\n chunked", "Transfer-Encoding: chunked\r\n x", "X: y\nTransfer-Encoding: chunked", "X: y\rTransfer-Encoding: chunked",
		"Transfer_Encoding: chunked", "Transfer-Encoding;: chunked", "Transfer-Encoding", "Transfer-Encoding: ", "Transfer-Encoding: ,", "Transfer-Encoding: , chunked", "Transfer-Encoding: chunked,",
		"Transfer-Encoding: chunked\r\nTransfer-Encoding: x", "Transfer-Encoding: x\r\nTransfer-Encoding: chunked", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
		"Transfer-Encoding: \xffchunked", "Transfer-Encoding: chun\u212aed", "Connection: Transfer-Encoding\r\nTransfer-Encoding: chunked", "TE: chunked", "Transfer-Encoding: chunked\r\nConnection: close, Transfer-Encoding",
	}
	for _, f := range fields {
		b.add(fmt.Sprintf("CL.TE with %q", f), post+"Content-Length: "+length+"\r\n"+f+"\r\n\r\n0\r\n\r\n"+hidden)
		b.add(fmt.Sprintf("TE.CL with %q", f), post+f+"\r\nContent-Length: 4\r\n\r\n"+fmt.Sprintf("%x\r\n", len(strings.ReplaceAll(hidden, "ID", "v000v")))+hidden+"\r\n0\r\n\r\n")
		b.add(fmt.Sprintf("alone: %q", f), post+f+"\r\n\r\n0\r\n\r\n"+hidden)
	}
	b.add("chunked in HTTP/1.0", strings.Replace(post, "1.1", "1.0", 1)+"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"+hidden)
	b.add("both in HTTP/1.0", strings.Replace(post, "1.1", "1.0", 1)+"Connection: keep-alive\r\nTransfer-Encoding: chunked\r\nContent-Length: "+length+"\r\n\r\n0\r\n\r\n"+hidden)
}

// chunks are about the chunks themselves.
func chunks(b *book) {
	head := post + "Transfer-Encoding: chunked\r\n\r\n"
	for _, chunk := range []string{
		"5;x=y\r\nhello\r\n0\r\n\r\n", "5;x=\"\r\nhello\r\n0\r\n\r\n", "5;\r\nhello\r\n0\r\n\r\n", "5 ;x\r\nhello\r\n0\r\n\r\n", "5;x\nhello\r\n0\r\n\r\n", "5\nhello\r\n0\r\n\r\n", "5\r\nhello\n0\r\n\r\n",
		"5\r\nhello\r\n0\n\n", "5\r\nhello\r\n0\r\n\n", "5\rhello\r\n0\r\n\r\n", "5\r\nhello0\r\n\r\n", "5\r\nhelloXX0\r\n\r\n", "0x5\r\nhello\r\n0\r\n\r\n", "+5\r\nhello\r\n0\r\n\r\n", "-5\r\nhello\r\n0\r\n\r\n",
		" 5\r\nhello\r\n0\r\n\r\n", "5 \r\nhello\r\n0\r\n\r\n", "5\t\r\nhello\r\n0\r\n\r\n", "0005\r\nhello\r\n0\r\n\r\n", "00000000000000000005\r\nhello\r\n0\r\n\r\n", "5_0\r\nhello\r\n0\r\n\r\n", "5g\r\nhello\r\n0\r\n\r\n",
		"10000000000000005\r\nhello\r\n0\r\n\r\n", "ffffffffffffffff\r\nhello\r\n0\r\n\r\n", "100000005\r\nhello\r\n0\r\n\r\n", "\r\nhello\r\n0\r\n\r\n", ";x\r\nhello\r\n0\r\n\r\n", "5\r\nhello\r\n00\r\n\r\n", "5\r\nhello\r\n0;x\r\n\r\n",
		"5\r\nhello\r\n0\r\nX-Trailer: a\r\n\r\n", "5\r\nhello\r\n0\r\nX-Tenant: two\r\n\r\n", "5\r\nhello\r\n0\r\nContent-Length: 500\r\n\r\n", "5\r\nhello\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n", "5\r\nhello\r\n0\r\nno colon\r\n\r\n",
		"5\r\nhello\r\n0\r\n X: y\r\n\r\n", "5;x=" + strings.Repeat("y", 9000) + "\r\nhello\r\n0\r\n\r\n", "2;\n\nxx\r\n0\r\n\r\n", "5;x\r\r\nhello\r\n0\r\n\r\n",
	} {
		b.add(fmt.Sprintf("chunks %.60q", chunk), head+chunk+hidden)
	}
}

// lines are about where a line, a name and a value end.
func lines(b *book) {
	for _, field := range []string{
		"X: y\nX-Tenant: two", "X: y\rX-Tenant: two", "X: y\r\n X-Tenant: two", "X: y\r\n\tX-Tenant: two", "X: y\x00X-Tenant: two", "X : y", ": y", "X y", "X\ry: z", "X: \x7f", "X: \x01", "(x): y", "X: y\n\nGET /ID/hidden HTTP/1.1\nHost: a",
		"X: y\r\r\nX-Tenant: two", "X: y\n\rX-Tenant: two", "X: \r\n\r\n", "Héader: y", "X: é", "X: \xff", "Host : b", "Host\t: b", "X:", "X",
	} {
		b.add(fmt.Sprintf("field %q", field), get+field+"\r\n\r\n"+hidden)
	}
	b.add("a blank line first", "\r\n"+get+"\r\n"+hidden)
	b.add("several blank lines first", "\r\n\r\n\r\n"+get+"\r\n"+hidden)
	b.add("a bare line feed first", "\n"+get+"\r\n"+hidden)
	b.add("bare line feeds throughout", strings.ReplaceAll(get+"\r\n"+hidden, "\r\n", "\n"))
	b.add("a folded first field", "GET /ID/first HTTP/1.1\r\n X-Tenant: one\r\nHost: a\r\n\r\n"+hidden)
	b.add("no Host", "GET /ID/first HTTP/1.1\r\nX-Tenant: one\r\n\r\n"+hidden)
	b.add("two Hosts", get+"Host: b\r\n\r\n"+hidden)
	b.add("two Hosts, one of them spaced", get+"Host : b\r\n\r\n"+hidden)
	b.add("a Host with a path", strings.Replace(get, "Host: a", "Host: a/b?c", 1)+"\r\n"+hidden)
	for _, line := range []string{
		"GET  /ID/first HTTP/1.1", "GET /ID/first  HTTP/1.1", "GET\t/ID/first\tHTTP/1.1", "GET /ID/first HTTP/1.1 ", " GET /ID/first HTTP/1.1", "get /ID/first HTTP/1.1", "G=T /ID/first HTTP/1.1", "GET /ID/first", "GET /ID/first HTTP/1.2",
		"GET /ID/first HTTP/2.0", "GET /ID/first HTTP/0.9", "GET /ID/first http/1.1", "GET /ID/first HTTP/1.1\x00", "GET /ID/first HTTP/01.1", "GET /ID/first HTTP/1.10", "GET /ID/first\vHTTP/1.1", "GET /ID/fi rst HTTP/1.1", "GET /ID/first\x00 HTTP/1.1",
		"GET /ID/first\r HTTP/1.1", "PRI * HTTP/2.0", "GET HTTP/1.1", "TRACE /ID/first HTTP/1.1", "CONNECT a:80 HTTP/1.1", "GETGET /ID/first HTTP/1.1", "FOO /ID/first HTTP/1.1",
	} {
		b.add(fmt.Sprintf("line %q", line), line+"\r\nHost: a\r\nX-Tenant: one\r\n\r\n"+hidden)
	}
}

// targets are about what a request asks for.
func targets(b *book) {
	for _, target := range []string{
		"http://a/ID/first", "http://b/ID/first", "https://b/ID/first", "ftp://b/ID/first", "http://user:pass@b/ID/first", "http:/ID/first", "//b/ID/first", "/ID/../ID/first", "/ID/%2e%2e/first", "/ID/first%2f", "/ID/first;x", "/ID/first#x", "/ID/first?x#y",
		"/ID\\first", "/ID/first%00", "/ID/first%0d%0aX:%20y", "/ID/é", "/ID/\xff", "*", "/./ID/first", "/ID//first", "ID/first", "?ID/first", "/ID/first?a=b c", "HTTP://A/ID/first", "http://a:80/ID/first", "http://a", "http://a?/ID/first", "/ID/%zz", "/ID/%",
	} {
		b.add(fmt.Sprintf("target %q", target), "GET "+target+" HTTP/1.1\r\nHost: a\r\nX-Tenant: one\r\n\r\n"+hidden)
	}
}

// tenants are about the header that makes the key.
func tenants(b *book) {
	line := "GET /ID/first HTTP/1.1\r\nHost: a\r\n"
	for _, field := range []string{
		"X-Tenant: one\r\nX-Tenant: two", "X-Tenant: one\r\nx-tenant: two", "X_Tenant: two\r\nX-Tenant: one", "X-Tenant: one\r\nX-Tenant : two", "X-Tenant: one, two", "X-Tenant:\r\n one", "X-Tenant: one\r\n two", "X-Tenant:\tone\t", "X-Tenant:", "X-Tenant: \x00",
		"X-Tenant: one\r\nConnection: X-Tenant", "X-Tenant: one\r\nConnection: close, x-tenant", "Connection: X-Tenant\r\nX-Tenant: one\r\nProxy-Connection: X-Tenant", "X-Tenant: one\nX-Tenant: two", "X-Tenant: one\rX-Tenant: two", "\tX-Tenant: two", "X-Tenant\x00: two",
		"X-Tenant: \"one\"", "X-Tenant: é", "X-Tenant: \xff", "X.Tenant: two\r\nX-Tenant: one",
	} {
		b.add(fmt.Sprintf("key %q", field), line+field+"\r\n\r\n"+hidden)
	}
}
