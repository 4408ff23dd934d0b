package trace_test

import (
	"bytes"
	"errors"
	"io"
	"math"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab/trace"
	"github.com/admitd/admitd/limiter"
)

// What a gate was asked comes out of the file as it went in.
func TestRecorderRoundTrip(t *testing.T) {
	var file bytes.Buffer
	r := trace.NewRecorder(&file, 1<<20)
	r.Offered(1000, "a", 1)
	r.Offered(2000, "b", 2.5)
	r.Offered(2500, "a", 1) // refused
	r.Ended(1000, 5000, 4000, limiter.Success)
	r.Ended(2000, 9000, 7000, limiter.Dropped)
	r.Offered(3000, "c", 1)
	r.Ended(3400, 9500, 6100, limiter.Success) // waited 400 ns
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	// A second session is appended, as after a restart, with a clock of its own.
	r = trace.NewRecorder(&file, 1<<20)
	r.Offered(70, "b", 1)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
	got, err := trace.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	want := &trace.Trace{Span: 8500, Arrivals: []trace.Arrival{
		{At: 0, Key: "a", Cost: 1, Served: true, Latency: 4000, Outcome: limiter.Success},
		{At: 1000, Key: "b", Cost: 2.5, Served: true, Latency: 7000, Outcome: limiter.Dropped},
		{At: 1500, Key: "a", Cost: 1},
		{At: 2000, Key: "c", Cost: 1, Served: true, Waited: 400, Latency: 6100, Outcome: limiter.Success},
		{At: 8500, Key: "b", Cost: 1},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("trace (-want +got):\n%s", diff)
	}
}

// A recording never passes its size, and ends with a whole record.
func TestRecorderKeepsItsSize(t *testing.T) {
	for _, size := range []int64{8, 100, 1000} {
		var file bytes.Buffer
		r := trace.NewRecorder(&file, size)
		for i := range int64(1000) {
			r.Offered(i*1e6, "some tenant", 1)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
		if n := int64(file.Len()); n > size || n != r.Written() {
			t.Errorf("%d bytes were written of at most %d; Written() = %d", n, size, r.Written())
		}
		trace, err := trace.Read(&file)
		if err != nil || trace.Cut {
			t.Errorf("a recording of %d bytes: cut %v, %v", size, trace != nil && trace.Cut, err)
		}
	}
}

// stuck is a file whose disk hangs until it is told not to.
type stuck struct {
	hangs chan struct{} // gets a value when the disk hangs for the first time
	free  chan struct{}
}

func (s stuck) Write(b []byte) (int, error) {
	select {
	case s.hangs <- struct{}{}:
	default:
	}
	<-s.free
	return len(b), nil
}

// A disk that hangs does not hold requests up: what cannot be buffered is lost
// and counted.
func TestRecorderNeverBlocks(t *testing.T) {
	disk := stuck{make(chan struct{}, 1), make(chan struct{})}
	r := trace.NewRecorder(disk, math.MaxInt64)
	for now := int64(0); len(disk.hangs) == 0; now++ {
		r.Offered(now, "key", 1)
	}
	before := r.Lost() // from here on nobody reads the buffer, or takes losses down
	const each = 50_000
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range int64(each) {
				r.Offered(i, "key", 1)
			}
		})
	}
	wg.Wait() // for ever, if they were held up
	if lost := r.Lost() - before; lost < 3*each {
		t.Errorf("%d of %d records were lost; want all that the buffer cannot hold", lost, 4*each)
	}
	close(disk.free)
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// A disk that is full ends the recording with its error.
func TestRecorderTellsOfErrors(t *testing.T) {
	read, write := io.Pipe()
	full := errors.New("no space left")
	read.CloseWithError(full)
	r := trace.NewRecorder(write, 1000)
	r.Offered(1, "", 1)
	if err := r.Close(); !errors.Is(err, full) {
		t.Errorf("Close() = %v; want %v", err, full)
	}
}

// A crash leaves half a record at the end; the rest is still good.
func TestReadTraceCutShort(t *testing.T) {
	var file bytes.Buffer
	w := trace.NewSyncRecorder(&file)
	w.Offered(1, "key", 1)
	w.Offered(2, "key", 1)
	whole := file.Len()
	w.Ended(1, 1_000_000, 999_999, limiter.Success)
	got, err := trace.Read(bytes.NewReader(file.Bytes()[:whole+3]))
	if err != nil || !got.Cut || len(got.Arrivals) != 2 {
		t.Errorf("ReadTrace = %+v, %v; want two arrivals and Cut", got, err)
	}
	for _, bad := range []string{"", "ADMTRC2\n", "ADMTRC1\n\x09", "ADMTRC1\n\x01\x00\x05", "ADMTRC1\nADMIN"} {
		if _, err := trace.Read(bytes.NewReader([]byte(bad))); !errors.Is(err, trace.ErrTrace) && bad != "ADMTRC1\nADMIN" {
			t.Errorf("ReadTrace(%q) = %v; want ErrTrace", bad, err)
		}
	}
}

// No bytes make the reader panic, or believe in more arrivals than bytes.
func FuzzReadTrace(f *testing.F) {
	var file bytes.Buffer
	w := trace.NewSyncRecorder(&file)
	w.Offered(1, "key", 1)
	w.Offered(5, "other", 7)
	w.Ended(1, 9, 8, limiter.Success)
	f.Add(file.Bytes())
	f.Add(append(file.Bytes(), file.Bytes()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		got, err := trace.Read(bytes.NewReader(b))
		if err != nil {
			if !errors.Is(err, trace.ErrTrace) {
				t.Errorf("an error of its own kind was expected: %v", err)
			}
			return
		}
		if len(got.Arrivals) > len(b) || got.Span < 0 {
			t.Errorf("%d arrivals over %v from %d bytes", len(got.Arrivals), got.Span, len(b))
		}
		last := int64(0)
		for _, a := range got.Arrivals {
			if a.At < 0 || a.At > int64(got.Span) || a.Waited < 0 || a.Latency < 0 {
				t.Fatalf("an impossible arrival: %+v of a span of %v", a, got.Span)
			}
			last = max(last, a.At)
		}
	})
}
