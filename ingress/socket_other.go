//go:build !unix

package ingress

import "errors"

// Sockets tells that descriptors of connections can be read and written without
// blocking.
const Sockets = false

// ReadNow is not available.
func ReadNow(uintptr, []byte) (n int, again bool, err error) { return 0, false, errors.ErrUnsupported }

// WriteNow is not available.
func WriteNow(uintptr, []byte) (n int, again bool, err error) { return 0, false, errors.ErrUnsupported }
