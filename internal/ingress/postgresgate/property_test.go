package postgresgate_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/internal/ingress/postgresgate"
	"github.com/admitd/admitd/limiter"
)

// moody is a gate that refuses at random, and remembers what it said.
type moody struct {
	*limiter.Gate
	refusing *limiter.Gate
	rnd      *rand.Rand
	said     []bool
}

func (g *moody) Admit(ctx context.Context, req limiter.Request) (limiter.Permit, error) {
	if !req.Exempt {
		refused := g.rnd.IntN(3) == 0
		g.said = append(g.said, refused)
		if refused {
			return g.refusing.Admit(ctx, req)
		}
	}
	return g.Gate.Admit(ctx, req)
}

// pipeline makes random units. Every text has a number, and so has its answer.
func pipeline(rnd *rand.Rand) (messages [][]byte) {
	n := 0
	text := func() string {
		n++
		switch rnd.IntN(12) {
		case 0:
			return fmt.Sprintf("fail %d", n)
		case 1:
			return []string{"begin", "commit and chain", "rollback;begin"}[rnd.IntN(3)]
		case 2, 3:
			return []string{"commit", "rollback"}[rnd.IntN(2)]
		case 4:
			return "set a to 1"
		case 5:
			return fmt.Sprintf("select %d;select b%d", n, n)
		case 6:
			return fmt.Sprintf("bad %d", n)
		default:
			return fmt.Sprintf("select %d", n)
		}
	}
	add := func(all ...[]byte) { messages = append(messages, all...) }
	for range 2 + rnd.IntN(25) {
		name := []string{"", "a", "b"}[rnd.IntN(3)]
		switch rnd.IntN(14) {
		case 0:
			add(sync0)
		case 1:
			add(closing(name), query(text()))
		case 2:
			add(parse(name, text()), describe(), sync0)
		case 3:
			add(bind([]string{"a", "b"}[rnd.IntN(2)]), execute(), sync0) // the unnamed one may copy
		case 4:
			add(parse(name, text()), bind(name), execute(), parse("", text()), bind(""), execute(), sync0)
		case 5:
			n++
			add(query(fmt.Sprintf("copy %d", n)), pg('d', "row"), [][]byte{copyDone, copyFail}[rnd.IntN(2)])
		case 6:
			n++
			add(parse("", fmt.Sprintf("copy %d", n)), bind(""), execute(), pg('d', "row"), [][]byte{copyDone, copyFail}[rnd.IntN(2)], sync0)
		case 7:
			n++
			add(parse("", fmt.Sprintf("copy %d", n)), bind(""), execute(), sync0, pg('d', "row"), [][]byte{copyDone, copyFail}[rnd.IntN(2)], sync0)
		case 8:
			add(parse("", text()), flush0, bind(""), execute(), flush0, sync0)
		case 9:
			add(pg('F', "function"))
		case 10:
			add(query(""))
		case 11:
			add(execute(), sync0)
		default:
			add(query(text()))
		}
	}
	return append(messages, sync0)
}

// wanted is what the client has to read, and what the server has to run, when
// the gate said what it said. It asks in the same places as the gate.
func wanted(messages [][]byte, said []bool) (stream []byte, ran []string, asked int) {
	m := newModel()
	var unit struct{ open, failed, settled, free, refused bool }
	free := func(text string) bool {
		return strings.HasPrefix(text, "set") || text == "commit" || text == "rollback" || text == "commit and chain"
	}
	known := map[string]string{} // what the gate knows of statements, with its caution
	parsed, inside, chained, ends := false, false, false, false
	emit := func(out []byte) {
		for b := out; len(b) > 0; {
			l := 1 + int(b[4]) + int(b[3])<<8
			if b[0] == 'E' {
				unit.failed = true
			}
			if b[0] == 'Z' {
				if parsed && unit.failed {
					for name, text := range known {
						if free(text) {
							delete(known, name)
						}
					}
				}
				chained = b[5] != 'I' && (chained || ends && !unit.failed)
				ends = false
				unit = struct{ open, failed, settled, free, refused bool }{}
				parsed, inside = false, b[5] != 'I'
			}
			b = b[l:]
		}
		stream = append(stream, out...)
	}
	refuses := func(text string) bool {
		if unit.settled && (!unit.free || free(text)) {
			return false
		}
		admitted := inside && !chained
		unit.settled, unit.free = true, free(text) && !admitted
		if admitted || free(text) {
			return false
		}
		asked++
		refused := asked <= len(said) && said[asked-1]
		chained = chained && refused
		return refused
	}
	failed := parse("admitd_refused", "admitd_refused")
	refusal := postgresgate.Refusal("pg")
	for _, msg := range messages {
		body := strings.Split(string(msg[5:]), "\x00")
		if unit.refused {
			if msg[0] == 'S' {
				emit(ready(m.status))
			}
			continue
		}
		switch msg[0] {
		case 'Q':
			if body[0] != "" && refuses(body[0]) {
				if chained {
					m.handle(failed)
					emit(refusal)
					emit(m.handle(sync0))
					continue
				}
				if unit.open {
					m.handle(sync0)
				}
				emit(refusal)
				emit(ready('I'))
				continue
			}
			ends = ends || ending(body[0])
		case 'F':
			if refuses("function") {
				if chained {
					m.handle(failed)
					emit(refusal)
					emit(m.handle(sync0))
					continue
				}
				emit(refusal)
				emit(ready('I'))
				continue
			}
		case 'P':
			parsed = true
			old, ok := known[body[0]]
			if !ok || body[0] == "" || !free(body[1]) || free(old) {
				known[body[0]] = body[1]
			}
		case 'C':
			delete(known, strings.TrimPrefix(body[0], "S"))
		}
		if text, ok := known[body[min(1, len(body)-1)]]; msg[0] == 'B' || msg[0] == 'E' && !unit.settled {
			if !ok || msg[0] == 'E' {
				text = "other"
			}
			if refuses(text) {
				if chained {
					if !unit.failed {
						stream = append(stream, refusal...)
					}
					m.handle(failed)
					m.handle(sync0)
					unit.failed, unit.refused = true, true
					continue
				}
				if unit.open {
					m.handle(sync0)
					if !unit.failed {
						stream = append(stream, refusal...)
					}
				} else {
					stream = append(stream, refusal...)
				}
				unit.refused = true
				continue
			}
		}
		if text := known[body[min(1, len(body)-1)]]; msg[0] == 'B' && ending(text) {
			ends = true
		}
		unit.open = unit.open || strings.ContainsRune("PBDECSQF", rune(msg[0]))
		emit(m.handle(msg))
	}
	return stream, m.ran, asked
}

// ending reports whether a text of a pipeline ends a transaction.
func ending(text string) bool {
	return strings.HasPrefix(text, "commit") || strings.HasPrefix(text, "rollback")
}

// Whatever clients send, and whatever is refused of it: every answer stands where
// its query stood, what is refused never reaches the server, and no permit is
// left over.
func TestNoAnswerToTheWrongQuery(t *testing.T) {
	for seed := range uint64(1000) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		synctest.Test(t, func(t *testing.T) { playPipeline(t, seed, rnd) })
		if t.Failed() {
			return
		}
	}
}

func playPipeline(t *testing.T, seed uint64, rnd *rand.Rand) {
	t.Helper()
	g := &moody{Gate: limiter.New("pg", policy(1000, 0), limiter.Options{}), refusing: limiter.New("pg", policy(1, 0), limiter.Options{}), rnd: rnd}
	g.refusing.Drain()
	sc := stageBefore(t, g.Gate, g, postgresgate.Options{NoHints: true})
	server := newModel()
	c, ended := sc.enter()
	say(c, hello())
	up := sc.backend()
	read := make(chan struct{})
	go func() { defer close(read); server.serve(up) }()
	if kinds, _ := hear(t, c); kinds != "RKZI" {
		t.Fatalf("login: %s", kinds)
	}
	messages := pipeline(rnd)
	chunks := rand.New(rand.NewPCG(seed, 2))
	go func() {
		b := script(append(messages, pg('X'))...)
		for len(b) > 0 {
			n := min(1+chunks.IntN(60), len(b))
			if _, err := c.Write(b[:n]); err != nil {
				return
			}
			b = b[n:]
			if chunks.IntN(4) == 0 {
				synctest.Wait()
			}
		}
	}()
	_ = c.SetReadDeadline(time.Now().Add(30 * time.Second))
	got, _ := io.ReadAll(c)
	_, _ = c.Close(), up.Close()
	<-ended
	<-read
	stream, ran, asked := wanted(messages, g.said)
	if !bytes.Equal(got, stream) || fmt.Sprint(server.ran) != fmt.Sprint(ran) || asked != len(g.said) {
		t.Errorf("seed %d: %q\nread %q\nwant %q\nran %q\nwant %q\nasked %d times, want %d", seed, messages, got, stream, server.ran, ran, len(g.said), asked)
	}
	if held := sc.held(); held != 0 {
		t.Errorf("seed %d: %d permits are held after the end", seed, held)
	}
}
