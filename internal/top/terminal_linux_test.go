package top_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/admitd/admitd/internal/top"
)

// pty opens a pseudo terminal of 100×30: what the user has, and what the
// program has.
func pty(t *testing.T) (user, program *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	fd := int(user.Fd())
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 30, Col: 100})
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo terminals here: %v", err)
	}
	t.Cleanup(func() { _ = program.Close(); _ = user.Close() })
	return user, program
}

// screen collects what the program draws.
type screen struct {
	mu   sync.Mutex // guards the fields below
	text bytes.Buffer
	want string
	seen chan struct{} // closed when want was drawn
}

func (s *screen) read(user *os.File) {
	buf := make([]byte, 4096)
	for {
		n, err := user.Read(buf)
		s.mu.Lock()
		s.text.Write(buf[:n])
		if s.want != "" && strings.Contains(s.text.String(), s.want) {
			s.want = ""
			close(s.seen)
		}
		s.mu.Unlock()
		if err != nil {
			return
		}
	}
}

// However top ends, the terminal is as it was: by q, by Ctrl-C, by a signal or
// another end of its context.
func TestRestoresTheTerminal(t *testing.T) {
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"version": "v1", "uptimeSeconds": 7, "clock": {"trusted": true}, "config": {"lastSuccessful": true}, "ingresses": [
			{"name": "orders", "partitions": [{"name": "checkout", "limit": 5}]}]}`)
	}))
	defer admin.Close()
	for name, end := range map[string]func(user *os.File, cancel func()){
		"q":       func(user *os.File, _ func()) { _, _ = user.WriteString("q") },
		"Ctrl-C":  func(user *os.File, _ func()) { _, _ = user.WriteString("\x03") },
		"context": func(_ *os.File, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			user, program := pty(t)
			before, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			s := &screen{want: "checkout", seen: make(chan struct{})}
			go s.read(user)
			order, _ := top.OrderOf("name")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				ended <- top.Screen(ctx, program, top.Options{Admin: admin.URL}, &top.View{Order: order, Colour: true})
			}()
			select {
			case <-s.seen:
			case <-time.After(10 * time.Second):
				t.Fatal("nothing was drawn within 10s")
			}
			during, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			if during.Lflag&unix.ECHO != 0 {
				t.Error("keys are echoed while top runs")
			}
			end(user, cancel)
			select {
			case err := <-ended:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("top did not end within 10s")
			}
			after, err := unix.IoctlGetTermios(int(program.Fd()), unix.TCGETS)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("terminal (-before +after):\n%s", diff)
			}
			_, _ = program.WriteString("the end")
			eventually := time.After(10 * time.Second)
			for {
				s.mu.Lock()
				text := s.text.String()
				s.mu.Unlock()
				if strings.HasSuffix(text, top.Leave+"the end") && strings.HasPrefix(text, top.Enter) {
					break
				}
				select {
				case <-eventually:
					t.Fatalf("drawn: %q; want the other screen entered first and left last", text)
				case <-time.After(10 * time.Millisecond):
				}
			}
		})
	}
}

// On a terminal: what is searched is asked of the daemon, so that tenants are
// found that it does not list, and one of them is explained.
func TestSearchOnATerminal(t *testing.T) {
	admin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := "busy"
		if r.URL.Query().Get("find") == "far" {
			name = "faraway"
		}
		fmt.Fprintf(w, `{"version": "v1", "uptimeSeconds": 7, "clock": {"trusted": true}, "config": {"lastSuccessful": true}, "ingresses": [
			{"name": "orders", "partitions": [{"name": %q, "limit": 5, "explain": "The limit of %s is 5."}]}]}`, name, name)
	}))
	defer admin.Close()
	user, program := pty(t)
	s := &screen{seen: make(chan struct{})}
	expect := func(want string) {
		t.Helper()
		s.mu.Lock()
		s.text.Reset()
		s.want, s.seen = want, make(chan struct{})
		seen := s.seen
		s.mu.Unlock()
		select {
		case <-seen:
		case <-time.After(10 * time.Second):
			t.Fatalf("%q was not drawn within 10s: %q", want, s.text.String())
		}
	}
	go s.read(user)
	order, _ := top.OrderOf("name")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		ended <- top.Screen(ctx, program, top.Options{Admin: admin.URL}, &top.View{Order: order})
	}()
	expect("busy")
	_, _ = user.WriteString("/far")
	expect("faraway")
	_, _ = user.WriteString("\r\r")
	expect("The limit of faraway is 5.")
	_, _ = user.WriteString("q")
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
