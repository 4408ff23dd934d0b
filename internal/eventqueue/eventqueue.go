// Package eventqueue keeps what is to happen in virtual time, earliest first.
package eventqueue

// An Queue holds values and the times at which they are due. The zero value is
// empty. It allocates only to grow, and is not safe for concurrent use.
type Queue[T any] struct {
	items []item[T] // a heap: container/heap would allocate for each
	seq   uint64
}

// item is one value.
type item[T any] struct {
	at    int64
	seq   uint64
	value T
}

// Add adds a value that is due at a time.
func (a *Queue[T]) Add(at int64, value T) {
	a.seq++
	a.items = append(a.items, item[T]{at, a.seq, value})
	for i := len(a.items) - 1; i > 0; {
		parent := (i - 1) / 2
		if !a.before(i, parent) {
			return
		}
		a.items[i], a.items[parent] = a.items[parent], a.items[i]
		i = parent
	}
}

// Next returns the time at which the next value is due. ok is false when there is
// none.
func (a *Queue[T]) Next() (at int64, ok bool) {
	if len(a.items) == 0 {
		return 0, false
	}
	return a.items[0].at, true
}

// Take removes the value that is due next and returns it with its time. Values that
// are due at one time come in the order in which they were added. The agenda must
// not be empty.
func (a *Queue[T]) Take() (at int64, value T) {
	h := a.items
	first, last := h[0], len(h)-1
	h[0], h[last] = h[last], item[T]{}
	a.items = h[:last]
	for i := 0; ; {
		child := 2*i + 1
		if child >= last {
			return first.at, first.value
		}
		if child+1 < last && a.before(child+1, child) {
			child++
		}
		if !a.before(child, i) {
			return first.at, first.value
		}
		h[i], h[child] = h[child], h[i]
		i = child
	}
}

// before reports whether item i comes before item j.
func (a *Queue[T]) before(i, j int) bool {
	x, y := &a.items[i], &a.items[j]
	return x.at < y.at || x.at == y.at && x.seq < y.seq
}
