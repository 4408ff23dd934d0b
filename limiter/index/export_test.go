package index

// Slots returns how many slots an index has.
func Slots[T any](x *Index[T]) int { return len(x.slots) }
