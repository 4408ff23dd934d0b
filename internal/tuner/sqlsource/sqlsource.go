// Package sqlsource asks PostgreSQL, and what speaks its protocol: for a signal of
// the tuner, with a query that returns one number, and for the sessions that wait for
// a lock.
package sqlsource

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// ErrNotOne is wrapped when a query does not return one number in one row.
var ErrNotOne = errors.New("sqlsource: the query must return one number")

// closeWithin bounds a polite end of the connection.
const closeWithin = time.Second

// Source asks one query over one connection, which it keeps and opens anew when
// it broke. Its session is read only. One goroutine at a time may use it.
type Source struct {
	config *pgconn.Config
	query  string
	conn   *pgconn.PgConn
}

// New returns a source for a postgres:// URL. It does not connect yet.
func New(url, query string) (*Source, error) {
	c, err := pgconn.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("sqlsource: %w", err) // pgconn redacts the password
	}
	c.RuntimeParams["default_transaction_read_only"] = "on"
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "admitd-tuner"
	}
	c.RuntimeParams["intervalstyle"] = "postgres" // which seconds reads
	return &Source{config: c, query: query}, nil
}

// Read asks. A failure drops the connection; the next reading opens another.
func (s *Source) Read(ctx context.Context) (float64, time.Time, error) {
	if s.conn == nil {
		conn, err := pgconn.ConnectConfig(ctx, s.config)
		if err != nil {
			return 0, time.Time{}, fmt.Errorf("sqlsource: %w", err)
		}
		s.conn = conn
	}
	v, err := s.ask(ctx)
	if err != nil && (s.conn.IsClosed() || !errors.Is(err, ErrNotOne)) {
		_ = s.Close() //nolint:contextcheck // ctx may be what ended the reading
	}
	return v, time.Time{}, err
}

func (s *Source) ask(ctx context.Context) (float64, error) {
	rows, err := ask(ctx, s.conn, s.query)
	switch {
	case err != nil:
		return 0, err
	case len(rows) == 0:
		return 0, fmt.Errorf("%w: it returned no row", ErrNotOne)
	case len(rows) > 1:
		return 0, fmt.Errorf("%w: it returned several rows", ErrNotOne)
	case len(rows[0]) != 1:
		return 0, fmt.Errorf("%w: it returned %d columns", ErrNotOne, len(rows[0]))
	case rows[0][0] == nil:
		return 0, fmt.Errorf("%w: it returned NULL", ErrNotOne)
	}
	return number(*rows[0][0])
}

// maxRows bounds what is kept of an answer.
const maxRows = 100_000

// ask returns the rows of a query as text, of a NULL nil. It prepares no statement
// that has a name: poolers in between lose them.
func ask(ctx context.Context, conn *pgconn.PgConn, query string) (rows [][]*string, err error) {
	result := conn.ExecParams(ctx, query, nil, nil, nil, nil)
	for result.NextRow() {
		if len(rows) == maxRows {
			break
		}
		row := make([]*string, len(result.Values()))
		for i, v := range result.Values() {
			if v != nil {
				text := string(v)
				row[i] = &text
			}
		}
		rows = append(rows, row)
	}
	if _, err := result.Close(); err != nil {
		return nil, fmt.Errorf("sqlsource: %w", err)
	}
	return rows, nil
}

// number reads the text of a number, a boolean or an interval.
func number(text string) (float64, error) {
	switch text {
	case "t":
		return 1, nil
	case "f":
		return 0, nil
	}
	if n, err := strconv.ParseFloat(text, 64); err == nil {
		return n, nil
	}
	if s, ok := seconds(text); ok {
		return s, nil
	}
	return 0, fmt.Errorf("%w: it returned %.40q", ErrNotOne, text)
}

// seconds reads an interval as PostgreSQL writes it: 1 year 2 mons -3 days 04:05:06.7.
// A month has 30 days and a year twelve months.
func seconds(text string) (sum float64, ok bool) {
	units := map[string]float64{"year": 360 * 86400, "mon": 30 * 86400, "day": 86400}
	words := strings.Fields(text)
	for ; len(words) >= 2; words = words[2:] {
		n, err := strconv.ParseFloat(words[0], 64)
		unit, known := units[strings.TrimSuffix(words[1], "s")]
		if err != nil || !known {
			return 0, false
		}
		sum, ok = sum+n*unit, true
	}
	if len(words) == 0 {
		return sum, ok
	}
	clock, back := strings.CutPrefix(words[0], "-")
	at := 0.0
	parts := strings.Split(strings.TrimPrefix(clock, "+"), ":")
	for _, part := range parts {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil || n < 0 {
			return 0, false
		}
		at = at*60 + n
	}
	if back {
		at = -at
	}
	return sum + at, len(parts) == 3
}

// Close ends the connection.
func (s *Source) Close() error {
	conn := s.conn
	s.conn = nil
	return end(conn)
}

// end ends a connection politely; nil = there is none.
func end(conn *pgconn.PgConn) error {
	if conn == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin) //nolint:forbidigo // the end is detached from what was read last
	defer cancel()
	if err := conn.Close(ctx); err != nil {
		return fmt.Errorf("sqlsource: %w", err)
	}
	return nil
}
