package postgresgate

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Bounds on messages, in bytes.
const (
	// maxStartup is the longest message before the login, as in the server.
	maxStartup = 10_000
	// maxMessage is the longest message that servers accept, 1 GiB less one.
	maxMessage = 1<<30 - 1
	// maxLogin bounds messages of a client that has not logged in.
	maxLogin = 64 << 10
	// headerLen is a type and a length.
	headerLen = 5
	// seen is how much of a long message is looked at.
	seen = 16 << 10
)

// Codes that stand where a start-up message has its protocol version.
const (
	codeCancel = 80877102
	codeTLS    = 80877103
	codeGSS    = 80877104
)

// errFrame is returned for what cannot be the protocol.
var errFrame = errors.New("postgresgate: not the protocol")

// startupSize is the length of the message before the login at the head of b, 0
// while b is too short to tell.
func startupSize(b []byte) (int, error) {
	if len(b) < 4 {
		return 0, nil
	}
	n := binary.BigEndian.Uint32(b)
	if n < 8 || n > maxStartup {
		return 0, fmt.Errorf("%w: start-up message of %d bytes, want 8 to %d", errFrame, n, maxStartup)
	}
	return int(n), nil
}

// messageSize is the length of the typed message at the head of b, its type
// included, 0 while b is too short to tell.
func messageSize(b []byte, most int) (int, error) {
	if len(b) < headerLen {
		return 0, nil
	}
	n := binary.BigEndian.Uint32(b[1:])
	if n < 4 || n > uint32(most) {
		return 0, fmt.Errorf("%w: message %q of %d bytes, want 4 to %d", errFrame, b[0], n, most)
	}
	return int(n) + 1, nil
}

// startupCode is what stands where a start-up message has its version.
func startupCode(m []byte) uint32 { return binary.BigEndian.Uint32(m[4:]) }

// cutString takes a string that ends in a zero from the head of b. ok is false
// when its end is not there.
func cutString(b []byte) (s, rest []byte, ok bool) {
	for i, c := range b {
		if c == 0 {
			return b[:i], b[i+1:], true
		}
	}
	return nil, b, false
}

// appendMessage appends a typed message with the body.
func appendMessage(dst []byte, kind byte, body ...byte) []byte {
	dst = append(dst, kind)
	dst = binary.BigEndian.AppendUint32(dst, uint32(len(body)+4))
	return append(dst, body...)
}

// appendReady appends a ReadyForQuery with the transaction status.
func appendReady(dst []byte, status byte) []byte { return appendMessage(dst, msgReady, status) }

// Types of messages. Both sides use some letters for different things.
const (
	// From the client.
	msgQuery        = 'Q'
	msgFunctionCall = 'F'
	msgParse        = 'P'
	msgBind         = 'B'
	msgDescribe     = 'D'
	msgExecute      = 'E'
	msgClose        = 'C'
	msgSync         = 'S'
	msgFlush        = 'H'
	msgTerminate    = 'X'
	msgPassword     = 'p'
	msgCopyData     = 'd'
	msgCopyDone     = 'c'
	msgCopyFail     = 'f'

	// From the server.
	msgParsed          = '1'
	msgClosed          = '3'
	msgRow             = 'T'
	msgDataRow         = 'D'
	msgNoRow           = 'n'
	msgReady           = 'Z'
	msgError           = 'E'
	msgParameterStatus = 'S'
	msgKeyData         = 'K'
	msgAuthentication  = 'R'
	msgCopyIn          = 'G'
	msgCopyOut         = 'H'
	msgCopyBoth        = 'W'
)

// Transaction statuses of a ReadyForQuery.
const (
	statusIdle   = 'I'
	statusInTxn  = 'T'
	statusFailed = 'E'
)
