package algorithms

// background tells drops that come from too much load from those that come anyway,
// as from a client that asks for what does not exist. The former become fewer
// when the limit comes down. When it has come down to half and they have not,
// they are tolerated until they become many more, or few; otherwise a limit
// would go to its minimum over six errors in a hundred and stay there.
//
// More drops than successes are an outage, and always count.
type background struct {
	limit     int     // when the drops began; 0 = there are none
	share     float64 // then
	tolerated float64 // share that does not count
}

// allow adds a window in which limit was enforced and returns the share of drops
// that it may have without counting as bad.
func (b *background) allow(s summary, limit int) float64 {
	share := s.dropFraction()
	switch {
	case share > 0.5:
		*b = background{}
	case b.tolerated > 0 && (share > 1.5*b.tolerated || share < 0.3*b.tolerated):
		*b = background{}
	case b.tolerated > 0:
		return 1.25 * b.tolerated
	case share < 0.02:
		*b = background{}
	case b.limit == 0 || limit > b.limit:
		b.limit, b.share = limit, share
	case 2*limit <= b.limit && share > 0.8*b.share:
		b.tolerated = max(share, b.share)
		return 1.25 * b.tolerated
	}
	return 0
}
