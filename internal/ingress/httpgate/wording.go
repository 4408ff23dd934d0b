package httpgate

import (
	"hash/maphash"
	"math/rand/v2"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/admitd/admitd/internal/ingress/httpgate/fastpath"
	"github.com/admitd/admitd/internal/ingress/httpgate/h2"
	"github.com/admitd/admitd/labels"
	"github.com/admitd/admitd/limiter"
)

// cause is all that the wording of a refusal depends on, besides the route's options.
type cause struct {
	rej   *limiter.Rejection
	class string
	rate  limiter.Rate // which the answer names
}

// wording is what is said of a cause.
type wording struct {
	cause
	fastpath.Wording
	stream h2.Wording
	fields [6]labels.Field // those that wait end where the wait is to stand
}

// set sets the fields of an answer that is not worded whole, with a wait in seconds.
func (w *wording) set(h http.Header, wait int64) {
	values := make([]string, 0, len(w.fields))
	for i := range w.fields {
		f := &w.fields[i]
		switch {
		case f.Name == "":
			continue
		case f.Waits:
			values = append(values, f.Value+strconv.FormatInt(wait, 10))
		default:
			values = append(values, f.Value)
		}
		n := len(values)
		h[textproto.CanonicalMIMEHeaderKey(f.Name)] = values[n-1 : n : n]
	}
}

// maxWordings is how many wordings a route keeps.
const maxWordings = 256

// replaceOne in so many requests whose wording is not kept has it kept in the place of
// another one, so that a flood from more tenants than there are places does not
// pay for each request what only the next one like it would gain.
const replaceOne = 64

// wordings keeps what was worded last. Each cause has one place, which others may
// want too.
type wordings struct {
	seed   maphash.Seed
	places [maxWordings]atomic.Pointer[wording]
}

// spares holds wordings that nobody else sees, for their buffers.
var spares = sync.Pool{New: func() any { return new(wording) }} //nolint:gochecknoglobals // a pool is global by nature

// newWordings returns none yet.
func newWordings() *wordings { return &wordings{seed: maphash.MakeSeed()} }

// find returns the wording of c. One that is not kept goes back to spares.
func (ws *wordings) find(rt *route, c cause) (w *wording, kept bool) {
	place := &ws.places[(maphash.Comparable(ws.seed, c.rej)+uint64(len(c.class)))%maxWordings]
	there := place.Load()
	if there != nil && there.cause == c {
		return there, true
	}
	w, _ = spares.Get().(*wording)
	w.word(rt, c)
	if there == nil || rand.Uint32()%replaceOne == 0 { //nolint:gosec // a sample, not a secret
		place.Store(w)
		return w, true
	}
	return w, false
}

// word words c.
func (w *wording) word(rt *route, c cause) {
	doc := c.rej.Document(limiter.Request{}, false)
	doc.Class = c.class
	w.cause, w.fields = c, doc.HTTPFields(rt.form(c.rate))
	for i := range w.fields {
		if f := &w.fields[i]; f.Waits {
			f.Value = strings.TrimSuffix(f.Value, "1") // the wait of a document without one
		}
	}
	w.Word(&doc, w.fields[:])
	w.stream.Word(&doc, w.fields[:])
}
