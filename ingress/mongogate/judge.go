package mongogate

import "github.com/admitd/admitd/labels"

// reply is what a backend's reply says that the gate needs to know.
type reply struct {
	failed     bool  // ok: 0, or error labels
	overloaded bool  // overload or a timeout: counts as a drop
	hasCursor  bool  // or the backend knows it no more
	cursor     int64 // 0 = exhausted
}

// readReply reads a reply's document, of which the end may be missing, in one
// pass.
func readReply(body []byte) (r reply) {
	var e element
	s := scan(body)
	for s.next(&e) {
		switch string(e.key) {
		case "ok":
			r.failed = r.failed || !e.truthy()
		case "errorLabels":
			r.failed = true
			r.overloaded = r.overloaded || hasString(e.doc(), labels.SystemOverloaded)
		case "code":
			code, _ := e.number()
			r.overloaded = r.overloaded || tooSlow(code)
			r.hasCursor = r.hasCursor || code == codeCursorNotFound
		case "cursor":
			if id, ok := lookupIn(e, "id"); ok {
				r.hasCursor = true
				r.cursor, _ = id.number()
			}
		}
	}
	return r
}

// codeCursorNotFound is the error of a backend that does not know the cursor.
const codeCursorNotFound = 43

// tooSlow reports whether an error code is one by which a server says that it
// ran out of time.
func tooSlow(code int64) bool {
	switch code {
	case 50, // MaxTimeMSExpired
		89,  // NetworkTimeout
		202, // NetworkInterfaceExceededTimeLimit
		262: // ExceededTimeLimit
		return true
	}
	return false
}

// hasString reports whether the array holds the string.
func hasString(s scanner, want string) bool {
	var e element
	for s.next(&e) {
		if string(e.str()) == want {
			return true
		}
	}
	return false
}
