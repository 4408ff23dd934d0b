package top

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// short renders a number in at most 7 characters.
func short(f float64) string {
	switch {
	case f >= 1e9 || f <= -1e9:
		return fmt.Sprintf("%.1fG", f/1e9)
	case f >= 1e6 || f <= -1e6:
		return fmt.Sprintf("%.1fM", f/1e6)
	case f >= 1e4 || f <= -1e4:
		return fmt.Sprintf("%.1fk", f/1e3)
	case f > 0 && f < 10:
		return strconv.FormatFloat(f, 'f', 1, 64)
	}
	return strconv.FormatFloat(f, 'f', 0, 64)
}

// milliseconds renders a latency, "-" when it is unknown.
func milliseconds(ms float64) string {
	switch {
	case ms <= 0:
		return "-"
	case ms < 10:
		return fmt.Sprintf("%.2fms", ms)
	case ms < 1000:
		return fmt.Sprintf("%.0fms", ms)
	}
	return fmt.Sprintf("%.2fs", ms/1000)
}

// words renders a reason, "-" when there is none.
func words(reason string) string {
	if reason == "" {
		return "-"
	}
	return printable(strings.ReplaceAll(reason, "_", " "))
}

// printable replaces what a terminal would obey: names come from clients.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == utf8.RuneError || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// fit is printable, cut to n characters with a mark where something is missing.
func fit(s string, n int) string {
	s = printable(s)
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}

// cut returns the first n characters of s.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n])
}
