package trace

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/admitd/admitd/limiter"
)

// A trace is a sequence of sessions. A session begins with traceMagic and has
// records, each a kind and varints:
//
//	arrival  time, key, cost     time is the difference to the record before, ns
//	ended    time, start, latency, outcome    start and latency in ns back from time
//	lost     count               records that found the buffer full
//
// A key is a number that the session counts up; a number that is new is
// followed by the key's length and bytes. Costs are in thousandths of a token.
const traceMagic = "ADMTRC1\n"

// The kinds of record. None is the first byte of traceMagic.
const (
	kindArrival = 1
	kindEnded   = 2
	kindLost    = 3
)

// Bounds of a trace, checked before anything is kept.
const (
	maxTraceKey     = 256     // bytes
	maxTraceKeys    = 100_000 // of one session; further ones share the key ""
	maxTraceRecords = 50_000_000
)

// ErrTrace is returned for bytes that are not a trace.
var ErrTrace = errors.New("lab: not a trace")

// Trace is recorded traffic of one gate, put together from all sessions of a
// file, one after the other.
type Trace struct {
	Arrivals []Arrival     // in order of time
	Lost     uint64        // records that were not written
	Cut      bool          // the last record was incomplete and is left out
	Span     time.Duration // from the first record to the last, without the pauses between sessions
}

// Arrival is one request that was offered.
type Arrival struct {
	At   int64 // ns since the beginning
	Key  string
	Cost float64
	// Served is false when it was refused, gave up, or had not ended when the
	// recording did. The fields below are zero then.
	Served  bool
	Waited  time.Duration // before it was admitted
	Latency time.Duration // behind the gate
	Outcome limiter.Outcome
}

// record is one event on its way into a trace.
type record struct {
	kind    uint8
	outcome limiter.Outcome
	now     int64
	start   int64
	latency time.Duration
	cost    float64
	key     string
}

// encoder turns records into bytes.
type encoder struct {
	last int64
	keys map[string]uint64
}

func newEncoder() *encoder { return &encoder{keys: map[string]uint64{"": 0}} }

// append adds one record to b.
func (e *encoder) append(b []byte, r *record) []byte {
	b = append(b, r.kind)
	b = binary.AppendVarint(b, r.now-e.last)
	e.last = r.now
	if r.kind == kindEnded {
		b = binary.AppendVarint(b, r.now-r.start)
		b = binary.AppendVarint(b, int64(r.latency))
		return append(b, byte(r.outcome))
	}
	key := r.key[:min(len(r.key), maxTraceKey)]
	n, known := e.keys[key]
	if !known && len(e.keys) < maxTraceKeys {
		n = uint64(len(e.keys))
		e.keys[key] = n
		b = binary.AppendUvarint(b, n)
		b = binary.AppendUvarint(b, uint64(len(key)))
		b = append(b, key...)
	} else {
		b = binary.AppendUvarint(b, n)
	}
	return binary.AppendUvarint(b, uint64(min(max(r.cost, 0), 1e9)*1000))
}

// decoder turns bytes into a trace.
type decoder struct {
	in   *bufio.Reader
	out  *Trace
	last int64 // clock of the session
	base int64 // what a session's clock has to be moved by
	keys []string
	end  int64 // latest moment of the trace
	n    int
	ends []record
	open int // index of the session's first arrival
}

// Read reads a trace. A record cut short at the end, as a crash leaves it,
// is left out; anything else that is wrong is [ErrTrace]. Memory is bounded by
// the number of records, at most 50 million.
func Read(r io.Reader) (*Trace, error) {
	d := &decoder{in: bufio.NewReader(r), out: &Trace{}}
	if head, err := d.in.Peek(len(traceMagic)); err != nil || !bytes.Equal(head, []byte(traceMagic)) {
		return nil, fmt.Errorf("%w: it does not begin with %q", ErrTrace, traceMagic)
	}
	for {
		err := d.record()
		if errors.Is(err, io.EOF) {
			break
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			d.out.Cut = true
			break
		}
		if err != nil {
			return nil, err
		}
	}
	d.session()
	d.out.Span = time.Duration(d.end)
	return d.out, nil
}

// record reads one record. io.EOF comes only between records.
func (d *decoder) record() error {
	kind, err := d.in.ReadByte()
	if err != nil {
		return err //nolint:wrapcheck // io.EOF, which the caller compares with
	}
	if d.n++; d.n > maxTraceRecords {
		return fmt.Errorf("%w: more than %d records", ErrTrace, maxTraceRecords)
	}
	switch kind {
	case traceMagic[0]:
		return d.header()
	case kindArrival:
		return d.arrival()
	case kindEnded:
		return d.ended()
	case kindLost:
		n, err := binary.ReadUvarint(d.in)
		d.out.Lost += n
		return unexpected(err)
	default:
		return fmt.Errorf("%w: a record of kind %d", ErrTrace, kind)
	}
}

// unexpected turns the end of the input inside a record into its own error.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("%w: %w", ErrTrace, err)
	}
	return err
}

// header begins a session.
func (d *decoder) header() error {
	rest := make([]byte, len(traceMagic)-1)
	if _, err := io.ReadFull(d.in, rest); err != nil {
		return unexpected(err)
	}
	if string(rest) != traceMagic[1:] {
		return fmt.Errorf("%w: a record of kind %d", ErrTrace, traceMagic[0])
	}
	d.session()
	d.keys, d.last, d.base = []string{""}, 0, math.MinInt64
	return nil
}

// moment reads the time of a record. The first one of a session follows the
// last one of the session before.
func (d *decoder) moment() (int64, error) {
	delta, err := binary.ReadVarint(d.in)
	if err != nil {
		return 0, unexpected(err)
	}
	d.last += delta
	if d.base == math.MinInt64 {
		d.base = d.last - d.end
	}
	at := d.last - d.base
	if at < 0 || at > int64(100*365*24*time.Hour) {
		at = d.end // no clock is this far off; keep the order
	}
	d.end = max(d.end, at)
	return at, nil
}

// arrival reads an arrival.
func (d *decoder) arrival() error {
	at, err := d.moment()
	if err != nil {
		return err
	}
	n, err := binary.ReadUvarint(d.in)
	if err != nil {
		return unexpected(err)
	}
	if n > uint64(len(d.keys)) || n >= maxTraceKeys {
		return fmt.Errorf("%w: key %d of %d", ErrTrace, n, len(d.keys))
	}
	if n == uint64(len(d.keys)) {
		key, err := d.key()
		if err != nil {
			return err
		}
		d.keys = append(d.keys, key)
	}
	cost, err := binary.ReadUvarint(d.in)
	if err != nil {
		return unexpected(err)
	}
	d.out.Arrivals = append(d.out.Arrivals, Arrival{At: at, Key: d.keys[n], Cost: float64(cost) / 1000})
	return nil
}

// key reads a key that is new.
func (d *decoder) key() (string, error) {
	length, err := binary.ReadUvarint(d.in)
	if err != nil {
		return "", unexpected(err)
	}
	if length > maxTraceKey {
		return "", fmt.Errorf("%w: a key of %d bytes, at most %d", ErrTrace, length, maxTraceKey)
	}
	b := make([]byte, length)
	if _, err := io.ReadFull(d.in, b); err != nil {
		return "", unexpected(err)
	}
	return string(b), nil
}

// ended reads the end of a permit.
func (d *decoder) ended() error {
	at, err := d.moment()
	if err != nil {
		return err
	}
	held, err := binary.ReadVarint(d.in)
	if err != nil {
		return unexpected(err)
	}
	latency, err := binary.ReadVarint(d.in)
	if err != nil {
		return unexpected(err)
	}
	outcome, err := d.in.ReadByte()
	if err != nil {
		return unexpected(err)
	}
	if outcome > byte(limiter.Ignored) {
		return fmt.Errorf("%w: outcome %d", ErrTrace, outcome)
	}
	d.ends = append(d.ends, record{start: at - held, latency: time.Duration(max(latency, 0)), outcome: limiter.Outcome(outcome)})
	return nil
}
