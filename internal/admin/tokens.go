package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"strings"
)

// bearer is one token, and who carries it.
type bearer struct {
	name string // "" = nobody in particular
	sum  [sha256.Size]byte
}

// maxTokens bounds the tokens of a port.
const maxTokens = 100

// parseTokens reads the text of a token file: on each line a token, or a name and
// a token, so that the log can say who changed what. Empty lines and those that
// begin with # say nothing.
func parseTokens(text string) (all []bearer, err error) {
	for n, line := range strings.Split(text, "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) > 2 || len(all) == maxTokens {
			return nil, fmt.Errorf("admin: line %d of the tokens: want TOKEN, or NAME TOKEN, and at most %d of them", n+1, maxTokens)
		}
		b := bearer{sum: sha256.Sum256([]byte(fields[len(fields)-1]))}
		if len(fields) == 2 {
			b.name = fields[0]
		}
		all = append(all, b)
	}
	if len(all) == 0 && strings.TrimSpace(text) != "" {
		return nil, errors.New("admin: there are no tokens in the text")
	}
	return all, nil
}

// CheckTokens reports what is wrong with the text of a token file; see
// [Server.SetToken].
func CheckTokens(text string) error {
	_, err := parseTokens(text)
	return err
}

// carried returns whose token a request carries, nil when it carries none of
// them. Digests are compared, and all of them, so that the time tells neither
// content nor length.
func carried(r *http.Request, all []bearer) (found *bearer) {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	sum := sha256.Sum256([]byte(token))
	for i := range all {
		if subtle.ConstantTimeCompare(sum[:], all[i].sum[:]) == 1 && strings.EqualFold(scheme, "bearer") {
			found = &all[i]
		}
	}
	return found
}

// who names who asks, for the log: the name of the token, and the address.
func (g *guard) who(r *http.Request) string {
	if all := g.token.Load(); all != nil {
		if b := carried(r, *all); b != nil && b.name != "" {
			return b.name + " (" + r.RemoteAddr + ")"
		}
	}
	return r.RemoteAddr
}
