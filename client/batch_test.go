package client_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/admitd/admitd/client"
)

// command is an item of an upload: stream is the id that begin produces and the
// others need.
type command struct {
	verb, stream string
}

// store executes commands in order, and stops at the first that its gate
// refuses. Within one batch it carries the stream id by itself.
type store struct {
	admit   func(executed int) bool // asked before each command; nil = always
	refuse  error                   // what a refusal is; nil = refused()
	log     []string                // what was executed
	sends   [][]command
	streams int
}

func (s *store) send(_ context.Context, _ *client.Attempt, items []command) ([]string, error) {
	s.sends = append(s.sends, items)
	var results []string
	stream := ""
	for _, it := range items {
		if s.admit != nil && !s.admit(len(s.log)) {
			if s.refuse != nil {
				return results, s.refuse
			}
			return results, refused()
		}
		if it.stream == "" {
			it.stream = stream
		}
		if it.verb == "begin" {
			s.streams++
			stream = fmt.Sprintf("stream-%d", s.streams)
			it.stream = stream
		}
		if it.stream == "" {
			return results, errors.New("no stream id")
		}
		s.log = append(s.log, it.verb+" "+it.stream)
		results = append(results, it.stream)
	}
	return results, nil
}

func carry(it command, done []string) command {
	if it.verb != "begin" && it.stream == "" {
		it.stream = done[0]
	}
	return it
}

func upload(s *store) *client.Batch[command, string] {
	return &client.Batch[command, string]{
		Name: "upload", Kind: client.Write, Send: s.send, Carry: carry,
		Items: []command{{verb: "begin"}, {verb: "part"}, {verb: "commit"}},
	}
}

// refuseOnce refuses the command at each given position the first time.
func refuseOnce(positions ...int) func(int) bool {
	seen := map[int]bool{}
	return func(executed int) bool {
		for _, p := range positions {
			if p == executed && !seen[p] {
				seen[p] = true
				return false
			}
		}
		return true
	}
}

// Slow down, batch: wherever the server stops, the batch goes on with the first
// item not executed, with the id that an executed item produced; nothing runs twice.
func TestSlowDownBatchResumesAtFirstNotExecuted(t *testing.T) {
	want := []string{"begin stream-1", "part stream-1", "commit stream-1"}
	for name, tc := range map[string]struct {
		refuse []int
		sends  []int // items in each send
	}{
		"never":      {nil, []int{3}},
		"at begin":   {[]int{0}, []int{3, 3}},
		"at part":    {[]int{1}, []int{3, 2}},
		"at commit":  {[]int{2}, []int{3, 1}},
		"everywhere": {[]int{0, 1, 2}, []int{3, 3, 2, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &store{admit: refuseOnce(tc.refuse...)}
			b := upload(s)
			got, err := client.RunBatch(t.Context(), newClient(t, client.Options{}), b)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if diff := cmp.Diff([]string{"stream-1", "stream-1", "stream-1"}, got); diff != "" {
				t.Errorf("%s: results (-want +got):\n%s", name, diff)
			}
			if diff := cmp.Diff(want, s.log); diff != "" {
				t.Errorf("%s: executed (-want +got):\n%s", name, diff)
			}
			var sends []int
			for _, items := range s.sends {
				sends = append(sends, len(items))
			}
			if diff := cmp.Diff(tc.sends, sends); diff != "" {
				t.Errorf("%s: items sent (-want +got):\n%s", name, diff)
			}
			if b.Items[1].stream != "" {
				t.Errorf("%s: the caller's items were changed: %+v", name, b.Items)
			}
		})
	}
}

// Ids come from the results: a resumed item is sent with the id filled in.
func TestSlowDownBatchCarriesIDs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{admit: refuseOnce(1)}
		if _, err := client.RunBatch(t.Context(), newClient(t, client.Options{}), upload(s)); err != nil {
			t.Fatal(err)
		}
		want := []string{"part stream-1", "commit stream-1"}
		var got []string
		for _, it := range s.sends[1] {
			got = append(got, it.verb+" "+it.stream)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("second send (-want +got):\n%s", diff)
		}
	})
}

// A batch that gives up hands over what was done, and goes on from there later.
func TestSlowDownBatchKeepsPartialResults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := false
		s := &store{admit: func(executed int) bool { return open || executed < 2 }}
		c, b := newClient(t, client.Options{}), upload(s)
		done, err := client.RunBatch(t.Context(), c, b)
		if diff := cmp.Diff([]string{"stream-1", "stream-1"}, done); diff != "" || !errors.Is(err, errBoom) {
			t.Fatalf("error %v, results (-want +got):\n%s", err, diff)
		}
		open, b.Done = true, done
		done, err = client.RunBatch(t.Context(), c, b)
		if err != nil || len(done) != 3 {
			t.Errorf("resumed: %v, %v; want three results", done, err)
		}
		if diff := cmp.Diff([]string{"begin stream-1", "part stream-1", "commit stream-1"}, s.log); diff != "" {
			t.Errorf("executed (-want +got):\n%s", diff)
		}
		b.Done = done
		if again, err := client.RunBatch(t.Context(), c, b); err != nil || len(again) != 3 || len(s.log) != 3 {
			t.Errorf("a finished batch ran again: %v, %v", again, err)
		}
	})
}

// A failure that allows no retry ends the batch, with the results so far.
func TestBatchStopsAtOtherFailures(t *testing.T) {
	s := &store{admit: refuseOnce(1), refuse: errors.New("disk full")}
	done, err := client.RunBatch(t.Context(), newClient(t, client.Options{}), upload(s))
	if len(done) != 1 || err == nil || len(s.sends) != 1 {
		t.Errorf("%v, %v after %d sends; want one result and the error after one", done, err, len(s.sends))
	}
}

// A server that takes one item at a time is no reason to give up: what was
// achieved counts. The waits begin anew with each.
func TestBatchProgressCountsRetriesAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		items := make([]command, 20)
		for i := range items {
			items[i] = command{verb: "part", stream: "s"}
		}
		executed, start := 0, time.Now()
		done, err := client.RunBatch(t.Context(), newClient(t, client.Options{Policy: fixed(client.Driver(), 1)}),
			&client.Batch[command, string]{
				Items: items, Kind: client.Write,
				Send: func(_ context.Context, _ *client.Attempt, items []command) ([]string, error) {
					if executed++; len(items) == 1 {
						return []string{"ok"}, nil
					}
					return []string{"ok"}, refused()
				},
			})
		if err != nil || len(done) != 20 || executed != 20 {
			t.Errorf("%d results, %d executed, %v; want 20, 20, nil", len(done), executed, err)
		}
		if got := time.Since(start); got != 19*200*ms {
			t.Errorf("took %v; want 19 waits of 200ms", got)
		}
	})
}

// A Send that breaks its contract is not sent anything again.
func TestBatchContract(t *testing.T) {
	for name, results := range map[string][]string{"too many": {"1", "2", "3", "4"}, "too few without an error": {"1"}} {
		sends := 0
		done, err := client.RunBatch(t.Context(), newClient(t, client.Options{}), &client.Batch[command, string]{
			Items: make([]command, 3), Kind: client.Write,
			Send: func(context.Context, *client.Attempt, []command) ([]string, error) {
				sends++
				return results, nil
			},
		})
		if !errors.Is(err, client.ErrBatch) || sends != 1 || len(done) > 3 {
			t.Errorf("%s: %d results, %v after %d sends; want %v after one", name, len(done), err, sends, client.ErrBatch)
		}
	}
	_, err := client.RunBatch(t.Context(), newClient(t, client.Options{}), &client.Batch[command, string]{Done: []string{"1"}})
	if !errors.Is(err, client.ErrBatch) {
		t.Errorf("more done than items: %v; want %v", err, client.ErrBatch)
	}
}

// Whatever the server refuses and however often: each item runs at most once and
// in order, and there is exactly one result for each that ran.
func TestPropertyBatchRunsEachItemOnce(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(rt, "items")
		takes := rapid.SliceOfN(rapid.IntRange(0, 4), 60, 60).Draw(rt, "items taken by each send")
		var log []int
		var done []int
		var err error
		synctest.Test(t, func(t *testing.T) {
			items := make([]int, n)
			for i := range items {
				items[i] = i
			}
			send := 0
			done, err = client.RunBatch(t.Context(), newClient(t, client.Options{}), &client.Batch[int, int]{
				Items: items, Kind: client.Write,
				Send: func(_ context.Context, _ *client.Attempt, items []int) ([]int, error) {
					take := takes[send]
					send++
					if take < len(items) {
						log = append(log, items[:take]...)
						return items[:take], refused()
					}
					log = append(log, items...)
					return items, nil
				},
			})
		})
		if diff := cmp.Diff(log, done); diff != "" {
			rt.Fatalf("results differ from what ran (-ran +results):\n%s", diff)
		}
		for i, item := range log {
			if item != i {
				rt.Fatalf("ran %v; want each once, in order", log)
			}
		}
		if (err == nil) != (len(done) == n) {
			rt.Fatalf("%d of %d done, %v", len(done), n, err)
		}
		if err != nil && !strings.Contains(err.Error(), "max_retries") {
			rt.Fatalf("gave up with %v", err)
		}
	})
}
