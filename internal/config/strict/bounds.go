package strict

import (
	"fmt"

	"github.com/goccy/go-yaml/token"
)

// Bounds on a document, so that no file can exhaust the daemon that reads it.
const (
	MaxBytes   = 1 << 20
	maxDepth   = 32      // nesting of mappings and lists
	maxMarkers = 64      // list dashes, anchors and tags on one line
	maxKeys    = 2000    // in one block mapping; the parser's time and stack grow with it
	maxTokens  = 200_000 // of the YAML text
	maxValues  = 100_000 // after aliases are expanded
)

// bounded refuses text that the recursive parser could not bear. Nesting by
// indentation bounds itself: each level costs a line of growing length.
func (d *document) bounded(tokens token.Tokens) bool {
	if len(tokens) > maxTokens {
		d.AtLine(0, "", fmt.Sprintf("holds more than %d YAML tokens", maxTokens))
		return false
	}
	depth, line, markers := 0, 0, 0
	var open blocks
	for i, t := range tokens {
		if t.Position.Line != line {
			line, markers = t.Position.Line, 0
		}
		switch t.Type {
		case token.SequenceStartType, token.MappingStartType:
			depth++
		case token.SequenceEndType, token.MappingEndType:
			depth--
		case token.SequenceEntryType, token.MappingKeyType, token.AnchorType, token.TagType, token.MappingValueType:
			if depth == 0 {
				markers++
				open.meet(t, tokens[max(0, i-1)])
			}
		default:
		}
		if depth > maxDepth || markers > maxMarkers {
			d.AtLine(line, "", fmt.Sprintf("is nested deeper than %d levels", maxDepth))
			return false
		}
		if n := len(open); n > 0 && open[n-1].keys > maxKeys {
			d.AtLine(line, "", fmt.Sprintf("has more than %d keys in one mapping", maxKeys))
			return false
		}
	}
	return true
}

// blocks are the block mappings that are open at a token, outermost first.
type blocks []block

type block struct{ column, keys int }

// meet follows indentation: a list dash closes what is deeper than it, a colon
// counts one more key in the column where the key before it begins.
func (b *blocks) meet(t, before *token.Token) {
	column := t.Position.Column
	if t.Type == token.MappingValueType {
		column = before.Position.Column
	}
	n := len(*b)
	for n > 0 && (*b)[n-1].column > column {
		n--
	}
	*b = (*b)[:n]
	if t.Type != token.MappingValueType {
		return
	}
	if n == 0 || (*b)[n-1].column < column {
		*b = append(*b, block{column: column})
		n++
	}
	(*b)[n-1].keys++
}
