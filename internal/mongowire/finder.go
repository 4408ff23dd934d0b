package mongowire

// headMax is the longest start of an element, its key included, that a
// Finder looks at, in bytes.
const headMax = 512

// Finder finds cursor.id in a reply that is longer than the buffer, as its parts
// pass. Servers put the id behind the batch, so most of the reply is skipped. The
// zero value has nothing to find. It belongs to one goroutine.
type Finder struct {
	head   []byte // of an element, cut where the last part ended
	skip   int    // bytes before the next element
	Active bool   // something is to be found yet
	inside bool   // the cursor's document
}

// Start prepares for an OP_MSG of which the header is fed first.
func (c *Finder) Start() {
	c.head, c.skip = c.head[:0], HeaderLen+4+1+4 // flags, kind, length of the document
	c.Active, c.inside = true, false
}

// Feed takes the next part. It returns the id when it was found; the finder is
// then no longer active.
func (c *Finder) Feed(b []byte) (id int64, found bool) {
	for c.Active {
		if n := min(c.skip, len(b)); n > 0 {
			c.skip -= n
			b = b[n:]
			continue
		}
		if n := min(headMax-len(c.head), len(b)); n > 0 && c.skip == 0 {
			c.head = append(c.head, b[:n]...)
			b = b[n:]
		}
		if c.skip > 0 || len(c.head) == 0 {
			return 0, false
		}
		id, found, cut := c.element()
		if found {
			c.Active = false
			return id, true
		}
		if cut && len(b) == 0 && len(c.head) < headMax {
			return 0, false
		}
		c.Active = c.Active && !cut
	}
	return 0, false
}

// element looks at the element at the start of head and moves behind it. cut
// is true when its start is not all there.
func (c *Finder) element() (id int64, found, cut bool) {
	key, value, ok := cstring(c.head[1:])
	if c.head[0] == 0 {
		c.Active = false
		return 0, false, false
	}
	if !ok {
		return 0, false, true
	}
	e := Element{Type: c.head[0], Key: key}
	n := valueLen(e.Type, value)
	switch {
	case n == malformed:
		c.Active = false
		return 0, false, false
	case n == incomplete:
		return 0, false, true
	case !c.inside && e.Type == TypeDocument && string(key) == "cursor":
		c.inside, n = true, 4
	case c.inside && string(key) == "id":
		if n > len(value) {
			return 0, false, true
		}
		e.Value = value[:n]
		id, found = e.Number()
		c.Active = false
		return id, found, false
	}
	c.drop(2 + len(key) + n)
	return 0, false, false
}

// drop moves n bytes on, in head and then in what is fed later.
func (c *Finder) drop(n int) {
	have := min(n, len(c.head))
	c.head = c.head[:copy(c.head, c.head[have:])]
	c.skip = n - have
}
