package baseline_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/baseline"
)

var now = time.Date(2026, 3, 4, 3, 0, 0, 0, time.UTC)

func learned(n int, seen time.Time) []baseline.Ingress {
	in := baseline.Ingress{Name: "orders", Protocol: "http", Backend: "http://db:1"}
	for i := range n {
		in.Partitions = append(in.Partitions, baseline.Partition{
			Name: fmt.Sprintf("t-%d", i), Key: true, Algorithm: "knee", RTTNS: 20e6, Learned: seen, InFlight: 2, Seen: seen,
		})
	}
	return []baseline.Ingress{in}
}

// What was written is read, once it is all there, and nothing is left beside it.
func TestWriteAndRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admitd.state")
	if _, err := baseline.Read(path, now); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("before the first Write: %v; want that there is none", err)
	}
	for _, n := range []int{1, baseline.MaxPartitions + 7} {
		want := learned(n, now)
		if err := baseline.Write(path, now, baseline.State{Ingresses: want, Tuner: []byte(`{"frozen":1}`)}); err != nil {
			t.Fatal(err)
		}
		got, err := baseline.Read(path, now.Add(time.Hour))
		if err != nil || !got.Saved.Equal(now) {
			t.Fatalf("Read: %v, saved %v", err, got.Saved)
		}
		want[0].Partitions = want[0].Partitions[:min(n, baseline.MaxPartitions)]
		if string(got.Tuner) != `{"frozen":1}` {
			t.Errorf("Read: tuner %s; want what was written", got.Tuner)
		}
		if d := cmp.Diff(want, got.Ingresses); d != "" {
			t.Errorf("%d partitions (-want +got):\n%s", n, d)
		}
	}
	files, _ := os.ReadDir(filepath.Dir(path))
	if info, err := os.Stat(path); err != nil || len(files) != 1 || info.Size() > 1<<20 || info.Mode().Perm() != 0o600 {
		t.Errorf("%d files, %v; want the one, of mode 600, below a MiB", len(files), info)
	}
	if err := baseline.Write(filepath.Join(path, "nowhere"), now, baseline.State{}); err == nil {
		t.Error("Write into a directory that does not exist succeeds")
	}
}

// What people asked of the tuner does not grow old.
func TestTunerOfAStaleFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admitd.state")
	if err := baseline.Write(path, now, baseline.State{Ingresses: learned(1, now), Tuner: []byte(`{}`)}); err != nil {
		t.Fatal(err)
	}
	got, err := baseline.Read(path, now.AddDate(0, 1, 0))
	if !errors.Is(err, baseline.ErrStale) || got.Ingresses != nil || string(got.Tuner) != `{}` {
		t.Errorf("a month later: %+v, %v; want the tuner's part alone", got, err)
	}
}

// What another program, another version, a bad disk or another year wrote is not
// believed.
func TestNotBelieved(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admitd.state")
	if err := baseline.Write(path, now, baseline.State{Ingresses: learned(3, now)}); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := append([]byte{}, good...)
	flipped[len(flipped)/2] ^= 1
	for name, c := range map[string]struct {
		content string
		at      time.Time
		want    error
	}{
		"empty":           {"", now, baseline.ErrCorrupt},
		"foreign":         {"[mysqld]\ndatadir=/var\n", now, baseline.ErrForeign},
		"another version": {strings.Replace(string(good), "state 1", "state 2", 1), now, baseline.ErrVersion},
		"too large":       {string(good) + strings.Repeat(" ", 8<<20), now, baseline.ErrCorrupt},
		"cut off":         {string(good[:len(good)-1]), now, baseline.ErrCorrupt},
		"flipped":         {string(flipped), now, baseline.ErrCorrupt},
		"a day old":       {string(good), now.Add(baseline.MaxAge + time.Second), baseline.ErrStale},
		"of the future":   {string(good), now.Add(-time.Hour), baseline.ErrStale},
	} {
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := baseline.Read(path, c.at); !errors.Is(err, c.want) || got.Ingresses != nil {
			t.Errorf("%s: %v, %d ingresses; want %v and none", name, err, len(got.Ingresses), c.want)
		}
	}
}

// It is told of the backend it was learned of alone, and not for ever; what nobody
// has asked since is kept behind what was learned anew.
func TestMemory(t *testing.T) {
	var m baseline.Memory
	if n := m.Load(learned(3, now.Add(-23*time.Hour))); n != 3 {
		t.Errorf("Load = %d; want 3", n)
	}
	here := learned(0, now)[0]
	if p, ok := m.Of(&here, "t-1", true, now); !ok || p.RTTNS != 20e6 {
		t.Errorf("Of(t-1) = %v, %v", p, ok)
	}
	elsewhere := here
	elsewhere.Backend = "http://db:2"
	for name, ok := range map[string]bool{
		"another backend": second(m.Of(&elsewhere, "t-1", true, now)), "no key": second(m.Of(&here, "t-1", false, now)),
		"unknown": second(m.Of(&here, "t-9", true, now)), "two hours later": second(m.Of(&here, "t-1", true, now.Add(2*time.Hour))),
	} {
		if ok {
			t.Errorf("%s: something is known", name)
		}
	}
	anew := learned(2, now)
	anew[0].Partitions[0].RTTNS = 30e6
	got := m.With(now, anew)[0].Partitions
	if len(got) != 3 || got[0].RTTNS != 30e6 || got[2].Name != "t-2" || !got[2].Seen.Equal(now.Add(-23*time.Hour)) {
		t.Errorf("With = %+v; want the two of now, and t-2 of yesterday", got)
	}
	if len(anew[0].Partitions) != 2 {
		t.Error("With changes what it was given")
	}
}

// An ingress that was taken out keeps what it has learned for a day, and finds it when it is
// put back; so does one of another daemon, whose file this one goes on with. A reload, or
// another configuration, once wiped it within a minute. 64 at most are kept.
func TestMemoryOfIngressesThatAreAway(t *testing.T) {
	var m baseline.Memory
	m.Load(learned(1, now.Add(-time.Hour)))
	other := learned(2, now)
	other[0].Name = "other"
	away := m.With(now, other)
	if len(away) != 2 || away[0].Name != "other" || len(away[1].Partitions) != 1 {
		t.Fatalf("With = %+v; want what was read of an ingress that is not there", away)
	}
	there, fresh := learned(0, now)[0], learned(2, now)
	fresh[0].Partitions[1].RTTNS = 40e6
	m.Saw(fresh)
	m.Saw(nil) // it is taken out
	if p, ok := m.Of(&there, "t-1", true, now.Add(time.Hour)); !ok || p.RTTNS != 40e6 {
		t.Errorf("put back, it is told %v, %v", p, ok)
	}
	if got := m.With(now.Add(25*time.Hour), nil); len(got) != 0 {
		t.Errorf("after a day there is %+v", got)
	}
	for i := range 100 {
		one := learned(1, now.Add(time.Duration(i)*time.Second))
		one[0].Name = fmt.Sprint("i", i)
		m.Saw(one)
	}
	if got := m.With(now, nil); len(got) != 64 || got[0].Name != "i99" || got[63].Name != "i36" {
		t.Errorf("%d ingresses are kept, want the latest 64", len(got))
	}
}

func second[T any](_ T, ok bool) bool { return ok }
