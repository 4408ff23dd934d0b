package admin

import (
	"math"
	"net/http"
	"slices"
	"strconv"

	"github.com/admitd/admitd/askers"
	"github.com/admitd/admitd/status"
)

// Bounds of GET /v1/top.
const (
	defaultTop = 10
	maxTop     = 100
	// statusTop is how many of each kind the status tells.
	statusTop = 3
)

// top answers with who makes the load: ?ingress= one, ?by= one kind of client,
// application, user and operation, ?order=refused instead of received, ?n= how
// many of each.
func (s *window) top(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	kinds := askers.Kinds()
	if by := askers.Kind(q.Get("by")); by != "" {
		if !slices.Contains(kinds, by) {
			fail(w, http.StatusBadRequest, "by: want client, application, user or operation ("+string(by)+")")
			return
		}
		kinds = []askers.Kind{by}
	}
	order := q.Get("order")
	if order != "" && order != "received" && order != "refused" {
		fail(w, http.StatusBadRequest, "order: want received or refused ("+order+")")
		return
	}
	n := defaultTop
	if text := q.Get("n"); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil || n < 1 || n > maxTop {
			fail(w, http.StatusBadRequest, "n: want 1 to "+strconv.Itoa(maxTop)+" ("+text+")")
			return
		}
	}
	boards := s.press.boards(q.Get("ingress"))
	if len(boards) == 0 && q.Get("ingress") != "" {
		fail(w, http.StatusNotFound, "no such ingress")
		return
	}
	out := status.Top{}
	for name, board := range boards {
		out[name] = newTop(board, kinds, n, order == "refused")
	}
	answerTo(w, r, out)
}

// newTop words who asks an ingress; nil when nothing is known.
func newTop(board *askers.Board, kinds []askers.Kind, n int, byRefused bool) map[string][]status.Asker {
	if board == nil {
		return nil
	}
	var out map[string][]status.Asker
	for _, kind := range kinds {
		rows := board.Top(kind, n, byRefused)
		if len(rows) == 0 {
			continue
		}
		list := make([]status.Asker, len(rows))
		for i, row := range rows {
			list[i] = status.Asker{Name: row.Name, Received: tenths(row.Received), Refused: tenths(row.Refused), Over: tenths(row.Over)}
		}
		if out == nil {
			out = map[string][]status.Asker{}
		}
		out[string(kind)] = list
	}
	return out
}

// tenths rounds a rate.
func tenths(v float64) float64 { return math.Round(v*10) / 10 }
