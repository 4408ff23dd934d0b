package lab

import (
	"fmt"
	"time"

	"github.com/admitd/admitd/algorithms"
	"github.com/admitd/admitd/internal/fleet/pool"
	"github.com/admitd/admitd/limiter"
)

// exchangeEvery is the time between two exchanges of gates that share a limit, as
// by default.
const exchangeEvery = 200 * time.Millisecond

// group is the gates that share a limit, and the board between them.
type group struct {
	board   pool.Memory
	members int
}

// share returns a gate's part of a limit that so many gates share. It makes two
// limits per gate, of the partitions default and overflow; the first of each
// gate is what they share.
func (w *World) share(gates int, a algorithms.Settings) limiter.Limit {
	l := pool.New(pool.Options{Gates: gates, Interval: exchangeEvery, Rand: w.gates, Make: func(initial, of, least int) pool.Algorithm {
		settings := a
		settings.Gates = of
		settings.MinLimit = max(settings.MinLimit, least)
		if initial > 0 {
			settings.InitialLimit = initial
		}
		made, err := algorithms.New(settings)
		if err != nil {
			panic(err) // the defaults are valid: a fault of ours
		}
		return made
	}})
	w.group.members++
	id, first := fmt.Sprintf("gate%02d", w.group.members/2), w.group.members%2 == 1
	if !first {
		return l
	}
	phase := time.Duration(w.group.members) * exchangeEvery / time.Duration(2*gates+1)
	var exchange func()
	exchange = func() {
		now := w.now + 1
		b := w.group.board.Exchange(now, 3*int64(exchangeEvery), l.Row(now, id), nil)
		if v, news := l.Hear(now, now, id, &b); news {
			b = w.group.board.Exchange(now, 3*int64(exchangeEvery), l.Row(now, id), &v)
			l.HearAgain(id, &b)
		}
		w.After(exchangeEvery, exchange)
	}
	w.After(phase, exchange)
	return l
}
