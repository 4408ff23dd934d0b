package trace_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/admitd/admitd/lab/trace"
	"github.com/admitd/admitd/limiter"
)

// Two who write to one file share the recording; the last one to leave
// closes it, and the file is a trace.
func TestRecordingsAreShared(t *testing.T) {
	var r trace.Files
	file := filepath.Join(t.TempDir(), "orders.trace")
	first, leaveFirst, err := r.Record(file, 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	second, leaveSecond, err := r.Record(file, 1<<16)
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
	if _, _, err := r.Record(file, 1); err == nil {
		t.Error("a file that has its size was opened")
	}
}
