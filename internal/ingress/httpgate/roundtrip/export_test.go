package roundtrip

import (
	"net/http"

	"github.com/admitd/admitd/limiter"
)

// Blame opens [Route.blame] to the tests.
var Blame = (*Route).blame

// WatchStall begins to watch a write to the client of w, for which permit is held; end
// ends that and reports whether the write was made to fail.
func WatchStall(w http.ResponseWriter, permit *limiter.Permit) (end func() bool) {
	s := newStallWatch()
	s.begin(http.NewResponseController(w), permit)
	return s.end
}
