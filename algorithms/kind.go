package algorithms

// The algorithms as the configuration spells them.
const (
	KindFixed     = "fixed"
	KindAIMD      = "aimd"
	KindVegas     = "vegas"
	KindGradient  = "gradient"
	KindGradient2 = "gradient2"
	KindKnee      = "knee"
)
