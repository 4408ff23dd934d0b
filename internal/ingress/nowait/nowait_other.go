//go:build !unix

package nowait

import "errors"

// Can is whether this package works here.
const Can = false

// Receive does not work here.
func Receive(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// Send does not work here.
func Send(uintptr, []byte) (int, error) { return 0, errors.ErrUnsupported }

// IsQuiet cannot tell; a stale connection shows when it is used.
func IsQuiet(uintptr) bool { return true }
