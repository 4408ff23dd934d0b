package trace_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/admitd/admitd/internal/lab/trace"
	"github.com/admitd/admitd/limiter"
)

// Two who write to one file share the recording; the last one to leave
// closes it, and the file is a trace.
func TestRecordingsAreShared(t *testing.T) {
	var r trace.Files
	file := filepath.Join(t.TempDir(), "orders.trace")
	first, leaveFirst, err := r.Record(file, 1<<16, nil)
	if err != nil {
		t.Fatal(err)
	}
	second, leaveSecond, err := r.Record(file, 1<<16, nil)
	if err != nil || first != second {
		t.Fatalf("the second has a recording of its own: %v", err)
	}
	gate := limiter.New("orders", &limiter.Policy{}, limiter.Options{Tracer: second})
	if err := leaveFirst(); err != nil {
		t.Fatal(err)
	}
	permit, err := gate.TryAdmit(gate.Now(), limiter.Request{Key: "a"})
	if err != nil {
		t.Fatal(err)
	}
	permit.EndSampled(time.Millisecond, limiter.Success)
	if err := leaveSecond(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	got, err := trace.Read(f)
	if err != nil || len(got.Arrivals) != 1 || !got.Arrivals[0].Served || got.Arrivals[0].Key != "a" {
		t.Errorf("trace is %+v, %v; want one arrival of a, served", got, err)
	}
	if _, _, err := r.Record(file, 1, nil); err == nil {
		t.Error("a file that has its size was opened")
	}
}

// A disk that was full was told of when the gate ended, perhaps weeks later: who
// recorded the peak of a day found nothing of it. It is told of at the first
// write that fails, and once.
func TestFullDiskOfARecordingIsTold(t *testing.T) {
	if info, err := os.Stat("/dev/full"); err != nil || info.Mode()&os.ModeCharDevice == 0 {
		t.Skip("needs the device /dev/full")
	}
	var r trace.Files
	told := make(chan error, 10)
	recorder, leave, err := r.Record("/dev/full", 1<<30, func(err error) { told <- err })
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Record("/dev/full", 1<<30, func(error) { t.Error("who joined was told too") }); err != nil {
		t.Fatal(err)
	}
	for range 1 << 14 { // more than the recorder keeps before it writes
		recorder.Offered(1, strings.Repeat("a", 100), 1)
	}
	if err := <-told; !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("told of %v; want a full disk", err)
	}
	recorder.Offered(1, "a", 1)
	if err := errors.Join(leave(), leave()); err != nil || len(told) > 0 {
		t.Errorf("told again in the end: %v, and %d times", err, len(told))
	}
}
