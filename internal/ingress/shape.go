package ingress

// Fingerprint is a hash of what makes a shape, the same in every gate. The zero
// value is not one: begin with [NewFingerprint].
type Fingerprint uint64

// NewFingerprint returns the fingerprint of nothing.
func NewFingerprint() Fingerprint { return 14695981039346656037 }

// Fold returns f with another part, apart from what stood before.
func Fold[T ~string | ~[]byte](f Fingerprint, part T) Fingerprint {
	for i := range len(part) {
		f = (f ^ Fingerprint(part[i])) * 1099511628211
	}
	return (f ^ 0xff) * 1099511628211
}
