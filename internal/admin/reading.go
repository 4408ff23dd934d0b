package admin

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/admitd/admitd/internal/admin/statusdoc"
	"github.com/admitd/admitd/internal/httpjson"
	"github.com/admitd/admitd/limiter"
)

// status answers with what exists now. ?ingress= narrows it to one. Of clients'
// keys the hundred that are asked most are listed; how many there are is told.
// Other ones have to be asked for: ?partitions=N lists the first N in the order
// of their names, 0 = no partition at all, all = every one; ?after=NAME begins
// behind a name: pages, of which the first has the partitions of the
// configuration too; ?find=TEXT lists only those whose name contains it.
//
// What is not asked for so is read once a second for all who ask, or when a
// setting has changed. The rest takes time proportional to the partitions, and is
// done for one caller at a time: anyone may ask for it.
func (s *readHandlers) status(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	name := q.Get("ingress")
	if q.Get("partitions") != "" || q.Get("after") != "" || q.Get("find") != "" {
		s.statusPage(w, r, name, q)
		return
	}
	var f *statusdoc.Frame
	var err error
	if name == "" {
		f, err = s.cache.Fresh(time.Now(), statusdoc.FrameAge)
	} else {
		f, err = s.cache.FreshOne(time.Now())
	}
	if err != nil {
		httpjson.Fail(w, http.StatusInternalServerError, err.Error())
		return
	}
	if name == "" {
		plain, packed := f.Whole(httpjson.TakesGzip(r))
		httpjson.Send(w, plain, packed)
		return
	}
	one, ok := f.Of(name)
	if !ok {
		s.noIngress(w)
		return
	}
	w.Header().Set("ETag", one.Ingresses[0].ETag)
	httpjson.Packed(w, r, one)
}

// statusPage answers with the partitions that the caller chose.
func (s *readHandlers) statusPage(w http.ResponseWriter, r *http.Request, name string, q url.Values) {
	o := limiter.StatusOptions{After: q.Get("after"), Contains: q.Get("find"), Partitions: statusdoc.ListedKeys}
	none := false
	switch bound := q.Get("partitions"); bound {
	case "":
		if o.Contains == "" {
			o.Partitions = 0
		}
	case "all":
		o.Partitions = 0
	default:
		n, err := strconv.Atoi(bound)
		if err != nil || n < 0 {
			httpjson.Fail(w, http.StatusBadRequest, "partitions: want a number ≥ 0, or all ("+bound+")")
			return
		}
		if o.Partitions, none = n, n == 0; none {
			o.Partitions = -1 // 0 would be all
		}
	}
	s.pages.Lock()
	defer s.pages.Unlock()
	snapshot := s.o.State.Snapshot(name, o)
	if name != "" && len(snapshot.Ingresses) == 0 {
		s.noIngress(w)
		return
	}
	if none {
		for i := range snapshot.Ingresses {
			snapshot.Ingresses[i].Gate.Partitions = nil
		}
	}
	for i := range snapshot.Ingresses {
		snapshot.Ingresses[i].ETag = s.cache.Tag(snapshot.Ingresses[i].Name)
	}
	httpjson.Packed(w, r, statusdoc.Words(&snapshot, time.Now(), s.book))
}
