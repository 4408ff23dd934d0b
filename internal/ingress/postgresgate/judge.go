package postgresgate

import "github.com/admitd/admitd/limiter"

// judge says what an error of the backend means for its limit. A quick failure
// is no sample of what work costs; an error that says that the server ran out
// of something, or of time, is a drop.
func judge(m []byte) limiter.Outcome {
	switch code := sqlState(m); {
	case len(code) != 5:
		return limiter.Ignored
	case string(code[:2]) == "53": // insufficient resources
		return limiter.Dropped
	case string(code) == "57014" && isTimeout(m):
		return limiter.Dropped
	}
	return limiter.Ignored
}

// sqlState returns the code of an ErrorResponse, of which the end may be
// missing.
func sqlState(m []byte) []byte { return field(m, 'C') }

// field returns a field of an ErrorResponse or a NoticeResponse.
func field(m []byte, kind byte) []byte {
	for b := m[min(headerLen, len(m)):]; len(b) > 1; {
		value, rest, ok := cutString(b[1:])
		if !ok {
			return nil
		}
		if b[0] == kind {
			return value
		}
		b = rest
	}
	return nil
}

// isTimeout tells statement_timeout from a user's wish: the server uses one code
// for both, and the routine that reports both. Only the message differs, which
// is translated; a translated one is taken for a user's wish.
func isTimeout(m []byte) bool {
	return string(field(m, 'M')) == "canceling statement due to statement timeout"
}
