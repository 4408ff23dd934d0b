package e2e_test

import (
	"encoding/json"
	"testing"

	"github.com/chromedp/chromedp"
)

// events feeds the page's own store with made-up events, in the browser, and
// returns what the script makes of it.
func events[T any](p *tab, script string) T {
	p.t.Helper()
	v, err := chromedp.Run(p.ctx, chromedp.Evaluate[json.RawMessage](`(async () => {
		const [{ CAPACITY, Store }, { decodeStatus, decodeHistory }, { reasons }] =
			await Promise.all(["store", "decode", "format"].map((m) => import("./" + m + ".js")));
		reasons.take([{ name: "request_rate", words: "request rate" }]);
		const store = new Store();
		const at = (s) => new Date(1.7e12 + 1000 * s).toISOString();
		const counts = (n) => ({ received: 4 * n, admitted: 3 * n, rejected: { request_rate: n } });
		const partition = (name, n) => ({ name, label: name, algorithm: "fixed", limit: 5, inFlight: 2, queued: 0, baseRTTMS: 0, counts: counts(n) });
		const event = (s, partitions, more) => decodeStatus({
			at: at(s), uptimeSeconds: s, ingresses: [{ name: "orders", mode: "enforce", total: 0, inFlight: 2, queued: 0, counts: counts(10 * s), partitions, ...more }],
		});
		const column = (name, field, seconds = 60) => store.history(name === "" ? store.ingresses.get("orders").entity
			: store.ingresses.get("orders").partitions.get(name), [field], seconds).columns[1];
		return JSON.stringify(await (async () => {`+script+`})());
	})().then(JSON.parse)`, chromedp.EvalAwaitPromise))
	if err != nil {
		p.t.Fatal(err)
	}
	var out T
	if err := json.Unmarshal(v, &out); err != nil {
		p.t.Fatalf("%s: %v", v, err)
	}
	return out
}

// However long the page is open and however many partitions come and go, what
// it keeps has a bound.
func TestHistoryIsBounded(t *testing.T) {
	p := open(t, start(t))
	got := events[struct {
		Capacity, Longest, Points, Tracked, Left int
		Keys                                     []string
	}](p, `
		const names = Array.from({ length: 1500 }, (_, i) => "tenant-" + i);
		store.take(event(0, names.map((n) => partition(n, 0))), true);
		for (let s = 1; s <= 2000; s++) store.take(event(s, [partition("tenant-" + s % 7, s)]), false);
		const { entity, partitions } = store.ingresses.get("orders");
		let longest = 0, tracked = 0;
		for (const e of [entity, ...partitions.values()]) {
			if (e !== entity && e.series) tracked++;
			for (const ring of Object.values(e.series ?? {})) longest = Math.max(longest, ring.length);
		}
		const points = column("", "admitted", 1e9).length;
		store.take(event(2001, [], { gone: names.slice(1) }), false);
		return { Capacity: CAPACITY, Longest: longest, Points: points, Tracked: tracked, Left: partitions.size, Keys: Object.keys(entity.series) };
	`)
	if got.Longest > got.Capacity || got.Points > got.Capacity || got.Tracked > 512 || got.Left != 1 {
		t.Errorf("kept %+v: want at most %d points and 512 histories, and 1 partition left", got, got.Capacity)
	}
	if got.Capacity < 1800 || got.Tracked < 500 || got.Points != got.Capacity {
		t.Errorf("kept %+v: want 30 min for 500 partitions", got)
	}
}

// Rates are what the counts grew by per second; a gap breaks the line, and
// neither a restart nor a clock that is set back makes a spike.
func TestRatesFromCounts(t *testing.T) {
	p := open(t, start(t))
	null := (*float64)(nil)
	f := func(v float64) *float64 { return &v }
	for name, tc := range map[string]struct {
		script string
		want   []*float64
	}{
		"steady": {`for (const s of [1, 2, 3]) store.take(event(s, []), s === 1);
			return column("", "admitted");`, []*float64{null, f(30), f(30)}},
		"two seconds at once": {`for (const s of [1, 3, 5]) store.take(event(s, []), s === 1);
			return column("", "request_rate");`, []*float64{null, f(10), f(10)}},
		"a gap": {`for (const s of [1, 2, 12, 13]) store.take(event(s, []), s === 1 || s === 12);
			return column("", "admitted");`, []*float64{null, f(30), null, f(30), f(30)}},
		"a restart": {`for (const s of [101, 102]) store.take(event(s, []), s === 101);
			store.take({ ...event(1, []), at: at(103) }, true);
			store.take({ ...event(2, []), at: at(104) }, false);
			return column("", "admitted");`, []*float64{null, f(30), f(0), f(30)}},
		"the clock was set back": {`for (const s of [101, 102]) store.take(event(s, []), s === 101);
			store.take({ ...event(103, []), at: at(3) }, false);
			store.take({ ...event(104, []), at: at(4) }, false);
			return column("", "admitted");`, []*float64{null, f(30)}},
		"a partition that does not change is idle": {`store.take(event(1, [partition("a", 1)]), true);
			store.take(event(2, [partition("a", 3)]), false);
			store.take(event(3, []), false);
			return column("a", "admitted");`, []*float64{null, f(6), f(0)}},
		"frozen": {`for (const s of [1, 2]) store.take(event(s, []), s === 1);
			const frozen = store.freeze();
			for (const s of [3, 4]) store.take(event(s, []), false);
			return frozen.history(frozen.ingresses.get("orders").entity, ["admitted"], 60).columns[1];`, []*float64{null, f(30)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := events[[]*float64](p, tc.script)
			if len(got) != len(tc.want) {
				t.Fatalf("%d points, want %d: %s", len(got), len(tc.want), show(got))
			}
			for i := range got {
				if (got[i] == nil) != (tc.want[i] == nil) || got[i] != nil && *got[i] != *tc.want[i] {
					t.Fatalf("points %s, want %s", show(got), show(tc.want))
				}
			}
		})
	}
}

func show(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
