package upstream_test

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/admitd/admitd/internal/ingress/httpgate/upstream"
)

// answer is an answer as it is read.
type answer struct {
	Status int
	Body   []byte
}

// readAnswer reads one to its end.
func readAnswer(br *bufio.Reader, method string, limit int) (answer, error) {
	var h upstream.Head
	if err := h.Read(br, limit); err != nil {
		return answer{}, err
	}
	b := upstream.NewBody(br, &h, method)
	body, err := io.ReadAll(&b)
	return answer{h.Status, body}, err
}

// Whatever a backend sends, reading it ends in an answer or in one of a few
// errors; what is accepted is what net/http reads, however it is cut up.
func FuzzReadAnswer(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabcHTTP/1.1 200 OK\r\n\r\n"), false)
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n0\r\nX-T: 1\r\n\r\n"), false)
	f.Add([]byte("HTTP/1.0 404 \r\nA: b\r\nConnection: keep-alive, x\r\n\r\nto the end"), false)
	f.Add([]byte("HTTP/1.1 204 No Content\r\nContent-Length: 3\r\n\r\n"), true)
	f.Add([]byte("HTTP/1.1 200 OK\r\nX: "+strings.Repeat("y", 5000)+"\r\nContent-Length: 1\r\n\r\nz"), true)
	f.Fuzz(func(t *testing.T, raw []byte, head bool) {
		method := http.MethodGet
		if head {
			method = http.MethodHead
		}
		got, err := readAnswer(bufio.NewReaderSize(bytes.NewReader(raw), 4096), method, 64<<10)
		slow, slowErr := readAnswer(bufio.NewReaderSize(iotest.OneByteReader(bytes.NewReader(raw)), 4096), method, 64<<10)
		if (err == nil) != (slowErr == nil) || !bytes.Equal(got.Body, slow.Body) || got.Status != slow.Status {
			t.Errorf("at once: %d %q %v; byte by byte: %d %q %v", got.Status, got.Body, err, slow.Status, slow.Body, slowErr)
		}
		if err != nil {
			if !errors.Is(err, upstream.ErrBadResponse) && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("error %v is none of the known", err)
			}
			return
		}
		resp, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), &http.Request{Method: method})
		if err != nil {
			return // we are more lenient on what does not frame anything
		}
		defer resp.Body.Close()
		if resp.StatusCode < 200 {
			return
		}
		body, err := io.ReadAll(resp.Body)
		if err == nil && (resp.StatusCode != got.Status || !bytes.Equal(body, got.Body)) {
			t.Errorf("net/http reads %d %q, we %d %q", resp.StatusCode, body, got.Status, got.Body)
		}
	})
}
