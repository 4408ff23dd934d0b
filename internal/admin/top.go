package admin

import (
	"net/http"
	"slices"
	"strconv"

	"github.com/admitd/admitd/internal/admin/statusdoc"
	"github.com/admitd/admitd/internal/httpjson"
	"github.com/admitd/admitd/internal/topkeys"
	"github.com/admitd/admitd/status"
)

// Bounds of GET /v1/top.
const (
	defaultTop = 10
	maxTop     = 100
)

// top answers with who makes the load: ?ingress= one, ?by= one kind of client,
// application, user and operation, ?order=refused instead of received, ?n= how
// many of each.
func (s *readHandlers) top(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	kinds := topkeys.Kinds()
	if by := topkeys.Kind(q.Get("by")); by != "" {
		if !slices.Contains(kinds, by) {
			httpjson.Fail(w, http.StatusBadRequest, "by: want client, application, user or operation ("+string(by)+")")
			return
		}
		kinds = []topkeys.Kind{by}
	}
	order := q.Get("order")
	if order != "" && order != "received" && order != "refused" {
		httpjson.Fail(w, http.StatusBadRequest, "order: want received or refused ("+order+")")
		return
	}
	n := defaultTop
	if text := q.Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > maxTop {
			httpjson.Fail(w, http.StatusBadRequest, "n: want 1 to "+strconv.Itoa(maxTop)+" ("+text+")")
			return
		}
	}
	boards := s.cache.Boards(q.Get("ingress"))
	if len(boards) == 0 && q.Get("ingress") != "" {
		s.noIngress(w)
		return
	}
	out := status.Top{}
	for name, board := range boards {
		out[name] = statusdoc.Top(board, kinds, n, order == "refused")
	}
	httpjson.Packed(w, r, out)
}
