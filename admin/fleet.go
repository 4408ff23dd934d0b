package admin

import "net/http"

// fleet answers with how the daemon stands in its group.
func (s *window) fleet(w http.ResponseWriter, _ *http.Request) {
	if s.o.Fleet != nil {
		if f := s.o.Fleet(); f != nil {
			answer(w, http.StatusOK, f)
			return
		}
	}
	fail(w, http.StatusNotFound, "nothing is shared: fleet.redis.addresses is empty")
}
