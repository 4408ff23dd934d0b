package limiter_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// A flood of keys evicted tenants that were idle for ten seconds, with the
// state of their bucket, and so gave them a new burst: 70 requests were served
// in four minutes at 36 an hour. A row is kept until its bucket is full.
func TestEvictionRefillsNoBucket(t *testing.T) {
	clock := &stoppedClock{}
	g := limiter.New("g", &limiter.Policy{MaxPartitions: 4, Default: limiter.PartitionPolicy{
		NewLimit: newFixed(10), Rate: limiter.Rate{PerSecond: 0.01, BurstSeconds: 1000},
	}}, limiter.Options{Clock: clock})
	served, flood := 0, 0
	for range 10 {
		clock.now.Add(int64(12 * time.Second)) // and the flood is idle in its turn
		for range 10 {
			if p, err := g.TryAdmit(clock.Now(), limiter.Request{Key: "tenant"}); err == nil && p.Partition() == "tenant" {
				served++
				p.End(limiter.Success)
			}
		}
		for range 20 {
			clock.now.Add(int64(1100 * time.Millisecond))
			flood++
			if p, err := g.TryAdmit(clock.Now(), limiter.Request{Key: fmt.Sprint("flood", flood)}); err == nil {
				p.End(limiter.Success)
			}
		}
	}
	elapsed := float64(clock.Now()) / 1e9
	if most := 10 + int(0.01*elapsed) + 1; served > most {
		t.Errorf("%d served in %v s; the rate allows %d", served, elapsed, most)
	}
}

// Who has a full bucket makes room, oldest first.
func TestEvictionTakesTheIdle(t *testing.T) {
	clock := &stoppedClock{}
	g := limiter.New("g", &limiter.Policy{MaxPartitions: 2, Default: limiter.PartitionPolicy{Rate: limiter.Rate{PerSecond: 10}}}, limiter.Options{Clock: clock})
	admit := func(key string) string {
		p, err := g.TryAdmit(clock.Now(), limiter.Request{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		defer p.End(limiter.Success)
		return p.Partition()
	}
	admit("old")
	clock.now.Store(int64(5 * time.Second))
	admit("young")
	if got := admit("new"); got != limiter.OverflowPartition {
		t.Errorf("new fell into %q; want overflow while all are in use", got)
	}
	clock.now.Store(int64(30 * time.Second))
	if got := admit("new"); got != "new" {
		t.Errorf("new fell into %q; want a row of its own", got)
	}
	names := map[string]bool{}
	for _, p := range g.Status().Partitions {
		names[p.Name] = p.Key
	}
	want := map[string]bool{limiter.DefaultPartition: false, limiter.OverflowPartition: false, "young": true, "new": true}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("partitions, and whether they are keys (-want +got):\n%s", diff)
	}
}

// A caller that was late by a second evicted the tenant that was used last: the
// age of its row was counted without a sign.
func TestALateCallerEvictsNobody(t *testing.T) {
	clock := &stoppedClock{}
	const coarse = int64(1) << 30
	g := limiter.New("g", &limiter.Policy{MaxPartitions: 1}, limiter.Options{Clock: clock})
	admit := func(now int64, key string) string {
		p, err := g.TryAdmit(now, limiter.Request{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		defer p.End(limiter.Success)
		return p.Partition()
	}
	clock.now.Store(100 * coarse)
	admit(100*coarse, "tenant")
	if got := admit(99*coarse, "late"); got != limiter.OverflowPartition {
		t.Errorf("the late caller's key got %q; want overflow, since the tenant was used this second", got)
	}
	if got := admit(100*coarse, "tenant"); got != "tenant" {
		t.Errorf("the tenant fell into %q", got)
	}
}

// A request that sleeps its debt finds its partition anew: another may stand for
// its key by then, and two of a limit of one each would let two pass.
func TestADebtorFindsItsPartitionAnew(t *testing.T) {
	clock := &stoppedClock{}
	policy := func(named bool, total int) *limiter.Policy {
		p := &limiter.Policy{Rate: limiter.Rate{PerSecond: 1, QueueDepth: 5}, Total: total, Default: limiter.PartitionPolicy{NewLimit: newFixed(1), Signature: "1"}}
		if named {
			p.Named = []limiter.PartitionPolicy{{Name: "gold", Match: "k", NewLimit: newFixed(1), Signature: "1"}}
		}
		return p
	}
	for name, next := range map[string]*limiter.Policy{"renamed": policy(true, 0), "another total": policy(false, 1)} {
		clock.now.Store(0)
		g := limiter.New("g", policy(false, 100), limiter.Options{Clock: clock})
		first, _ := g.TryAdmit(0, limiter.Request{})
		first.End(limiter.Ignored)
		_, debtor, err := g.Offer(0, limiter.Request{Key: "k"})
		if debtor == nil || !debtor.Indebted() {
			t.Fatalf("%s: no debt: %v", name, err)
		}
		g.Apply(next)
		key := "k"
		if next.Total > 0 {
			key = "other"
		}
		exempt, err := g.TryAdmit(0, limiter.Request{Key: key, Exempt: true})
		if err != nil {
			t.Fatal(err)
		}
		_, _, done, err := debtor.Step(int64(time.Minute))
		if !done || reason(t, err) != labels.ConcurrencyLimit {
			t.Errorf("%s: the debtor's end is %v, %v; want a refusal, the place is taken", name, done, err)
		}
		exempt.End(limiter.Ignored)
	}
}

// A policy that is being applied is seen whole: neither of the two refuses, one
// for its limits and the other since it refuses nobody, but a bit of each did.
func TestApplyIsNeverSeenHalfDone(t *testing.T) {
	policies := [2]*limiter.Policy{
		{Named: []limiter.PartitionPolicy{{Name: "a", NewLimit: newFixed(100), Signature: "100"}}},
		{Mode: limiter.Shadow, Named: []limiter.PartitionPolicy{{Name: "a", NewLimit: newFixed(1), Signature: "1"}}},
	}
	for i := range 60 { // so that a reload has something to do
		for _, p := range policies {
			p.Named = append(p.Named, limiter.PartitionPolicy{Name: fmt.Sprint("b", i)})
		}
	}
	g := limiter.New("g", policies[0], limiter.Options{})
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		for i := range 2000 {
			g.Apply(policies[(i+1)%2])
		}
	})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var held [5]limiter.Permit
				for i := range held {
					p, err := g.TryAdmit(g.Now(), limiter.Request{Key: "a"})
					if err != nil {
						t.Errorf("refused: %v", err)
						return
					}
					held[i] = p
				}
				for i := range held {
					held[i].End(limiter.Ignored)
				}
			}
		})
	}
	wg.Wait()
}

// A client may choose a key that is the name of a named partition. It gets a row
// of its own, which says whose it is.
func TestAKeyMayBearTheNameOfAnother(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "checkout", Match: "co-*"}}}, limiter.Options{})
	for _, key := range []string{"co-1", "checkout", "checkout"} {
		p, err := g.TryAdmit(g.Now(), limiter.Request{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		defer p.End(limiter.Ignored)
	}
	held := map[bool]int{}
	for _, p := range g.Status().Partitions {
		if p.Name == "checkout" {
			held[p.Key] = p.InFlight
		}
	}
	if diff := cmp.Diff(map[bool]int{false: 1, true: 2}, held); diff != "" {
		t.Errorf("in flight in checkout, by whether it is a key (-want +got):\n%s", diff)
	}
}

// A status can be had in pages, and their sums are those of the whole.
func TestStatusInPages(t *testing.T) {
	g := limiter.New("g", &limiter.Policy{MaxPartitions: 1000, Named: []limiter.PartitionPolicy{{Name: "z"}}}, limiter.Options{Clock: &stoppedClock{}})
	for i := range 700 {
		p, err := g.TryAdmit(0, limiter.Request{Key: fmt.Sprintf("key-%03d", i)})
		if err != nil {
			t.Fatal(err)
		}
		if i%2 == 0 {
			p.End(limiter.Success)
		}
	}
	whole := g.Status()
	if whole.PartitionCount != 703 || len(whole.Partitions) != 703 || whole.InFlight != 350 {
		t.Fatalf("%d partitions, %d listed, %d in flight; want 703, 703 and 350", whole.PartitionCount, len(whole.Partitions), whole.InFlight)
	}
	var listed []string
	after := ""
	for pages := 0; ; pages++ {
		page := g.Page(limiter.StatusOptions{Partitions: 100, After: after})
		page.Partitions, listed = nil, append(listed, names(page.Partitions)...)
		all := whole
		all.Partitions = nil
		if diff := cmp.Diff(all, page); diff != "" {
			t.Fatalf("page %d differs from the whole (-whole +page):\n%s", pages, diff)
		}
		if next := listed[len(listed)-1]; next != after {
			after = next
			continue
		}
		if pages != 7 {
			t.Errorf("%d pages; want 7 and one that is empty", pages)
		}
		break
	}
	if diff := cmp.Diff(names(whole.Partitions), listed); diff != "" {
		t.Errorf("listed in pages (-whole +pages):\n%s", diff)
	}
	if none := g.Page(limiter.StatusOptions{Partitions: limiter.NoKeys}); len(none.Partitions) != 3 {
		t.Errorf("%d listed; want those of the configuration alone", len(none.Partitions))
	}
}

// names lists partitions.
func names(partitions []limiter.PartitionStatus) (list []string) {
	for i := range partitions {
		list = append(list, partitions[i].Name)
	}
	return list
}

// A reload that removed a partition took what it had counted out of the sums: counters of
// the ingress fell, and Prometheus took that for exempt traffic of 170/s where none was.
func TestSumsOutliveRemovedPartitions(t *testing.T) {
	with := limiter.Policy{Classes: classes(), Named: []limiter.PartitionPolicy{{Name: "gold"}, {Name: "silver"}}}
	without := limiter.Policy{Classes: classes(), Named: with.Named[1:]}
	clock := &stoppedClock{}
	g := limiter.New("g", &with, limiter.Options{Clock: clock})
	for _, key := range []string{"gold", "gold", "silver"} {
		p, err := g.TryAdmit(clock.Now(), limiter.Request{Key: key, Exempt: key == "gold"})
		if err != nil {
			t.Fatal(err)
		}
		p.End(limiter.Success)
	}
	sums := func() (exempted, admitted, byClass uint64) {
		s := g.Status()
		for i := range s.Labels {
			exempted, admitted = exempted+s.Labels[i].Counts.Exempted, admitted+s.Labels[i].Counts.Admitted
		}
		for _, c := range s.Classes {
			byClass += c.Admitted + c.Exempted
		}
		return exempted, admitted, byClass
	}
	for name, policy := range map[string]*limiter.Policy{"gold removed": &without, "gold is back": &with, "gold removed again": &without} {
		g.Apply(policy)
		for range 3 { // at once, and when nobody can hold the partition any more
			if exempted, admitted, byClass := sums(); exempted != 2 || admitted != 3 || byClass != 3 {
				t.Errorf("%s: %d exempted, %d admitted, %d by class; want 2, 3, 3", name, exempted, admitted, byClass)
			}
			clock.now.Add(int64(time.Hour))
		}
	}
}

// Two keys that are no UTF-8 were told by one name, in JSON and over the admin port, and
// what was said of that name held for neither.
func TestKeysThatAreNoText(t *testing.T) {
	a, b := limiter.KeyName("caf\xe9"), limiter.KeyName("caf\xe8")
	if a == b || !strings.HasPrefix(a, "sha256:") || limiter.KeyName("café\x00\ufffd") != "café\x00\ufffd" {
		t.Errorf("the keys are called %q and %q", a, b)
	}
	g := limiter.New("g", &limiter.Policy{
		Named: []limiter.PartitionPolicy{{Name: "vip", Match: "vip-*"}}, Keys: map[string]*limiter.PartitionPolicy{b: {Blocked: true}},
	}, limiter.Options{})
	for key, want := range map[string]string{"caf\xe9": a, "café": "café", "vip-\xff": "vip"} {
		for range 2 {
			p, err := g.TryAdmit(g.Now(), limiter.Request{Key: key})
			if err != nil || p.Partition() != want {
				t.Errorf("%q is served by %q (%v), want %q", key, p.Partition(), err, want)
			}
			p.End(limiter.Success)
		}
	}
	if _, err := g.TryAdmit(g.Now(), limiter.Request{Key: "caf\xe8"}); err == nil {
		t.Error("a key that is blocked by its name passes")
	}
}

// The counters of a removed partition ended while requests were in flight in it: the sum of
// what was received fell, 0 were in flight of 1, and later its permits had ended without
// having been granted. They stay under its name, and go on when a partition bears it again.
func TestLabelsOutliveRemovedPartitions(t *testing.T) {
	with := limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "gold"}}}
	clock := &stoppedClock{}
	g := limiter.New("g", &with, limiter.Options{Clock: clock})
	admit := func(key string) *limiter.Permit {
		p, err := g.TryAdmit(clock.Now(), limiter.Request{Key: key})
		if err != nil {
			t.Fatal(err)
		}
		return &p
	}
	admit("gold").End(limiter.Success)
	held := admit("gold")
	for n, step := range []struct {
		name                 string
		do                   func()
		admitted             uint64
		partitions, inFlight int
	}{
		{"before", func() {}, 2, 1, 1},
		{"removed", func() { g.Apply(&limiter.Policy{}) }, 2, 0, 1},
		{"ended", func() { held.End(limiter.Success) }, 2, 0, 0},
		{"forgotten", func() { clock.now.Add(int64(time.Hour)) }, 2, 0, 0},
		{"back", func() { g.Apply(&with) }, 2, 1, 0},
		{"used again", func() { admit("gold").End(limiter.Success) }, 3, 1, 0},
		{"removed again", func() { g.Apply(&limiter.Policy{}) }, 3, 0, 0},
	} {
		step.do()
		s := g.Status()
		i := slices.IndexFunc(s.Labels, func(l limiter.LabelStatus) bool { return l.Label == "gold" })
		if i < 0 {
			t.Fatalf("%d %s: no row of gold in %+v", n, step.name, s.Labels)
		}
		l := &s.Labels[i]
		if l.Counts.Admitted != step.admitted || l.Partitions != step.partitions || l.InFlight != step.inFlight || s.InFlight != step.inFlight {
			t.Errorf("%d %s: %d admitted, %d partitions, %d in flight, %d in all; want %d, %d, %d", n, step.name,
				l.Counts.Admitted, l.Partitions, l.InFlight, s.InFlight, step.admitted, step.partitions, step.inFlight)
		}
	}
	removed := 0
	for n := range 1200 { // a configuration that is never the same
		g.Apply(&limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "p" + strconv.Itoa(n)}}})
		admit("p" + strconv.Itoa(n)).End(limiter.Success)
	}
	g.Apply(&limiter.Policy{})
	s, admitted := g.Status(), uint64(0)
	for i := range s.Labels {
		admitted += s.Labels[i].Counts.Admitted
		if s.Labels[i].Partitions == 0 {
			removed++
		}
	}
	if removed != 1001 || admitted != 1203 {
		t.Errorf("%d labels of removed partitions, %d admitted over all; want 1001, 1203", removed, admitted)
	}
}
