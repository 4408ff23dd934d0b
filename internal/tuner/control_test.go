package tuner_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/tuner"
)

func TestAdviceChangesNothing(t *testing.T) {
	w := newWorld(t, 100, 500, 200)
	u := newTuner(t, w, tuner.Options{Mode: tuner.Advise, Policies: []tuner.Policy{wishing(t, "p", "orders.requests.rate", 150)}})
	w.run(5*time.Minute, u)
	if w.rate() != 200 {
		t.Errorf("rate = %v; want it untouched at 200", w.rate())
	}
	if got, want := u.Status(0).Settings[0].Position, (200-10.0)/(1000-10); got != want {
		t.Errorf("position = %v; want %v, between the bounds", got, want)
	}
	if diff := cmp.Diff([]tuner.Kind{tuner.KindAdvice}, kinds(u)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

func TestHandsAreRespected(t *testing.T) {
	w := newWorld(t, 100, 500, 200)
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{wishing(t, "p", "orders.requests.rate", 150)}})
	w.run(5*time.Second, u)
	w.settings["orders"]["requests"].(map[string]any)["rate"] = 170.0
	w.run(time.Minute, u)
	if r := newest(t, u, tuner.KindManual); w.rate() != 170 || *r.New != 170 {
		t.Fatalf("rate = %v, record %+v; want the person's 170", w.rate(), r)
	}
	if err := u.Unfreeze(w.now, "me", "nobody"); !errors.Is(err, tuner.ErrNoName) {
		t.Errorf("Unfreeze(nobody) = %v; want ErrNoName", err)
	}
	if err := u.Unfreeze(w.now, "me", "orders.requests.rate"); err != nil {
		t.Fatalf("Unfreeze: %v", err)
	}
	w.run(time.Minute, u)
	if w.rate() != 150 {
		t.Errorf("rate = %v after the release; want 150", w.rate())
	}
	w.reload(t)
	w.run(5*time.Second, u)
	if s := u.Status(0); w.rate() != 200 || s.Settings[0].ByHand || s.Hold != "settling" {
		t.Errorf("after a reload rate = %v, status %+v; want the file's 200, and no haste", w.rate(), s)
	}
}

// Any reload, even of an empty line more, ended what people had set by hand or taken
// back, and what was locked; a new section of the tuner did so too. It ends when they
// say so, or when the setting is gone.
func TestReloadsReleaseNothing(t *testing.T) {
	w := newWorld(t, 100, 500, 200)
	o := tuner.Options{Policies: []tuner.Policy{
		wishing(t, "p", "orders.requests.rate", 150), wishing(t, "q", "orders.partitions.check.out.rate", 20),
	}}
	old := newTuner(t, w, o)
	w.run(5*time.Second, old)
	w.settings["orders"]["requests"].(map[string]any)["rate"] = 170.0
	if _, err := old.Revert(t.Context(), w.now, "me"); err != nil { // of the partition, and of a rate that nobody noticed yet
		t.Fatal(err)
	}
	w.reload(t)
	w.run(time.Minute, old)
	next := newTuner(t, w, o)
	next.Inherit(old)
	w.run(time.Minute, next)
	restarted := newTuner(t, w, o)
	restarted.Keep(next.Kept())
	w.run(time.Minute, restarted)
	for name, u := range map[string]*tuner.Tuner{"reloaded": old, "of a new section": next, "restarted": restarted} {
		if s := u.Status(0).Settings; !s[0].ByHand || !s[1].ByHand || w.rate() != 200 || value(t, w, "orders.partitions.check.out.rate") != 50 {
			t.Errorf("%s: %+v; want both left alone", name, s)
		}
	}
	if r := newest(t, old, tuner.KindReload); !strings.Contains(r.Why, "left alone still: 2") {
		t.Errorf("the reload's record says %q; want what is left alone still", r.Why)
	}
	if err := restarted.Unfreeze(w.now, "me", "orders.requests.rate"); err != nil {
		t.Fatal(err)
	}
	delete(w.settings["orders"]["partitions"].(map[string]any)["named"].(map[string]any), "check.out")
	w.generation++
	w.run(time.Minute, restarted)
	if k := restarted.Kept(); w.rate() != 150 || len(k.ByHand) != 0 {
		t.Errorf("released, or gone: rate %v, kept %+v; want 150 and nothing", w.rate(), k)
	}
}

// Without a bound is a value like others: a person who lifted a rate, or bounded one
// that had no bound, was not noticed, and a policy moved the rate at once.
func TestHandsThatLiftABound(t *testing.T) {
	for name, tc := range map[string]struct{ file, hand, wish float64 }{
		"lifted":  {file: 200, hand: 0, wish: 150},
		"bounded": {file: 0, hand: 90, wish: 60},
	} {
		w := newWorld(t, 100, 500, tc.file)
		p := wishing(t, "p", "orders.requests.rate", tc.wish)
		u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}})
		u.Freeze(w.now, "me")
		w.run(2*time.Second, u)
		rate := w.settings["orders"]["requests"].(map[string]any)
		rate["rate"] = tc.hand
		if err := u.Unfreeze(w.now, "me", ""); err != nil {
			t.Fatal(err)
		}
		w.run(time.Minute, u)
		if s := u.Status(0).Settings[0]; rate["rate"] != tc.hand || !s.ByHand {
			t.Errorf("%s: rate %v, %+v; want the person's %v, left alone", name, rate["rate"], s, tc.hand)
		}
	}
}

// What a person took back is told as left alone at once, and not as the wish that
// a policy had before: a frozen tuner looks no more. The door hears who asked.
func TestFreezeAndRevert(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 100, 500, 200)
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{
		wishing(t, "p", "orders.requests.rate", 150), wishing(t, "q", "orders.partitions.check.out.rate", 20),
	}})
	u.Freeze(w.now, "me")
	w.run(time.Minute, u)
	if s := u.Status(0); w.rate() != 200 || s.Hold != "frozen" || s.Frozen.By != "me" {
		t.Fatalf("frozen: rate = %v, status %+v; want nothing moved", w.rate(), s)
	}
	if err := u.Unfreeze(w.now, "me", ""); err != nil {
		t.Fatalf("Unfreeze: %v", err)
	}
	w.run(5*time.Second, u)
	if w.rate() != 150 || value(t, w, "orders.partitions.check.out.rate") != 20 {
		t.Fatalf("rates = %v, %v; want 150, 20", w.rate(), value(t, w, "orders.partitions.check.out.rate"))
	}
	if w.by != "" {
		t.Errorf("a policy's change was asked for by %q", w.by)
	}
	done, err := u.Revert(ctx, w.now, "me")
	if want := []string{"orders.requests.rate", "orders.partitions.check.out.rate"}; err != nil || !slices.Equal(done, want) {
		t.Fatalf("Revert = %v, %v; want %v", done, err, want)
	}
	if s := u.Status(0).Settings[0]; !s.ByHand || s.Policy != "" || !strings.Contains(s.Why, "left alone") || w.by != "me" {
		t.Errorf("taken back for %q: %+v; want it left alone by who asked", w.by, s)
	}
	w.run(time.Minute, u)
	if w.rate() != 200 || value(t, w, "orders.partitions.check.out.rate") != 50 {
		t.Errorf("rates = %v, %v; want those of the file, and left alone", w.rate(), value(t, w, "orders.partitions.check.out.rate"))
	}
	if again, err := u.Revert(ctx, w.now, "me"); len(again) != 0 || err != nil {
		t.Errorf("a second Revert = %v, %v; want nothing left to do", again, err)
	}
}

// People ask while the tuner looks: for the race detector.
func TestPeopleAskWhileItLooks(t *testing.T) {
	w := newWorld(t, 100, 500, 200)
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{wishing(t, "p", "orders.requests.rate", 150)}})
	now := w.now
	var looks sync.WaitGroup
	looks.Go(func() { w.run(time.Minute, u) })
	for i := range 50 {
		u.Freeze(now, "me")
		_ = u.Kept()
		_ = u.Status(-1)
		if _, err := u.RevertOne(t.Context(), now, "me", strconv.Itoa(i)); err == nil {
			continue
		}
		if err := u.Unfreeze(now, "me", ""); err != nil {
			t.Fatal(err)
		}
	}
	looks.Wait()
}

func TestRevertOne(t *testing.T) {
	ctx := context.Background()
	w := newWorld(t, 100, 500, 200)
	p := wishing(t, "p", "orders.requests.rate", 20)
	p.Step = .1
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}})
	w.run(25*time.Second, u) // 180, 162, 145.8
	if _, err := u.RevertOne(ctx, w.now, "me", "99"); !errors.Is(err, tuner.ErrNoRecord) {
		t.Errorf("RevertOne(99) = %v; want ErrNoRecord", err)
	}
	if setting, err := u.RevertOne(ctx, w.now, "me", "2"); err != nil || setting != "orders.requests.rate" || w.rate() != 180 {
		t.Errorf("RevertOne(2) = %v, %v, rate %v; want 180, what it was before", setting, err, w.rate())
	}
	if _, err := u.RevertOne(ctx, w.now, "me", newest(t, u, tuner.KindRevert).ID); !errors.Is(err, tuner.ErrNothingToRevert) {
		t.Errorf("RevertOne of a revert = %v; want ErrNothingToRevert", err)
	}
	w.reload(t)
	w.run(time.Second, u)
	if _, err := u.RevertOne(ctx, w.now, "me", "1"); !errors.Is(err, tuner.ErrNothingToRevert) {
		t.Errorf("RevertOne after a reload = %v; want ErrNothingToRevert", err)
	}
}

func TestPanicHoldsStill(t *testing.T) {
	w := newWorld(t, 100, 500, 200)
	p := wishing(t, "p", "orders.requests.rate", 150)
	p.Rule.(*fixedWish).panics = true
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}})
	w.run(5*time.Second, u)
	p.Rule.(*fixedWish).panics = false
	w.run(time.Minute, u)
	if s := u.Status(0); w.rate() != 200 || !strings.Contains(s.Hold, "panicked") {
		t.Fatalf("rate = %v, hold %q; want that it holds still", w.rate(), s.Hold)
	}
	if err := u.Unfreeze(w.now, "me", ""); err != nil {
		t.Fatalf("Unfreeze: %v", err)
	}
	w.run(time.Minute, u)
	if w.rate() != 150 {
		t.Errorf("rate = %v after the release; want 150", w.rate())
	}
}

// What the daemon refuses is tried at every cooldown, and recorded once for as long
// as it says the same: it filled the records.
func TestRefusedChange(t *testing.T) {
	w := newWorld(t, 100, 500, 200)
	w.refuse = errors.New("draining")
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{wishing(t, "p", "orders.requests.rate", 150)}})
	w.run(25*time.Second, u)
	w.refuse = errors.New("still draining")
	w.run(25*time.Second, u)
	if diff := cmp.Diff([]tuner.Kind{tuner.KindRefused, tuner.KindRefused}, kinds(u)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if s := u.Status(0).Settings[0]; *s.Value != 200 || !strings.Contains(s.Why, "; refused: tuner: set orders.requests.rate to 150: still draining") {
		t.Errorf("the tuner says %v, %q; want 200, and why", *s.Value, s.Why)
	}
}

func TestAudit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.jsonl")
	a, err := tuner.OpenAudit(path, nil)
	if err != nil {
		t.Fatalf("OpenAudit: %v", err)
	}
	w := newWorld(t, 100, 500, 200)
	p := wishing(t, "p", "orders.requests.rate", 200)
	u := newTuner(t, w, tuner.Options{Policies: []tuner.Policy{p}, Audit: a.Write})
	w.run(time.Minute, u)
	p.Rule.(*fixedWish).value = 150
	w.run(2*time.Minute, u)
	if err := errors.Join(a.Err(), a.Close()); err != nil {
		t.Fatalf("audit: %v", err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	defer f.Close()
	var got []string
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var r tuner.Record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			t.Fatalf("line %q: %v", lines.Text(), err)
		}
		got = append(got, r.ID+" "+string(r.Kind)+" "+r.Trial.State)
	}
	if diff := cmp.Diff([]string{"1 change open", "1 change kept"}, got); diff != "" {
		t.Errorf("audit (-want +got):\n%s", diff)
	}
	if r, err := u.Record("1"); err != nil || r.Trial.State != "kept" {
		t.Errorf("Record(1) = %+v, %v; want the newest version", r, err)
	}
}

func TestInherit(t *testing.T) {
	w := newWorld(t, 100, 500, 200)
	o := tuner.Options{Policies: []tuner.Policy{wishing(t, "p", "orders.requests.rate", 150)}}
	old := newTuner(t, w, o)
	w.run(5*time.Second, old)
	old.Freeze(w.now, "me")
	old.Keep(tuner.Kept{Frozen: old.Kept().Frozen, Locked: []string{"p"}})
	u := newTuner(t, w, o)
	u.Inherit(old)
	w.run(time.Minute, u)
	if diff := cmp.Diff([]tuner.Kind{tuner.KindChange, tuner.KindFreeze, tuner.KindHold}, kinds(u)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	if s := u.Status(0); s.Frozen == nil || s.Policies[0].Changes != 1 || !s.Policies[0].Locked {
		t.Errorf("status = %+v; want frozen, with one change, locked", s)
	}
}
