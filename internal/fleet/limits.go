package fleet

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/admitd/admitd/internal/fleet/pool"
)

// limitsScript is the notice board of limits.
//
//go:embed limits.lua
var limitsScript string

// limitsPerCall is how many limits one call of the script serves.
const limitsPerCall = 16

// Limits calls yield with every limit that the group shares, under the name that
// all gates call it by.
type Limits func(yield func(name string, l *pool.Limit) bool)

// sharedLimit is a limit that the group shares.
type sharedLimit struct {
	key   string
	limit *pool.Limit
}

// lookAtLimits lists the limits, and has those go on alone that hear nothing.
func (b *groupState) lookAtLimits(now int64) {
	b.shares = b.shares[:0]
	if b.limits == nil {
		return
	}
	b.limits(func(name string, l *pool.Limit) bool {
		l.Set(b.pace, b.known(), b.known())
		l.Tick(now)
		b.shares = append(b.shares, sharedLimit{keyOf(name), l})
		return true
	})
}

// exchange tells the group of the limits and hears of them. Who leads writes at
// once what it found.
//
// A row stands for life. problem says why it does not answer for some limit, err that it does not answer.
func (g *Group) exchange(ctx context.Context, shares []sharedLimit, life time.Duration, leaving bool) (problem string, err error) {
	for len(shares) > 0 {
		some := shares[:min(len(shares), limitsPerCall)]
		shares = shares[len(some):]
		sent := g.o.Now()
		boards, err := g.post(ctx, some, nil, life, leaving)
		if errors.Is(err, errRefused) || errors.Is(err, errReply) {
			problem = err.Error()
			continue
		}
		if err != nil {
			return problem, err
		}
		if leaving {
			continue
		}
		for i := range boards {
			if boards[i].problem != "" {
				problem = boards[i].problem
			}
		}
		var again []sharedLimit
		var verdicts []pool.Verdict
		for i := range some {
			if boards[i].problem != "" {
				continue
			}
			if v, news := some[i].limit.Hear(g.o.Now(), sent, g.id, &boards[i].Board); news {
				again, verdicts = append(again, some[i]), append(verdicts, v)
			}
		}
		if len(again) == 0 {
			continue
		}
		if boards, err = g.post(ctx, again, verdicts, life, false); err != nil {
			return problem, err
		}
		for i := range again {
			if boards[i].problem == "" {
				again[i].limit.HearAgain(g.id, &boards[i].Board)
			}
		}
	}
	return problem, nil
}

// post runs the script once.
func (g *Group) post(ctx context.Context, shares []sharedLimit, verdicts []pool.Verdict, life time.Duration, leaving bool) ([]boardOrProblem, error) {
	keys := make([]string, len(shares))
	args := []any{g.id, micros(life)}
	for i := range shares {
		keys[i] = prefixOf(g.o.Name, 0) + "l:" + shares[i].key
		row, verdict := "", ""
		if !leaving {
			r := shares[i].limit.Row(g.o.Now(), g.id)
			row = r.String()
		}
		if verdicts != nil {
			verdict = fmt.Sprintf("%d %d %d", verdicts[i].Fence, verdicts[i].Limit, verdicts[i].Base)
		}
		args = append(args, row, verdict)
	}
	ctx, cancel := context.WithTimeout(ctx, g.interval/2)
	defer cancel()
	reply, err := g.board.run(ctx, scriptLimits, keys, args)
	if err != nil {
		return nil, err
	}
	if len(reply) != len(shares) {
		return nil, fmt.Errorf("%w: %d limits, want %d", errReply, len(reply), len(shares))
	}
	boards := make([]boardOrProblem, len(reply))
	for i, text := range reply {
		if rest, failed := strings.CutPrefix(text, "!"); failed {
			boards[i].problem = "fleet: redis: " + rest
		} else if boards[i].Board, err = parseBoard(text); err != nil {
			boards[i].problem = err.Error()
		}
	}
	return boards, nil
}

// boardOrProblem is what the script says of one limit, or why it says nothing.
type boardOrProblem struct {
	pool.Board

	problem string // "" = there is none
}

// silentAfter is how many intervals a row stands.
const silentAfter = 3

// parseBoard reads what the script says of one limit.
func parseBoard(text string) (b pool.Board, err error) {
	lines := strings.Split(text, "\n")
	if len(lines) < 2 {
		return b, fmt.Errorf("%w: %q", errReply, text)
	}
	head, verdict := strings.Fields(lines[0]), strings.Fields(lines[1])
	if len(head) < 3 || len(verdict) < 3 {
		return b, fmt.Errorf("%w: %q", errReply, text)
	}
	whole := func(s string) uint64 {
		n, perr := strconv.ParseUint(s, 10, 62)
		if perr != nil {
			err = fmt.Errorf("%w: %q", errReply, s)
		}
		return n
	}
	b.Leads, b.Fence, b.Turn = head[0] == "1", whole(head[1]), int(whole(head[2])%1_000_000)
	b.Verdict = pool.Verdict{Fence: whole(verdict[0]), Limit: int(min(whole(verdict[1]), 1<<20)), Base: time.Duration(whole(verdict[2]))}
	for _, line := range lines[2:] {
		id, rest, _ := strings.Cut(line, " ")
		if row, ok := pool.ParseRow(id, rest); ok {
			b.Rows = append(b.Rows, row) // one that cannot be read is of a gate that is newer
		}
	}
	return b, err
}
