package client_test

import (
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/admitd/admitd/client"
)

// FuzzRetryAfter: a wait is never negative, and is what strconv and net/http read
// of the field.
func FuzzRetryAfter(f *testing.F) {
	f.Add("120", "")
	f.Add(" 9223372036854775808 ", "")
	f.Add("-0", "x")
	f.Add("Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:30 GMT")
	f.Add("Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT")
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, value, date string) {
		got, err := client.RetryAfter(http.Header{"Retry-After": {value}, "Date": {date}}, now)
		if got < 0 || err != nil && got != 0 {
			t.Fatalf("RetryAfter(%q) = %v, %v", value, got, err)
		}
		trimmed := strings.TrimSpace(value)
		seconds, notNumber := strconv.ParseUint(trimmed, 10, 32)
		at, notDate := http.ParseTime(trimmed)
		switch {
		case notNumber == nil:
			if got != time.Duration(seconds)*time.Second || err != nil {
				t.Errorf("RetryAfter(%q) = %v, %v; want %d s", value, got, err, seconds)
			}
		case notDate == nil:
			from := now
			if d, err := http.ParseTime(date); err == nil {
				from = d
			}
			if want := max(at.Sub(from), 0); got != want || err != nil {
				t.Errorf("RetryAfter(%q) at %q = %v, %v; want %v", value, date, got, err, want)
			}
		}
	})
}
