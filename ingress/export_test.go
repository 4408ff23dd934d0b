package ingress

// KeepFrom has a door keep descriptors from clients from this number on.
func (d *Door) KeepFrom(descriptor uint64) { d.last = descriptor }
