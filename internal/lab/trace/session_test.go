package trace_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab/trace"
	"github.com/admitd/admitd/limiter"
)

// written returns the trace that calls of a recorder make.
func written(t *testing.T, calls func(w *trace.SyncRecorder)) *trace.Trace {
	t.Helper()
	var file bytes.Buffer
	calls(trace.NewSyncRecorder(&file))
	got, err := trace.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// A session begins where the one before ended, goes on at its own pace, and matches
// its permits with its own arrivals only: who was refused before a restart was not
// served after it.
func TestSessionsAreApart(t *testing.T) {
	var file bytes.Buffer
	w := trace.NewSyncRecorder(&file)
	w.Offered(1000, "refused", 1)
	w.Offered(1500, "served", 1)
	w.Ended(1500, 1800, 300, limiter.Success)
	w = trace.NewSyncRecorder(&file)
	w.Offered(70, "later", 1)
	w.Offered(90, "last", 1)
	w.Ended(80, 100, 20, limiter.Success) // waited: of the one at 70
	w.Ended(60, 120, 30, limiter.Success) // began before this session heard of anybody
	got, err := trace.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	want := &trace.Trace{Span: 850, Arrivals: []trace.Arrival{
		{Key: "refused", Cost: 1},
		{At: 500, Key: "served", Cost: 1, Served: true, Latency: 300, Outcome: limiter.Success},
		{At: 800, Key: "later", Cost: 1, Served: true, Waited: 10, Latency: 20, Outcome: limiter.Success},
		{At: 820, Key: "last", Cost: 1},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
}

// Requests of one moment are served one each.
func TestOneMoment(t *testing.T) {
	got := written(t, func(w *trace.SyncRecorder) {
		for range 3 {
			w.Offered(100, "", 1)
		}
		w.Ended(100, 300, 1, limiter.Success)
		w.Ended(100, 400, 2, limiter.Success)
	})
	var latencies []time.Duration
	for _, a := range got.Arrivals {
		latencies = append(latencies, a.Latency)
	}
	if diff := cmp.Diff([]time.Duration{1, 2, 0}, latencies); diff != "" {
		t.Errorf("latencies of three arrivals and two permits (-want +got):\n%s", diff)
	}
}

// Keys are bounded in length and number, by who writes and by who reads: what is
// beyond is cut, and shares the key without a name.
func TestKeysAreBounded(t *testing.T) {
	const most = 100_000
	long := strings.Repeat("k", 300)
	got := written(t, func(w *trace.SyncRecorder) {
		w.Offered(1, long, 1)
		for i := range most {
			w.Offered(2, fmt.Sprint(i), 1)
		}
		w.Offered(3, long, 1)
		w.Offered(3, "0", 1)
	})
	// One is the long key, one the key without a name.
	for i, want := range map[int]string{0: long[:256], 1: "0", most - 2: fmt.Sprint(most - 3), most - 1: "", most: "", most + 1: long[:256], most + 2: "0"} {
		if key := got.Arrivals[i].Key; key != want {
			t.Errorf("the key of arrival %d is %.20q; want %.20q", i, key, want)
		}
	}
	for n, want := range map[int]bool{256: true, 257: false} {
		if _, err := trace.Read(strings.NewReader(magic + come(1, 1, long[:n]))); (err == nil) != want {
			t.Errorf("a key of %d bytes: %v; want it taken: %v", n, err, want)
		}
	}
}

// Once a record did not fit, none is written: a shorter one behind it would leave a
// gap that nobody sees.
func TestRecordingEndsForGood(t *testing.T) {
	var file bytes.Buffer
	r := trace.NewRecorder(&file, 40)
	r.Offered(1, "a", 1)
	r.Offered(2, strings.Repeat("x", 100), 1)
	r.Offered(3, "a", 1)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := trace.Read(&file)
	if err != nil || len(got.Arrivals) != 1 {
		t.Errorf("trace is %+v, %v; want the arrival before what did not fit", got, err)
	}
}

// gated is a disk that hangs until it is told not to, and then keeps what it is given.
type gated struct {
	stuck
	mu   sync.Mutex // guards kept
	kept bytes.Buffer
}

func (g *gated) Write(b []byte) (int, error) {
	_, _ = g.stuck.Write(b)
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.kept.Write(b)
}

// What the buffer could not hold is in the trace as a number, so that nobody takes a
// recording with gaps for a whole one.
func TestLostRecordsAreTold(t *testing.T) {
	disk := &gated{stuck: stuck{make(chan struct{}, 1), make(chan struct{})}}
	r := trace.NewRecorder(disk, math.MaxInt64)
	put := uint64(0)
	offer := func() {
		put++
		r.Offered(int64(put), "key", 1)
	}
	for len(disk.hangs) == 0 { // until the writer waits for the disk
		offer()
	}
	for before := r.Lost(); r.Lost() < before+1000; {
		offer()
	}
	close(disk.free)
	for r.Lost() > 0 { // until the writer has come to a record behind the gap
		offer()
	}
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := trace.Read(&disk.kept)
	if err != nil || got.Lost < 1000 || uint64(len(got.Arrivals))+got.Lost != put {
		t.Errorf("%d arrivals and %d lost of %d, %v; want at least 1000 lost, and each counted", len(got.Arrivals), got.Lost, put, err)
	}
}

// A recording holds keys of users, and is for nobody else to read; one that has just
// its size is not opened.
func TestRecordingIsPrivate(t *testing.T) {
	var r trace.Files
	file := filepath.Join(t.TempDir(), "orders.trace")
	_, leave, err := r.Record(file, 100, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := leave(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("the file is %v, %v; want it to be its owner's only", info.Mode(), err)
	}
	if _, _, err := r.Record(file, info.Size(), nil); err == nil || !strings.Contains(err.Error(), "move it away") {
		t.Errorf("a file of just its size: %v; want it refused", err)
	}
	if _, leave, err = r.Record(file, info.Size()+1, nil); err != nil || leave() != nil {
		t.Errorf("a file that has room for a byte: %v", err)
	}
}

// The model counts who is inside by when they were admitted, and not by when they
// came: of those who wait in the gate the backend knows nothing.
func TestModelLeavesTheGatesQueueOut(t *testing.T) {
	list := &trace.Trace{}
	for i := range int64(200) {
		// Ten come at a time, and are let in one after the other.
		list.Arrivals = append(list.Arrivals, trace.Arrival{
			At: i / 10 * int64(time.Second), Waited: time.Duration(i%10) * 10 * time.Millisecond, Served: true, Latency: 10 * time.Millisecond, Outcome: limiter.Success,
		})
	}
	m, err := list.Model()
	if want := (trace.Model{Workers: 1, Service: 10 * time.Millisecond}); err != nil || m != want {
		t.Errorf("Model() = %+v, %v; want %+v", m, err, want)
	}
}

// A trace in which nothing was answered, as of a backend that was down, has nothing to
// draw from when the model is given: each request then asks for the mean. It once
// brought the replay down.
func TestWorksWithoutAnswers(t *testing.T) {
	down := &trace.Trace{Arrivals: []trace.Arrival{{At: 0}, {At: 5, Served: true, Latency: 7, Outcome: limiter.Dropped}}}
	works := down.Works(trace.Model{Workers: 2, Service: time.Millisecond}, rand.New(rand.NewPCG(1, 1)))
	if diff := cmp.Diff([]float64{1, 1}, works); diff != "" {
		t.Errorf("works (-want +got):\n%s", diff)
	}
}

// A trace is read from whatever gives it in pieces.
func TestReadInPieces(t *testing.T) {
	var file bytes.Buffer
	w := trace.NewSyncRecorder(&file)
	w.Offered(1, "key", 1)
	w.Ended(1, 9, 8, limiter.Success)
	whole, err := trace.Read(bytes.NewReader(file.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	pieces := make([]io.Reader, 0, file.Len())
	for _, b := range file.Bytes() {
		pieces = append(pieces, bytes.NewReader([]byte{b}))
	}
	got, err := trace.Read(io.MultiReader(pieces...))
	if diff := cmp.Diff(whole, got); diff != "" || err != nil {
		t.Errorf("byte by byte: %v (-whole +pieces):\n%s", err, diff)
	}
}
