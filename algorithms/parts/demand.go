package parts

// Demand is where a limit reads what was asked of its partition. The zero value
// reads nothing. It is not safe for concurrent use.
type Demand struct {
	read             func() (offered, refused uint64) // nil = nowhere
	offered, refused uint64                           // when it was read last
}

// Watch says where to read: counts since the beginning, of which only what comes
// from now on is taken.
func (d *Demand) Watch(read func() (offered, refused uint64)) {
	d.read = read
	d.offered, d.refused = read()
}

// Take returns what was offered and refused since it was called last. ok is false
// when nobody says.
func (d *Demand) Take() (offered, refused uint64, ok bool) {
	if d.read == nil {
		return 0, 0, false
	}
	o, r := d.read()
	offered, refused = o-d.offered, r-d.refused
	d.offered, d.refused = o, r
	return offered, refused, true
}
