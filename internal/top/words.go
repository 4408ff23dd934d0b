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
	case ms < 9.995:
		return fmt.Sprintf("%.2fms", ms)
	case ms < 999.5:
		return fmt.Sprintf("%.0fms", ms)
	case ms < 9995:
		return fmt.Sprintf("%.2fs", ms/1000)
	case ms < 99_950:
		return fmt.Sprintf("%.1fs", ms/1000)
	}
	return fmt.Sprintf("%.0fs", ms/1000)
}

// words renders a reason, "-" when there is none.
func words(reason string) string {
	if reason == "" {
		return "-"
	}
	return printable(strings.ReplaceAll(reason, "_", " "))
}

// Printable replaces what a terminal would obey: names come from clients. A selector
// of how the character before it looks is left out, since terminals disagree about its
// width.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 0xFE00 && r <= 0xFE0F:
			return -1
		case r == utf8.RuneError || !unicode.IsPrint(r):
			return '?'
		}
		return r
	}, s)
}

// printable is [Printable].
func printable(s string) string { return Printable(s) }

// wide are the characters that take two columns: those of East Asia and emoji.
var wide = &unicode.RangeTable{ //nolint:gochecknoglobals // a table
	R16: []unicode.Range16{
		{0x1100, 0x115F, 1}, {0x231A, 0x231B, 1}, {0x23E9, 0x23EC, 1}, {0x25FD, 0x25FE, 1}, {0x2614, 0x2615, 1}, {0x2648, 0x2653, 1},
		{0x267F, 0x2693, 20}, {0x26A1, 0x26AA, 9}, {0x26AB, 0x26BD, 18}, {0x26BE, 0x26C4, 6}, {0x26C5, 0x26CE, 9}, {0x26D4, 0x26EA, 22},
		{0x26F2, 0x26F3, 1}, {0x26F5, 0x26FA, 5}, {0x26FD, 0x2705, 8}, {0x270A, 0x270B, 1}, {0x2728, 0x274C, 36}, {0x274E, 0x2753, 5},
		{0x2754, 0x2755, 1}, {0x2757, 0x2757, 1}, {0x2795, 0x2797, 1}, {0x27B0, 0x27BF, 15}, {0x2B1B, 0x2B1C, 1}, {0x2B50, 0x2B55, 5},
		{0x2E80, 0x303E, 1}, {0x3041, 0xA4CF, 1}, {0xA960, 0xA97C, 1}, {0xAC00, 0xD7A3, 1}, {0xF900, 0xFAFF, 1}, {0xFE30, 0xFE6F, 1},
		{0xFF00, 0xFF60, 1}, {0xFFE0, 0xFFE6, 1},
	},
	R32: []unicode.Range32{{0x16FE0, 0x18DFF, 1}, {0x1B000, 0x1B2FF, 1}, {0x1F004, 0x1F004, 1}, {0x1F0CF, 0x1F0CF, 1}, {0x1F18E, 0x1F18E, 1}, {0x1F191, 0x1F19A, 1}, {0x1F1E6, 0x1F265, 1}, {0x1F300, 0x1FAFF, 1}, {0x20000, 0x3FFFD, 1}},
}

// columnsOf returns how many columns of a terminal a character takes.
func columnsOf(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// lengthOf returns how many columns of a terminal s takes.
func lengthOf(s string) (n int) {
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

// fit is printable, cut to n columns with a mark where something is missing.
func fit(s string, n int) string {
	if s = printable(s); lengthOf(s) <= n {
		return s
	}
	return cut(s, n-1) + "…"
}

// padded is fit, filled up to n columns.
func padded(s string, n int) string {
	s = fit(s, n)
	return s + strings.Repeat(" ", max(n-lengthOf(s), 0))
}

// cut returns what of s fits into n columns.
func cut(s string, n int) string {
	taken := 0
	for i, r := range s {
		if taken += columnsOf(r); taken > n {
			return s[:i]
		}
	}
	return s
}

// wrapped breaks a text between words into at most most lines of n columns, of which the
// last is cut; n <= 0 = it stays whole.
func wrapped(s string, n, most int) (lines []string) {
	for n > 0 && len(lines) < most-1 && lengthOf(s) > n {
		at := strings.LastIndexByte(cut(s, n), ' ')
		if at <= 0 {
			break
		}
		lines, s = append(lines, s[:at]), s[at+1:]
	}
	return append(lines, s)
}
