package ingress_test

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/ingress"
)

// A backend is down once it has failed three times over a second without an
// answer; an answer in between makes it one that fails now and then.
func TestHealth(t *testing.T) {
	type step struct {
		wait  time.Duration
		do    string // "fail", "answer", ""
		want  ingress.BackendState
		since time.Duration // from the start
	}
	for name, steps := range map[string][]step{
		"nobody has asked": {{time.Hour, "", ingress.BackendUnknown, 0}},
		"answers":          {{time.Second, "answer", ingress.BackendUp, time.Second}, {time.Hour, "answer", ingress.BackendUp, time.Second}},
		"dies and comes back": {
			{time.Second, "answer", ingress.BackendUp, time.Second},
			{time.Second, "fail", ingress.BackendFailing, 2 * time.Second},
			{500 * time.Millisecond, "fail", ingress.BackendFailing, 2 * time.Second},
			{500 * time.Millisecond, "fail", ingress.BackendDown, 2 * time.Second},
			{time.Hour, "", ingress.BackendDown, 2 * time.Second}, // nobody asks it: nothing is known to be better
			{0, "answer", ingress.BackendUp, time.Hour + 3*time.Second},
		},
		"fails often, all at once": {
			{time.Second, "fail", ingress.BackendFailing, time.Second},
			{0, "fail", ingress.BackendFailing, time.Second},
			{0, "fail", ingress.BackendFailing, time.Second},
			{0, "fail", ingress.BackendFailing, time.Second},
		},
		"an answer between failures": {
			{time.Second, "fail", ingress.BackendFailing, time.Second},
			{time.Second, "fail", ingress.BackendFailing, time.Second},
			{0, "answer", ingress.BackendFailing, 2 * time.Second},
			{time.Second, "fail", ingress.BackendFailing, 3 * time.Second},
			{9 * time.Second, "answer", ingress.BackendFailing, 12 * time.Second},
			{time.Second, "", ingress.BackendUp, 12 * time.Second},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := ingress.NewHealth("db:1")
				start := time.Now()
				for i, s := range steps {
					time.Sleep(s.wait)
					switch s.do {
					case "fail":
						h.Of("db:1").Failed(ingress.Unreachable, errors.New("refused"))
					case "answer":
						h.Of("db:1").Answered()
					}
					got := h.Status(time.Now())[0]
					if got.State != s.want {
						t.Fatalf("step %d: state %s, want %s", i, got.State, s.want)
					}
					if s.since > 0 && got.Since.Sub(start) != s.since {
						t.Fatalf("step %d: since %v, want %v", i, got.Since.Sub(start), s.since)
					}
				}
			})
		})
	}
}

// What is known of a backend outlives a reload that keeps it; a backend that the
// configuration does not name is counted among the others, however many.
func TestHealthKeeps(t *testing.T) {
	h := ingress.NewHealth("a", "b", "a")
	h.Of("a").Failed(ingress.Silent, errors.New("slow"))
	h.Of("nobody").Failed(ingress.HungUp, errors.New("gone"))
	h.Of("nobody else").Failed(ingress.HungUp, errors.New("gone"))
	h.Keep("c", "a")
	var got []string
	for _, s := range h.Status(time.Now()) {
		got = append(got, s.Address+" "+string(s.State)+" "+s.Cause)
	}
	if d := cmp.Diff([]string{"c unknown ", "a failing timeout", "other failing closed"}, got); d != "" {
		t.Errorf("status (-want +got):\n%s", d)
	}
	if n := h.Status(time.Now())[2].Failures[ingress.HungUp]; n != 2 {
		t.Errorf("others failed %d times, want 2", n)
	}
}

// A backend that fails is logged every ten seconds, with the failures since the
// line before, and once when it answers again.
func TestHealthLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		h := ingress.NewHealth("db:1").Log("orders", slog.New(slog.NewTextHandler(&b, nil)))
		for range 25 {
			h.Of("db:1").Failed(ingress.Unreachable, errors.New("refused"))
			time.Sleep(time.Second)
		}
		h.Of("db:1").Answered()
		h.Of("db:1").Answered()
		for _, want := range []string{"down=false failures=1 ", "down=true failures=2 ", "down=true failures=10 ", `msg="backend answers again" ingress=orders backend=db:1 was_down=25s failures=2`} {
			if !strings.Contains(b.String(), want) {
				t.Errorf("the log lacks %q:\n%s", want, b.String())
			}
		}
		if n := strings.Count(b.String(), "\n"); n != 5 {
			t.Errorf("%d lines, want 5:\n%s", n, b.String())
		}
	})
}

// An outage of seven seconds was one failure in the log, its end was not told, and its
// failures were told as those of the next one.
func TestHealthLogsShortOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		h := ingress.NewHealth("db:1").Log("orders", slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == slog.LevelKey || a.Key == "ingress" || a.Key == "backend" || a.Key == "error" || a.Key == "cause" {
				return slog.Attr{}
			}
			return a
		}})))
		fail := func() { h.Of("db:1").Failed(ingress.Unreachable, errors.New("refused")) }
		outage := func() {
			for range 70 {
				fail()
				time.Sleep(100 * time.Millisecond)
			}
			h.Of("db:1").Answered()
		}
		outage()
		time.Sleep(time.Minute)
		for range 5 { // too short to be down
			fail()
		}
		h.Of("db:1").Answered()
		time.Sleep(time.Minute)
		fail()
		want := `msg="backend fails" down=false failures=1
msg="backend fails" down=true failures=10
msg="backend answers again" was_down=7s failures=59
msg="backend fails" down=false failures=1
msg="backend fails" down=false failures=1 earlier_failures=4
`
		if d := cmp.Diff(want, b.String()); d != "" {
			t.Errorf("log (-want +got):\n%s", d)
		}
	})
}

// A gate without descriptors said "backend down" of backends that it had not asked,
// and whoever was on call looked there.
func TestHealthKnowsOwnWants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b bytes.Buffer
		h := ingress.NewHealth("db:1").Log("orders", slog.New(slog.NewTextHandler(&b, nil)))
		for _, errno := range []syscall.Errno{syscall.EMFILE, syscall.ENFILE} {
			h.Of("db:1").Failed(ingress.Unreachable, &net.OpError{Op: "dial", Err: os.NewSyscallError("socket", errno)})
			time.Sleep(time.Second)
		}
		got := h.Status(time.Now())[0]
		if got.State != ingress.BackendUnknown || got.Failures[ingress.Unreachable] != 0 {
			t.Errorf("the backend is %s after %d failures, want unknown after none", got.State, got.Failures[ingress.Unreachable])
		}
		if n := strings.Count(b.String(), "no file descriptor is left"); n != 1 {
			t.Errorf("%d lines within ten seconds, want 1:\n%s", n, b.String())
		}
	})
}

// An answer of a backend that answers costs nothing to speak of.
func TestHealthAllocates(t *testing.T) {
	b := ingress.NewHealth("db:1").Of("db:1")
	b.Answered()
	if n := testing.AllocsPerRun(100, b.Answered); n != 0 {
		t.Errorf("Answered allocates %v times", n)
	}
}
