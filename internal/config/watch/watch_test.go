package watch_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/config/watch"
)

// watched is a watcher of a real file whose applied contents arrive on a
// channel.
type watched struct {
	t       *testing.T
	dir     string
	path    string
	applied chan string
	w       *watch.Watcher
}

// follow starts a watcher of name in a fresh directory that prepare has filled.
func follow(t *testing.T, o watch.Options, prepare func(dir string)) *watched {
	t.Helper()
	dir := t.TempDir()
	prepare(dir)
	h := &watched{t: t, dir: dir, path: filepath.Join(dir, "admitd.yaml"), applied: make(chan string, 64)}
	loaded, err := config.Read(h.path)
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	h.w = watch.New(h.path, watch.HashOf(loaded), func(b []byte) error {
		h.applied <- string(b)
		if string(b) == "bad" {
			return errors.New("refused")
		}
		return nil
	}, o)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- h.w.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v; want nil", err)
		}
	})
	return h
}

// want waits for exactly this content to be applied next.
func (h *watched) want(content string) {
	h.t.Helper()
	select {
	case got := <-h.applied:
		if got != content {
			h.t.Fatalf("applied %q; want %q", got, content)
		}
	case <-time.After(20 * time.Second):
		h.t.Fatalf("%q was not applied; stats %+v", content, h.w.Stats())
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func rename(t *testing.T, from, to string) {
	t.Helper()
	if err := os.Rename(from, to); err != nil {
		t.Fatal(err)
	}
}

func plainFile(t *testing.T) func(string) {
	t.Helper()
	return func(dir string) { write(t, filepath.Join(dir, "admitd.yaml"), "one") }
}

// eventsOnly makes a poll impossible within a test.
var (
	eventsOnly = watch.Options{Settle: 5 * time.Millisecond, Poll: time.Hour}
	polling    = watch.Options{Settle: 5 * time.Millisecond, Poll: 5 * time.Millisecond}
)

// Whatever way a file is replaced, its new content arrives.
func TestWatcherSeesEveryWayOfSaving(t *testing.T) {
	ways := map[string]func(t *testing.T, h *watched, content string){
		"in place": func(t *testing.T, h *watched, content string) {
			t.Helper()
			write(t, h.path, content)
		},
		"rename over": func(t *testing.T, h *watched, content string) {
			t.Helper()
			write(t, h.path+".new", content)
			rename(t, h.path+".new", h.path)
		},
		"editor moves the old one away": func(t *testing.T, h *watched, content string) {
			t.Helper()
			rename(t, h.path, h.path+"~")
			write(t, h.path, content)
			if err := os.Remove(h.path + "~"); err != nil {
				t.Fatal(err)
			}
		},
		"remove and create": func(t *testing.T, h *watched, content string) {
			t.Helper()
			if err := os.Remove(h.path); err != nil {
				t.Fatal(err)
			}
			write(t, h.path, content)
		},
	}
	for name, save := range ways {
		t.Run(name, func(t *testing.T) {
			h := follow(t, eventsOnly, plainFile(t))
			for _, content := range []string{"two", "three", "four", "one"} {
				save(t, h, content)
				h.want(content)
			}
		})
	}
}

// Kubernetes swaps the symlink ..data, through which the file is linked.
func TestWatcherSeesSymlinkSwap(t *testing.T) {
	h := follow(t, eventsOnly, func(dir string) {
		for name, content := range map[string]string{"..v1": "one", "..v2": "two", "..v3": "three"} {
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, name, "admitd.yaml"), content)
		}
		link(t, "..v1", filepath.Join(dir, "..data"))
		link(t, filepath.Join("..data", "admitd.yaml"), filepath.Join(dir, "admitd.yaml"))
	})
	for target, content := range map[string]string{"..v2": "two", "..v3": "three"} {
		link(t, target, filepath.Join(h.dir, "..tmp"))
		rename(t, filepath.Join(h.dir, "..tmp"), filepath.Join(h.dir, "..data"))
		h.want(content)
	}
}

func link(t *testing.T, target, name string) {
	t.Helper()
	if err := os.Symlink(target, name); err != nil {
		t.Fatal(err)
	}
}

// No event tells of a change behind a link to another directory, or after the
// directory itself was replaced; the poll finds both.
func TestWatcherPolls(t *testing.T) {
	other := t.TempDir()
	h := follow(t, polling, func(dir string) {
		write(t, filepath.Join(other, "real.yaml"), "one")
		link(t, filepath.Join(other, "real.yaml"), filepath.Join(dir, "admitd.yaml"))
	})
	write(t, filepath.Join(other, "next.yaml"), "two")
	rename(t, filepath.Join(other, "next.yaml"), filepath.Join(other, "real.yaml"))
	h.want("two")
	if err := os.RemoveAll(h.dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(h.dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(h.dir, "next"), "three")
	rename(t, filepath.Join(h.dir, "next"), h.path)
	h.want("three")
}

// A change between the load and the start of the watcher is found at once.
func TestWatcherFindsChangeBeforeStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "admitd.yaml")
	write(t, path, "two")
	applied := make(chan string, 1)
	w := watch.New(path, watch.HashOf([]byte("one")), func(b []byte) error {
		applied <- string(b)
		return nil
	}, eventsOnly)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	if got := <-applied; got != "two" {
		t.Errorf("applied %q; want two", got)
	}
	cancel()
	<-done
}

// fakeFile is read in the bubbles below: its content changes under the
// watcher.
type fakeFile struct {
	mu      sync.Mutex // guards all but start
	content string
	err     error
	reads   []time.Duration
	start   time.Time
}

func (f *fakeFile) set(content string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.content, f.err = content, err
}

func (f *fakeFile) read(string) ([]byte, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.reads = append(f.reads, time.Since(f.start))
	return []byte(f.content), f.err
}

// A neighbour that never rests cannot postpone the read beyond MaxSettle.
func TestWatcherCapsPostponement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFile{content: "two", start: time.Now()}
		var at time.Duration
		w := watch.New("admitd.yaml", watch.HashOf([]byte("two")), func([]byte) error {
			at = time.Since(f.start)
			return nil
		}, watch.Options{Settle: 50 * time.Millisecond, MaxSettle: 200 * time.Millisecond, Poll: time.Hour})
		events := make(chan fsnotify.Event)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go w.Loop(ctx, events, f.read)
		synctest.Wait()
		f.set("three", nil)
		for range 20 {
			events <- fsnotify.Event{}
			time.Sleep(20 * time.Millisecond)
		}
		cancel()
		synctest.Wait()
		if at != 200*time.Millisecond {
			t.Errorf("applied after %v of endless events; want exactly 200ms", at)
		}
	})
}

// A slow writer costs one read, when it is done.
func TestWatcherWaitsUntilQuiet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFile{content: "one", start: time.Now()}
		var applied []string
		w := watch.New("admitd.yaml", watch.HashOf([]byte("one")), func(b []byte) error {
			applied = append(applied, string(b))
			return nil
		}, watch.Options{Poll: time.Hour})
		events := make(chan fsnotify.Event)
		ctx, cancel := context.WithCancel(t.Context())
		go w.Loop(ctx, events, f.read)
		synctest.Wait()
		for _, content := range []string{"a", "ab", "abc", "abcd"} {
			f.set(content, nil)
			events <- fsnotify.Event{}
			time.Sleep(200 * time.Millisecond)
		}
		time.Sleep(2 * time.Second)
		cancel()
		synctest.Wait()
		if len(applied) != 1 || applied[0] != "abcd" {
			t.Errorf("applied %q; want abcd once", applied)
		}
		if len(f.reads) != 2 || f.reads[1] != 1100*time.Millisecond {
			t.Errorf("read at %v; want at 0 and 1.1s", f.reads)
		}
	})
}

// Empty, unreadable and refused contents are counted and change nothing; a
// refused one is not offered again, and going back is a change like any other.
func TestWatcherIgnoresAndCounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFile{content: "one", start: time.Now()}
		var offered []string
		w := watch.New("admitd.yaml", watch.HashOf([]byte("one")), func(b []byte) error {
			offered = append(offered, string(b))
			if string(b) == "bad" {
				return errors.New("refused")
			}
			return nil
		}, watch.Options{Poll: time.Second})
		ctx, cancel := context.WithCancel(t.Context())
		go w.Loop(ctx, nil, f.read)
		synctest.Wait()
		for _, content := range []string{" \n", "", "bad", "bad", "one", "two"} {
			var err error
			if content == "" {
				err = os.ErrNotExist
			}
			f.set(content, err)
			time.Sleep(time.Second)
			synctest.Wait()
		}
		cancel()
		synctest.Wait()
		if got, want := offered, []string{"bad", "one", "two"}; !slices.Equal(got, want) {
			t.Errorf("offered %q; want %q", got, want)
		}
		want := watch.Stats{Applied: 2, Refused: 1, Empty: 1, Unreadable: 1, Unchanged: 2}
		if got := w.Stats(); got != want {
			t.Errorf("Stats() = %+v; want %+v", got, want)
		}
	})
}

// A file that is gone or empty for two looks in a row is told of, once each time:
// nobody knew that what they wrote was not read.
func TestWatcherTellsOfALostFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFile{content: "one", start: time.Now()}
		var lost []error
		w := watch.New("admitd.yaml", watch.HashOf([]byte("one")), func([]byte) error { return nil },
			watch.Options{Poll: time.Second, Lost: func(err error) { lost = append(lost, err) }})
		ctx, cancel := context.WithCancel(t.Context())
		go w.Loop(ctx, nil, f.read)
		synctest.Wait()
		for _, tc := range []struct {
			content string
			err     error
			want    int // told so far
		}{
			{"", os.ErrPermission, 0},
			{"one", nil, 0},
			{"", nil, 0},
			{"", os.ErrPermission, 1},
			{"", os.ErrPermission, 1},
			{"two", nil, 1},
			{"", nil, 1},
			{"", nil, 2},
			{"one", nil, 2},
		} {
			f.set(tc.content, tc.err)
			time.Sleep(time.Second)
			synctest.Wait()
			if len(lost) != tc.want {
				t.Errorf("after %q, %v: told of %v; want %d", tc.content, tc.err, lost, tc.want)
			}
		}
		cancel()
		synctest.Wait()
		if len(lost) > 0 && !errors.Is(lost[0], os.ErrPermission) {
			t.Errorf("told of %v; want why it cannot be read", lost[0])
		}
	})
}

// Left alone, the file is read at once and then every other second; a busy directory
// postpones the read by five seconds at most. Each read watches anew, since a
// directory that was removed took its watch with it.
func TestWatcherDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFile{content: "one", start: time.Now()}
		w := watch.New("admitd.yaml", watch.HashOf([]byte("one")), func([]byte) error { return nil }, watch.Options{})
		events := make(chan fsnotify.Event)
		watched := 0
		ctx, cancel := context.WithCancel(t.Context())
		go w.LoopWith(ctx, events, nil, f.read, func() { watched++ })
		time.Sleep(5 * time.Second)
		for time.Since(f.start) < 12*time.Second {
			events <- fsnotify.Event{}
			time.Sleep(100 * time.Millisecond)
		}
		cancel()
		synctest.Wait()
		want := []time.Duration{0, 2 * time.Second, 4 * time.Second, 10 * time.Second} // 5 s after the first event
		if !slices.Equal(f.reads, want) {
			t.Errorf("read at %v; want at %v", f.reads, want)
		}
		if want := 1 + len(f.reads); watched != want { // once before the first read
			t.Errorf("the directory was watched anew %d times; want %d", watched, want)
		}
	})
}

// An event source that fails is counted and costs nothing more: the file is read at
// every poll as before, also when the source has ended for good.
func TestWatcherOutlivesItsEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeFile{content: "one", start: time.Now()}
		var offered []string
		w := watch.New("admitd.yaml", watch.HashOf([]byte("one")), func(b []byte) error {
			offered = append(offered, string(b))
			return nil
		}, watch.Options{Settle: 100 * time.Millisecond, Poll: time.Second})
		events, errs := make(chan fsnotify.Event), make(chan error)
		ctx, cancel := context.WithCancel(t.Context())
		go w.LoopWith(ctx, events, errs, f.read, func() {})
		synctest.Wait()
		errs <- errors.New("queue overflow")
		errs <- errors.New("queue overflow")
		time.Sleep(150 * time.Millisecond) // an overflow may have hidden an event: the file is read
		synctest.Wait()
		if n := len(f.reads); n != 2 {
			t.Errorf("%d reads after an error of the source; want a second one", n)
		}
		close(errs)
		close(events)
		for _, content := range []string{"two", "three"} {
			f.set(content, nil)
			time.Sleep(time.Second)
		}
		cancel()
		synctest.Wait()
		if !slices.Equal(offered, []string{"two", "three"}) {
			t.Errorf("offered %q; want both that came after the end of the source", offered)
		}
		if got := w.Stats(); got.Errors != 3 || len(f.reads) > 5 {
			t.Errorf("%d errors and %d reads; want the two and the end, and a read at each poll", got.Errors, len(f.reads))
		}
	})
}

// A directory that is gone when the watcher starts, and comes later, is found, and its
// absence is counted once for every look.
func TestWatcherWaitsForItsDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mounted", "later")
	path := filepath.Join(dir, "admitd.yaml")
	applied := make(chan string, 8)
	w := watch.New(path, watch.HashOf([]byte("one")), func(b []byte) error {
		applied <- string(b)
		return nil
	}, polling)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- w.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v; want nil", err)
		}
	}()
	for w.Stats().Errors < 2 || w.Stats().Unreadable < 2 {
		time.Sleep(time.Millisecond)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "next"), "two")
	rename(t, filepath.Join(dir, "next"), path)
	if got := <-applied; got != "two" {
		t.Errorf("applied %q; want two", got)
	}
}

// Who loads the file by other ways, such as a reload on request, tells the watcher, who
// then does not offer the same again; what could not be read stands for anything new.
func TestWatcherHearsOfOthers(t *testing.T) {
	w := watch.New("admitd.yaml", watch.HashOf([]byte("one")), nil, watch.Options{})
	for i, tc := range []struct {
		h    watch.Hash
		want bool
	}{
		{watch.HashOf([]byte("one")), false},
		{watch.HashOf([]byte("two")), true},
		{watch.HashOf([]byte("two")), false},
		{watch.Hash{}, true},
		{watch.HashOf([]byte("two")), true},
	} {
		if got := w.Saw(tc.h); got != tc.want {
			t.Errorf("step %d: Saw = %v; want %v", i, got, tc.want)
		}
	}
}
