package main

import (
	"bytes"
	"fmt"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// field is a header field as it goes into HPACK, whatever it holds.
type field struct{ name, value string }

// overHTTP2 returns the vectors in which a request of HTTP/2 becomes one of HTTP/1.1.
func overHTTP2() []vector {
	var all []vector
	add := func(name, body string, given ...field) {
		id := fmt.Sprintf("v%dv", 1000+len(all))
		all = append(all, vector{id: id, name: "HTTP/2: " + name, frames: func(id string) []byte { return frames(id, given, body) }})
	}
	smuggled := "GET /ID/hidden HTTP/1.1\r\nHost: a\r\nX-Tenant: two\r\n\r\n"
	add("plain", "")
	add("a body", "hello")
	for _, length := range []string{"0", "3", "5", "500", "-1", "+5", "5, 5", "x", ""} {
		add(fmt.Sprintf("content-length %q and another body", length), smuggled, field{"content-length", length})
	}
	add("two lengths", "hello", field{"content-length", "5"}, field{"content-length", "0"})
	for _, value := range []string{"chunked", "identity", "chunked\r\nx: y", "gzip"} {
		add(fmt.Sprintf("transfer-encoding %q", value), "0\r\n\r\n"+smuggled, field{"transfer-encoding", value})
	}
	for _, f := range fields(smuggled) {
		add(fmt.Sprintf("%q: %.40q", f.name, f.value), "", f)
	}
	for _, f := range pseudoFields() {
		add(fmt.Sprintf("%s %.60q", f.name, f.value), "", f)
	}
	return all
}

// fields hold what would frame a message in HTTP/1.1, or say who asks.
func fields(smuggled string) []field {
	return []field{
		{"x", "y\r\nX-Tenant: two"},
		{"x", "y\nX-Tenant: two"},
		{"x", "y\r\n\r\n" + smuggled},
		{"x", "y\x00z"},
		{"x", "y\rz"},
		{"x\r\nx-tenant", "two"},
		{"x: y\r\nx-tenant", "two"},
		{"x y", "z"},
		{"x:", "y"},
		{"", "y"},
		{"X-Upper", "y"},
		{"x\x00", "y"},
		{":extra", "y"},
		{"connection", "close"},
		{"connection", "x-tenant"},
		{"upgrade", "websocket"},
		{"te", "chunked"},
		{"te", "trailers"},
		{"keep-alive", "x"},
		{"proxy-connection", "x-tenant"},
		{"host", "b"},
		{"host", "a\r\nX: y"},
		{"x-tenant", "two"},
		{"x_tenant", "two"},
		{"expect", "100-continue"},
		{"transfer_encoding", "chunked"},
		{"trailer", "x-tenant"},
		{"cookie", "a=b\r\nX: y"},
		{"x", " padded "},
	}
}

// pseudoFields hold more than a request line or a host.
func pseudoFields() []field {
	return []field{
		{":path", "/ID/first HTTP/1.1\r\nHost: a\r\nX-Tenant: two\r\n\r\nGET /ID/hidden"},
		{":path", "/ID/a b"},
		{":path", "/ID/a\tb"},
		{":path", "ID/first"},
		{":path", "http://b/ID/first"},
		{":path", "*"},
		{":path", "/ID/\x00"},
		{":path", "/ID/é"},
		{":path", "//b/ID/first"},
		{":path", ""},
		{":path", "/ID/first#x"},
		{":path", "/ID/first?a\r\nX: y"},
		{":method", "GET /ID/hidden HTTP/1.1\r\nX: y\r\n\r\nGET"},
		{":method", "G T"},
		{":method", "get"},
		{":method", ""},
		{":method", "HEAD"},
		{":method", "CONNECT"},
		{":method", "GET\r\n"},
		{":authority", "a\r\nX: y"},
		{":authority", "a/b"},
		{":authority", "a b"},
		{":authority", ""},
		{":authority", "user@a"},
		{":scheme", "http\r\nX: y"},
		{":scheme", "ftp"},
		{":scheme", "http://b/ID/hidden?"},
	}
}

// frames is a connection with one request. Fields whose names are pseudo-headers
// replace the usual ones.
func frames(id string, given []field, body string) []byte {
	var out, block bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, nil)
	framer.AllowIllegalWrites = true
	_ = framer.WriteSettings()
	method := "GET"
	if body != "" {
		method = "POST"
	}
	usual := []field{{":method", method}, {":scheme", "http"}, {":authority", "a"}, {":path", "/ID/first"}, {"x-tenant", "one"}}
	var rest []field
	for _, f := range given {
		replaced := false
		for i := range usual[:4] {
			if usual[i].name == f.name {
				usual[i], replaced = f, true
			}
		}
		if !replaced {
			rest = append(rest, f)
		}
	}
	encoder := hpack.NewEncoder(&block)
	for _, f := range append(usual, rest...) {
		value := bytes.ReplaceAll([]byte(f.value), []byte("ID"), []byte(id))
		_ = encoder.WriteField(hpack.HeaderField{Name: f.name, Value: string(value)})
	}
	_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: block.Bytes(), EndHeaders: true, EndStream: body == ""})
	if body != "" {
		_ = framer.WriteData(1, true, bytes.ReplaceAll([]byte(body), []byte("ID"), []byte(id)))
	}
	return out.Bytes()
}
