//go:build !unix

package relay

import "errors"

// canReadRaw: this system has no descriptors to read from.
const canReadRaw = false

// rawRead is never called.
func rawRead(uintptr, []byte) (n int, again bool, err error) {
	return 0, false, errors.ErrUnsupported
}
