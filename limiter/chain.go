package limiter

// chain is a list of things that are in one place at most, so that joining,
// leaving and serving take the same time however long it is. The links are part
// of the things: nothing is allocated. The zero chain is empty.
type chain[T any] struct {
	first, last *link[T]
	n           int
}

// link is a thing's place in a chain, the zero link in none.
type link[T any] struct {
	prev, next *link[T]
	in         *chain[T]
	of         *T
}

// push puts l, which is in no chain, at the end.
func (c *chain[T]) push(l *link[T]) {
	l.prev, l.next, l.in = c.last, nil, c
	if c.last == nil {
		c.first = l
	} else {
		c.last.next = l
	}
	c.last = l
	c.n++
}

// leave takes l out of its chain, if it is in one.
func (l *link[T]) leave() {
	c := l.in
	if c == nil {
		return
	}
	if l.prev == nil {
		c.first = l.next
	} else {
		l.prev.next = l.next
	}
	if l.next == nil {
		c.last = l.prev
	} else {
		l.next.prev = l.prev
	}
	l.prev, l.next, l.in = nil, nil, nil
	c.n--
}
