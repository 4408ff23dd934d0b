package mongowire

// OpenedMax bounds what is opened of a compressed frame, in bytes.
const OpenedMax = openedMax

// SnappyPrefix decompresses the start of a snappy block.
func SnappyPrefix(dst, src []byte) (int, error) { return snappyPrefix(dst, src) }
