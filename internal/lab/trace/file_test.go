package trace_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/lab/trace"
	"github.com/admitd/admitd/limiter"
)

// magic is what a session begins with, and the kinds of its records.
const (
	magic   = "ADMTRC1\n"
	arrival = 1
	ended   = 2
	lost    = 3
)

// signed and unsigned are numbers of a record.
type (
	signed   int64
	unsigned uint64
)

// record is the bytes of one record, of numbers, single bytes and text.
func record(parts ...any) string {
	var b []byte
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b = append(b, byte(p))
		case signed:
			b = binary.AppendVarint(b, int64(p))
		case unsigned:
			b = binary.AppendUvarint(b, uint64(p))
		case string:
			b = append(b, p...)
		default:
			panic(fmt.Sprintf("a record of %T", p))
		}
	}
	return string(b)
}

// come is an arrival of a new key.
func come(after int64, n uint64, key string) string {
	return record(arrival, signed(after), unsigned(n), unsigned(uint64(len(key))), key, unsigned(1000))
}

// What a file says is refused where it cannot be, and read as far as it goes where it
// was only cut.
func TestReadFile(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		want *trace.Trace // nil = not a trace
	}{
		"nothing":            {magic, &trace.Trace{}},
		"an arrival":         {magic + come(5, 1, "a"), &trace.Trace{Arrivals: []trace.Arrival{{Key: "a", Cost: 1}}}},
		"the key again":      {magic + come(5, 1, "a") + record(arrival, signed(7), unsigned(1), unsigned(2500)), &trace.Trace{Span: 7, Arrivals: []trace.Arrival{{Key: "a", Cost: 1}, {At: 7, Key: "a", Cost: 2.5}}}},
		"without a key":      {magic + record(arrival, signed(1), unsigned(0), unsigned(0)), &trace.Trace{Arrivals: []trace.Arrival{{}}}},
		"lost ones":          {magic + record(lost, unsigned(3)) + record(lost, unsigned(4)), &trace.Trace{Lost: 7}},
		"an end":             {magic + come(5, 1, "a") + record(ended, signed(9), signed(9), signed(8), int(limiter.Dropped)), &trace.Trace{Span: 9, Arrivals: []trace.Arrival{{Key: "a", Cost: 1, Served: true, Latency: 8, Outcome: limiter.Dropped}}}},
		"an end of nobody":   {magic + record(ended, signed(9), signed(9), signed(8), int(limiter.Success)), &trace.Trace{}},
		"a negative latency": {magic + come(5, 1, "a") + record(ended, signed(9), signed(9), signed(-8), int(limiter.Success)), &trace.Trace{Span: 9, Arrivals: []trace.Arrival{{Key: "a", Cost: 1, Served: true, Outcome: limiter.Success}}}},
		"a clock gone mad":   {magic + come(5, 1, "a") + come(math.MaxInt64/2, 2, "b"), &trace.Trace{Arrivals: []trace.Arrival{{Key: "a", Cost: 1}, {Key: "b", Cost: 1}}}},
		"a clock gone back":  {magic + come(500, 1, "a") + come(-200, 2, "b"), &trace.Trace{Arrivals: []trace.Arrival{{Key: "a", Cost: 1}, {Key: "b", Cost: 1}}}},
		"two sessions":       {magic + come(500, 1, "a") + come(10, 2, "b") + magic + come(3, 1, "c"), &trace.Trace{Span: 10, Arrivals: []trace.Arrival{{Key: "a", Cost: 1}, {At: 10, Key: "b", Cost: 1}, {At: 10, Key: "c", Cost: 1}}}},
		"another format":     {"ADMTRC2\n", nil},
		"half a session":     {magic + "ADMTRX1\n", nil},
		"unknown kind":       {magic + "\x09", nil},
		"key out of turn":    {magic + come(5, 2, "a"), nil},
		"endless key":        {magic + record(arrival, signed(1), unsigned(1), unsigned(1000)), nil},
		"endless number":     {magic + record(arrival) + strings.Repeat("\xff", 11), nil},
		"endless count":      {magic + record(lost) + strings.Repeat("\xff", 11), nil},
		"outcome of no kind": {magic + come(5, 1, "a") + record(ended, signed(9), signed(9), signed(8), 9), nil},
	} {
		got, err := trace.Read(strings.NewReader(tc.text))
		if tc.want == nil {
			if !errors.Is(err, trace.ErrTrace) {
				t.Errorf("%s: %+v, %v; want ErrTrace", name, got, err)
			}
			continue
		}
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", name, err, diff)
		}
	}
}

// A file that ends inside a record, wherever that is, is read up to that record, and
// says that it was cut.
func TestReadCutAnywhere(t *testing.T) {
	whole := magic + come(5, 1, "key")
	last := record(ended, signed(300), signed(300), signed(200), int(limiter.Success))
	next := come(1000, 2, "another")
	for _, tail := range []string{last, next, magic, record(lost, unsigned(300))} {
		for n := 1; n < len(tail); n++ {
			got, err := trace.Read(strings.NewReader(whole + tail[:n]))
			if err != nil || !got.Cut || len(got.Arrivals) != 1 || got.Arrivals[0].Served {
				t.Errorf("%d of %d bytes of %q: %+v, %v; want the one arrival, and Cut", n, len(tail), tail, got, err)
			}
		}
		if got, err := trace.Read(strings.NewReader(whole + tail)); err != nil || got.Cut {
			t.Errorf("all of %q: %+v, %v", tail, got, err)
		}
	}
}

// Permits that were granted at once are those of their arrivals; those that waited
// are taken for the arrivals that are left.
func TestWaitsAreMatched(t *testing.T) {
	var file bytes.Buffer
	w := trace.NewSyncRecorder(&file)
	w.Offered(100, "a", 1)
	w.Offered(110, "b", 1) // waits from 110 to 130
	w.Offered(120, "c", 1)
	w.Offered(125, "d", 1) // refused
	w.Ended(120, 140, 20, limiter.Success)
	w.Ended(100, 150, 50, limiter.Success)
	w.Ended(130, 160, 30, limiter.Success)
	got, err := trace.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	waited := map[string]time.Duration{}
	for _, a := range got.Arrivals {
		if a.Served {
			waited[a.Key] = a.Waited
		}
	}
	if len(waited) != 3 || waited["a"] != 0 || waited["c"] != 0 || waited["b"]+waited["d"] == 0 {
		t.Errorf("waits %v; want a and c at once, and one of the others later", waited)
	}
}

// queue plays a first-come backend and returns the trace of it: what a model is made of.
func queue(workers int, service, gap time.Duration, n int) *trace.Trace {
	r := rand.New(rand.NewPCG(1, 1))
	free := make([]int64, workers)
	tr := &trace.Trace{}
	at := int64(0)
	for range n {
		at += int64(float64(gap) * r.ExpFloat64())
		first := 0
		for i := range free {
			if free[i] < free[first] {
				first = i
			}
		}
		free[first] = max(free[first], at) + int64(float64(service)*r.ExpFloat64())
		tr.Arrivals = append(tr.Arrivals, trace.Arrival{At: at, Served: true, Latency: time.Duration(free[first] - at), Outcome: limiter.Success})
	}
	tr.Span = time.Duration(at)
	return tr
}

// The model of a trace is the backend that made it, as far as the trace shows: of a
// single worker it shows little, since next to nothing comes when nobody waits.
func TestModel(t *testing.T) {
	for workers, service := range map[int]time.Duration{4: 5 * time.Millisecond, 16: 20 * time.Millisecond} {
		gap := time.Duration(float64(service) / float64(workers) / 0.95)
		m, err := queue(workers, service, gap, 40_000).Model()
		if err != nil {
			t.Fatal(err)
		}
		if near := float64(m.Workers) / float64(workers); near < 0.7 || near > 1.5 {
			t.Errorf("%d workers of %v look like %d", workers, service, m.Workers)
		}
		if near := m.Service.Seconds() / service.Seconds(); near < 0.7 || near > 1.3 {
			t.Errorf("%d workers of %v look like %v each", workers, service, m.Service)
		}
	}
	idle, err := queue(64, 10*time.Millisecond, 2*time.Millisecond, 20_000).Model()
	if err != nil || idle.Saturated {
		t.Errorf("a backend that was never busy: %+v, %v; want it said that there may be more workers", idle, err)
	}
	if _, err := queue(1, time.Millisecond, time.Millisecond, 50).Model(); err == nil {
		t.Error("fifty requests show a backend")
	}
}

// What each arrival asks for has the mean that the model has, those that were not
// served included.
func TestWorks(t *testing.T) {
	tr := queue(4, 10*time.Millisecond, 5*time.Millisecond, 20_000)
	for i := range tr.Arrivals {
		if i%10 == 0 {
			tr.Arrivals[i].Served = false
		}
	}
	m, err := tr.Model()
	if err != nil {
		t.Fatal(err)
	}
	works := tr.Works(m, rand.New(rand.NewPCG(2, 2)))
	sum := 0.0
	for i, w := range works {
		if w <= 0 {
			t.Fatalf("arrival %d asks for %v", i, w)
		}
		sum += w
	}
	if mean := sum / float64(len(works)); len(works) != len(tr.Arrivals) || mean < 0.7 || mean > 1.4 {
		t.Errorf("%d works of %v on average; want %d of about 1", len(works), mean, len(tr.Arrivals))
	}
}
