package fleet

import (
	_ "embed"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/admitd/admitd/status"
)

// quotasScript settles, shares out and grants.
//
//go:embed quotas.lua
var quotasScript string

// maxPerCall is how many quotas one call of the script serves: Redis serves
// nobody else meanwhile.
const maxPerCall = 6

// errReply is wrapped by every answer of the script that cannot be read.
var errReply = errors.New("fleet: answer of the script is not understood")

// ask is what a gate tells the group of one quota.
type ask struct {
	quota   *quota
	spent   float64 // tokens since the gate began
	demand  float64 // tokens per second; -1 = unknown
	share   float64 // tokens per second that it believes in; 0 = none yet
	epoch   string  // that it knows; "" = none
	rate    float64
	burst   float64
	version float64
	piece   float64 // the most that one request costs

	bucket      bucketMark // whose count stands behind spent
	bucketSpent float64
}

// bucketMark tells the buckets that a quota has had from each other.
type bucketMark int

// grant is what the group answers.
type grant struct {
	tokens  float64
	atOnce  bool
	share   float64 // tokens per second
	epoch   string
	wait    time.Duration // until it is worth asking again; 0 = not told
	rate    float64       // in force
	burst   float64       // in force
	level   float64       // tokens in stock
	sharers int           // gates that use the quota
	problem string        // why the quota is not answered; "" = it is
}

// call is one run of the script.
type call struct {
	id, name       string
	interval, span time.Duration // T, G
	lease          time.Duration // E
	expected       int
	leaving        bool
	shard          int // of the keys
	hello          int // 0 = another call counts the gate, 1 = this one does, 2 = and lists all
	live, known    int // gates, as of the last hello
	keepBack       bool
	asks           []ask
}

// answer is what one run of the script returned.
type answer struct {
	live    int // gates that are there
	gates   int // and those that are expected, or fell silent
	version int64
	born    string
	listed  []status.FleetGate
	grants  []grant // of the asks, in their order
}

// prefixOf returns what the keys of one shard of a group begin with. All keys of a
// shard lie in one slot of a cluster.
func prefixOf(group string, shard int) string {
	if shard == 0 {
		return "admitd:{" + group + "}:"
	}
	return "admitd:{" + group + "/" + strconv.Itoa(shard) + "}:"
}

// keys returns the keys of the call, which all lie in one slot of a cluster.
func (c *call) keys(group string) []string {
	prefix := prefixOf(group, c.shard)
	keys := make([]string, 0, 2+2*len(c.asks))
	keys = append(keys, prefix+"state", prefix+"live")
	for i := range c.asks {
		key := c.asks[i].quota.key
		keys = append(keys, prefix+"r:"+key, prefix+"e:"+key)
	}
	return keys
}

// args returns the arguments of the call.
func (c *call) args() []any {
	args := make([]any, 0, 11+8*len(c.asks))
	args = append(args, c.id, c.name, micros(c.interval), micros(c.span), micros(c.lease), c.expected, flag(c.leaving), c.hello, c.live, c.known,
		flag(c.keepBack))
	for i := range c.asks {
		a := &c.asks[i]
		args = append(args, number(a.spent), number(a.demand), number(a.share), a.epoch, number(a.rate), number(a.burst),
			number(a.version), number(a.piece))
	}
	return args
}

// flag spells a condition.
func flag(on bool) int {
	if on {
		return 1
	}
	return 0
}

// micros spells a duration.
func micros(d time.Duration) string { return strconv.FormatInt(d.Microseconds(), 10) }

// number spells a number so that nothing of it is lost.
func number(x float64) string { return strconv.FormatFloat(x, 'g', 17, 64) }

// parseAnswer reads what the script returned. Words beyond those that are known
// are left alone: they are a newer script's.
func parseAnswer(reply []string, asks int) (answer, error) {
	if len(reply) != 1+asks {
		return answer{}, fmt.Errorf("%w: %d parts, want %d", errReply, len(reply), 1+asks)
	}
	var a answer
	var err error
	words := strings.Fields(reply[0])
	if len(words) < 5 {
		return answer{}, fmt.Errorf("%w: %q", errReply, reply[0])
	}
	read := func(i int, most int64) (n int64) {
		var perr error
		if n, perr = strconv.ParseInt(words[i], 10, 64); perr != nil || n < 0 || n > most {
			err = fmt.Errorf("%w: %q", errReply, reply[0])
		}
		return n
	}
	a.live, a.gates, a.version, a.born = int(read(1, maxGates)), int(read(2, maxGates)), read(3, 1<<53), words[4]
	if err != nil {
		return answer{}, err
	}
	for _, word := range words[5:] {
		if id, name, ok := strings.Cut(word, "="); ok {
			a.listed = append(a.listed, status.FleetGate{ID: id, Name: name})
		}
	}
	for _, text := range reply[1:] {
		if problem, failed := strings.CutPrefix(text, "!"); failed {
			a.grants = append(a.grants, grant{problem: "fleet: redis: " + problem})
			continue
		}
		g, ok := parseGrant(text)
		if !ok {
			return answer{}, fmt.Errorf("%w: %q", errReply, text)
		}
		a.grants = append(a.grants, g)
	}
	return a, nil
}

// maxGates bounds how many gates are believed in.
const maxGates = 1 << 20

// parseGrant reads one grant. What no script says, such as a time that has passed,
// is refused: a gate would divide by it, or ask without a pause.
func parseGrant(text string) (g grant, ok bool) {
	words := strings.Fields(text)
	if len(words) < 10 {
		return g, false
	}
	ok = true
	read := func(i int) float64 {
		x, err := strconv.ParseFloat(words[i], 64)
		ok = ok && err == nil && x == x && x < 1e18 && x > -1e18
		return x
	}
	g = grant{
		tokens: read(0), atOnce: words[1] == "1", share: read(2), epoch: words[3],
		wait: time.Duration(min(read(4), 1e12)) * time.Microsecond, rate: read(5), burst: read(6), level: read(8),
		sharers: int(min(read(9), maxGates)),
	}
	return g, ok && g.tokens >= 0 && g.share >= 0 && g.rate > 0 && g.burst >= 0 && g.wait >= 0 && g.sharers > 0
}
