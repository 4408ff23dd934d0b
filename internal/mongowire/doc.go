// Package mongowire reads the wire protocol of MongoDB in place: frames, what of
// them is compressed, and the documents in them, of each as much as is there.
//
// [ReadHeader] and [ParseMessage] take a frame apart, an [Opener] looks into the
// start of a compressed one, a [Scanner] walks a document, and a [Finder] finds a
// cursor's id in a reply that passes in parts. Nothing is kept, and what points
// into the bytes that were given is valid as long as they are. It knows no
// command and decides nothing.
package mongowire
