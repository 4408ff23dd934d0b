package algorithms

import (
	"github.com/admitd/admitd/algorithms/knee"
)

// kneeRow registers the algorithm.
func kneeRow() Row {
	d := knee.Options{}.WithDefaults()
	return Row{
		Name:     KindKnee,
		Keys:     []Key{{"initialLimit", d.InitialLimit}, {"minLimit", d.MinLimit}, {"maxLimit", d.MaxLimit}},
		validate: func(s Settings) error { return kneeOptions(s).Validate() },
		limit:    func(s Settings) Limit { return knee.New(kneeOptions(s)) },
	}
}

func kneeOptions(s Settings) knee.Options {
	return knee.Options{
		InitialLimit: s.InitialLimit, MinLimit: s.MinLimit, MaxLimit: s.MaxLimit,
		Gates: s.gates(), Others: s.Others, Epoch: s.Epoch, Objective: s.Objective, Queued: s.Queued,
	}
}
