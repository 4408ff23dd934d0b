// Package sqlsource asks PostgreSQL, and what speaks its protocol: for a signal of
// the tuner, with a query that returns one number, and for the sessions that wait for
// a lock.
package sqlsource

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
)

// ErrNotOne is wrapped when a query does not return one number in one row.
var ErrNotOne = errors.New("sqlsource: the query must return one number")

// closeWithin bounds a polite end of the connection.
const closeWithin = time.Second

// Source asks one query over one connection, which it keeps and opens anew when
// it broke. Its session is read only. One goroutine at a time may use it.
type Source struct {
	config *pgx.ConnConfig
	query  string
	conn   *pgx.Conn
}

// New returns a source for a postgres:// URL. It does not connect yet.
func New(url, query string) (*Source, error) {
	c, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("sqlsource: %w", err) // pgx redacts the password
	}
	c.RuntimeParams["default_transaction_read_only"] = "on"
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "admitd-tuner"
	}
	c.DefaultQueryExecMode = pgx.QueryExecModeExec // no prepared statements: poolers in between lose them
	return &Source{config: c, query: query}, nil
}

// Read asks. A failure drops the connection; the next reading opens another.
func (s *Source) Read(ctx context.Context) (float64, time.Time, error) {
	if s.conn == nil {
		conn, err := pgx.ConnectConfig(ctx, s.config)
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
	rows, err := s.conn.Query(ctx, s.query)
	if err != nil {
		return 0, fmt.Errorf("sqlsource: %w", err)
	}
	defer rows.Close()
	var v any
	n := 0
	for rows.Next() {
		if n++; n > 1 {
			return 0, fmt.Errorf("%w: it returned several rows", ErrNotOne)
		}
		values, err := rows.Values()
		if err != nil {
			return 0, fmt.Errorf("sqlsource: %w", err)
		}
		if len(values) != 1 {
			return 0, fmt.Errorf("%w: it returned %d columns", ErrNotOne, len(values))
		}
		v = values[0]
	}
	if err := rows.Err(); err != nil {
		return 0, fmt.Errorf("sqlsource: %w", err)
	}
	if n == 0 {
		return 0, fmt.Errorf("%w: it returned no row", ErrNotOne)
	}
	return number(v)
}

// number reads what a column holds.
func number(v any) (float64, error) {
	switch v := v.(type) {
	case int16:
		return float64(v), nil
	case int32:
		return float64(v), nil
	case int64:
		return float64(v), nil
	case float32:
		return float64(v), nil
	case float64:
		return v, nil
	case bool:
		if v {
			return 1, nil
		}
		return 0, nil
	case string:
		if n, err := strconv.ParseFloat(v, 64); err == nil {
			return n, nil
		}
	case pgtype.Numeric:
		if f, err := v.Float64Value(); err == nil && f.Valid {
			return f.Float64, nil
		}
	case pgtype.Interval:
		if v.Valid {
			days := time.Duration(v.Days+30*v.Months) * 24 * time.Hour
			return (days + time.Duration(v.Microseconds)*time.Microsecond).Seconds(), nil
		}
	case time.Duration:
		return v.Seconds(), nil
	}
	return 0, fmt.Errorf("%w: it returned %T", ErrNotOne, v)
}

// Close ends the connection.
func (s *Source) Close() error {
	conn := s.conn
	s.conn = nil
	return end(conn)
}

// end ends a connection politely; nil = there is none.
func end(conn *pgx.Conn) error {
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
