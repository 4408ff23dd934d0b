package httpgate

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// shownDigits is how much of the hash of a secret stands for it, in hexadecimal digits.
const shownDigits = 16

// isSecret reports whether the values of a header or of a query parameter are taken
// for secrets: those by which clients prove who they are.
func isSecret(name string) bool {
	name = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
	switch name {
	case "authorization", "proxy-authorization", "cookie", "key", "apikey", "sig", "signature":
		return true
	}
	for _, part := range []string{"token", "secret", "password", "passwd", "api-key", "apikey", "authorization", "credential", "session", "jwt"} {
		if strings.Contains(name, part) {
			return true
		}
	}
	return false
}

// digest returns what stands for a secret: it is another for another secret, and does
// not tell it.
func digest(secret string) string {
	if secret == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(secret))
	return "sha256:" + hex.EncodeToString(sum[:shownDigits/2])
}

// isNamed reports whether a named partition serves the key.
func (id *identifier) isNamed(key string) bool {
	for _, match := range id.named {
		if prefix, ok := strings.CutSuffix(match, "*"); ok && strings.HasPrefix(key, prefix) || key == match {
			return true
		}
	}
	return false
}
