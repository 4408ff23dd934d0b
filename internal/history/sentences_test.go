package history_test

import (
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/limiter"
)

// nonsense is what no sentence has: figures that are none, rates and shares of nothing,
// factors that say nothing, digits that nobody reads, and holes where a word was to be.
var nonsense = regexp.MustCompile(`NaN|Inf|%!|-\d|\b0\.0/s|\b0\.0×|\b0\.0 times|\b0 % |% of 0(\.0)?/s|\b\d{3,}\.\d|\b\d+\.\d{3}|\b\d{2}\.\d{2}|\b\d{6,}/s|\b1[0-9][1-9] % of|  |\(\)|: \.|, \.|\.\.`)

// anyIncident draws a second of anything.
func anyIncident(t *rapid.T, name string) incident {
	rate := func(what string) uint64 {
		return rapid.OneOf(rapid.Just(uint64(0)), rapid.Uint64Range(1, 3), rapid.Uint64Range(0, 500), rapid.Uint64Range(0, 1_000_000_000)).Draw(t, name+" "+what)
	}
	few := func(what string) uint64 {
		return rapid.OneOf(rapid.Just(uint64(0)), rapid.Just(uint64(0)), rapid.Uint64Range(1, 200)).Draw(t, name+" "+what)
	}
	often := func(what string) bool { return rapid.IntRange(0, 5).Draw(t, name+" "+what) == 0 }
	latency := func(what string) time.Duration {
		return time.Duration(rapid.OneOf(rapid.Int64Range(1, 1000), rapid.Int64Range(1, int64(time.Second)), rapid.Int64Range(1, int64(time.Hour))).Draw(t, name+" "+what))
	}
	s := incident{
		admitted: rate("admitted"), refused: few("refused"), left: few("left"), invalid: few("invalid"), fails: few("fails"), lacks: few("lacks"),
		strange: few("strange"), by: rapid.SampledFrom(limiter.Causes()).Draw(t, name+" by"), cause: rapid.SampledFrom([]ingress.Cause{ingress.Unreachable, ingress.HungUp}).Draw(t, name+" cause"),
		held: rapid.IntRange(0, 20).Draw(t, name+" held"), limit: rapid.IntRange(1, 1000).Draw(t, name+" limit"), latency: latency("latency"),
		why: rapid.SampledFrom([]string{"", "room", "queue", "drain", "unheard of"}).Draw(t, name+" why"),
	}
	s.answered = min(s.admitted, rate("answered"))
	s.errors = min(s.admitted-s.answered, few("errors"))
	if often("base") {
		s.base = latency("base")
	}
	if often("expired") {
		s.expired = true
	}
	s.fallback = often("fallback")
	if often("scarce") {
		s.scarce = few("scarce")
	}
	if often("pinned") {
		s.pinned = "override 7 (limit=2) by ops"
	}
	if often("delay") {
		s.process.Delay = latency("delay")
	}
	if often("fleet") {
		s.process.Fleet = "closed"
	}
	return s
}

// Whatever happens, no sentence has a figure that says nothing.
func TestSentencesHaveNoNonsense(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) { sentences(t, rt) })
}

func sentences(bubble *testing.T, t *rapid.T) {
	calm := anyIncident(t, "before")
	seconds := []incident{calm, calm, calm}
	for range rapid.IntRange(1, 4).Draw(t, "seconds") {
		s := anyIncident(t, "then")
		for range rapid.IntRange(1, 4).Draw(t, "times") {
			seconds = append(seconds, s)
		}
	}
	base := time.Duration(rapid.Int64Range(0, int64(time.Second)).Draw(t, "base"))
	mode := rapid.SampledFrom([]limiter.Mode{limiter.Enforce, limiter.Shadow, limiter.Off}).Draw(t, "mode")
	var bad []string
	synctest.Test(bubble, func(*testing.T) {
		o := newIngressOf(base)
		o.mode = mode
		for _, s := range seconds {
			o.second(s)
			e, _ := o.book.Explain("orders", "acme", time.Now())
			for _, text := range []string{o.book.Verdict("orders", time.Now()).Text, o.book.Forecast("orders", time.Now()), e.Text} {
				if found := nonsense.FindString(text); found != "" {
					bad = append(bad, found+": "+text)
				}
			}
		}
	})
	if len(bad) > 0 {
		t.Fatalf("%d sentences have nonsense, such as %q", len(bad), bad[0])
	}
}
