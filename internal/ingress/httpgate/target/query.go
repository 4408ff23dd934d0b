package target

import (
	"net/url"
	"strings"
)

// Value returns the first value of a query parameter, unescaped, without building the
// whole map; "" when there is none.
func Value(query, name string) string {
	for query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		key, value, _ := strings.Cut(pair, "=")
		if unescape(key) == name {
			return unescape(value)
		}
	}
	return ""
}

// unescape returns s unescaped, and as it is when it is escaped wrongly.
func unescape(s string) string {
	if !strings.ContainsAny(s, "%+") {
		return s
	}
	if u, err := url.QueryUnescape(s); err == nil {
		return u
	}
	return s
}
