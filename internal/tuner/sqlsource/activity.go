package sqlsource

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Login is who asks a server, and how.
type Login struct {
	User, Database string
	PasswordFile   string      // read at every connect; "" = no password
	TLS            *tls.Config // nil = plain; an empty ServerName is filled in from the address
}

// ErrSeesNobody is returned for a login that is not shown what other sessions do.
var ErrSeesNobody = errors.New("sqlsource: the login sees no other user's sessions: grant it pg_read_all_stats")

// Activity tells which sessions of a server wait for a lock. It keeps one connection
// and opens it anew when it broke. One goroutine at a time may use it.
type Activity struct {
	address string
	login   Login
	conn    *pgconn.PgConn
}

// NewActivity returns who asks the server at address, host:port. It does not connect
// yet.
func NewActivity(address string, login Login) *Activity {
	return &Activity{address: address, login: login}
}

// A relation that is extended is locked for a moment, by who works.
const waiters = `select pid from pg_catalog.pg_stat_activity where wait_event_type = 'Lock' and wait_event <> 'extend'`

// LockWaiters returns the process ids of the sessions that wait for a lock of another
// one. A failure drops the connection.
func (a *Activity) LockWaiters(ctx context.Context) ([]uint32, error) {
	if a.conn == nil {
		if err := a.connect(ctx); err != nil {
			return nil, err
		}
	}
	rows, err := ask(ctx, a.conn, waiters)
	if err != nil {
		_ = a.Close() //nolint:contextcheck // ctx may be what ended the question
		return nil, err
	}
	var pids []uint32
	for _, row := range rows {
		if len(row) != 1 || row[0] == nil {
			continue // a process of the server's own
		}
		if pid, err := strconv.ParseUint(*row[0], 10, 32); err == nil {
			pids = append(pids, uint32(pid))
		}
	}
	return pids, nil
}

// connect opens the connection, and finds out whether it is shown what others do.
func (a *Activity) connect(ctx context.Context) error {
	host, port, err := net.SplitHostPort(a.address)
	if err != nil {
		return fmt.Errorf("sqlsource: %w", err)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return fmt.Errorf("sqlsource: port of %s: %w", a.address, err)
	}
	c, err := pgconn.ParseConfig("sslmode=disable")
	if err != nil {
		return fmt.Errorf("sqlsource: %w", err)
	}
	// Nothing comes from the environment of libpq.
	c.Host, c.Port, c.User, c.Database, c.Password = host, uint16(n), a.login.User, a.login.Database, ""
	c.Fallbacks, c.TLSConfig = nil, nil
	c.RuntimeParams = map[string]string{"application_name": "admitd", "default_transaction_read_only": "on"}
	if a.login.PasswordFile != "" {
		b, err := os.ReadFile(a.login.PasswordFile)
		if err != nil {
			return fmt.Errorf("sqlsource: %w", err)
		}
		c.Password = strings.TrimRight(string(b), "\r\n")
	}
	if a.login.TLS != nil {
		c.TLSConfig = a.login.TLS.Clone()
		if c.TLSConfig.ServerName == "" {
			c.TLSConfig.ServerName = host
		}
	}
	conn, err := pgconn.ConnectConfig(ctx, c)
	if err != nil {
		return fmt.Errorf("sqlsource: %w", err)
	}
	a.conn = conn
	rows, err := ask(ctx, conn, "select pg_catalog.pg_has_role('pg_read_all_stats', 'usage')")
	if err == nil && (len(rows) != 1 || len(rows[0]) != 1 || rows[0][0] == nil || *rows[0][0] != "t") {
		err = ErrSeesNobody
	}
	if err != nil {
		_ = a.Close() //nolint:contextcheck // as above
	}
	return err
}

// Close ends the connection.
func (a *Activity) Close() error {
	conn := a.conn
	a.conn = nil
	return end(conn)
}
