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

// ShownKey returns a partition key as the status shows it, of the real one or of that. Of
// o it reads By and Named.
func ShownKey(o *Options, key string) string {
	if matches(o.Named, key) {
		return key
	}
	parts := []string{key}
	if len(o.By) > 1 {
		parts = strings.Split(key, "/")
	}
	if len(parts) != len(o.By) {
		return key // it cannot be told apart
	}
	for i, by := range o.By {
		if isSecretPart(by) && !isDigest(parts[i]) {
			parts[i] = digest(parts[i])
		}
	}
	return strings.Join(parts, "/")
}

// isSecretPart reports whether an entry of Options.By makes keys of secrets.
func isSecretPart(by string) bool {
	kind, name, _ := strings.Cut(by, ":")
	return (kind == "header" || kind == "query") && isSecret(name)
}

// isDigest reports whether s is what stands for a secret.
func isDigest(s string) bool {
	digits, ok := strings.CutPrefix(s, "sha256:")
	_, err := hex.DecodeString(digits)
	return ok && err == nil && len(digits) == shownDigits
}

// isNamed reports whether a named partition serves the key.
func (id *identifier) isNamed(key string) bool { return matches(id.named, key) }

// matches reports whether a key is one of those that named partitions serve.
func matches(named []string, key string) bool {
	for _, match := range named {
		if prefix, ok := strings.CutSuffix(match, "*"); ok && strings.HasPrefix(key, prefix) || key == match {
			return true
		}
	}
	return false
}
