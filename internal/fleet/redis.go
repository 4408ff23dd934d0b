package fleet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis says where a group's state lies, and how it is reached.
type Redis struct {
	// Addresses, host:port: of the one server, of the sentinels, or of some nodes
	// of the cluster.
	Addresses []string
	// Master is the name that the sentinels know the server by; "" = Addresses are
	// no sentinels.
	Master string
	// Cluster says that Addresses are nodes of a cluster.
	Cluster bool
	// Username for the server; "" = the default user.
	Username string
	// PasswordFile holds its password; it is read at every connect. "" = none.
	PasswordFile string
	// SentinelUsername and SentinelPasswordFile are the same for the sentinels.
	SentinelUsername     string
	SentinelPasswordFile string
	// TLS towards the servers and sentinels; nil = none.
	TLS *tls.Config
}

// board is a notice board: where the script runs.
type scriptRunner interface {
	run(ctx context.Context, s script, keys []string, args []any) ([]string, error)
	close() error
}

// redisRunner runs the script in Redis.
type redisRunner struct {
	client  redis.UniversalClient
	scripts [3]*redis.Script
}

// script is one of those that run in Redis.
type script int

const (
	scriptQuotas script = iota
	scriptRates
	scriptLimits
)

// errRefused is wrapped by errors that Redis answered with: it is there, and
// answers other calls.
var errRefused = errors.New("fleet: redis")

// silence keeps the client, which logs for the whole process, out of the log: what
// fails is told by the calls.
type discardLogger struct{}

// hush makes it so, once: clients read the logger without a lock.
var hush = sync.OnceFunc(func() { redis.SetLogger(discardLogger{}) }) //nolint:gochecknoglobals // the library's logger is one

// Printf implements the client's logger.
func (discardLogger) Printf(context.Context, string, ...any) {}

// newBoard returns the board; nothing connects yet. timeout bounds a call.
func newBoard(r *Redis, timeout time.Duration) (*redisRunner, error) {
	hush()
	o := &redis.UniversalOptions{
		Dialer: dialer(timeout, r.TLS),
		Addrs:  r.Addresses, MasterName: r.Master, IsClusterMode: r.Cluster, TLSConfig: r.TLS,
		CredentialsProviderContext: credentials(r.Username, r.PasswordFile),
		// A late answer is worth nothing, and the next call is the retry.
		MaxRetries: -1, MaxRedirects: 1, DialerRetries: 1, ContextTimeoutEnabled: true,
		DialTimeout: timeout, ReadTimeout: timeout, WriteTimeout: timeout, PoolTimeout: timeout,
		PoolSize: 2, MaxActiveConns: 4, ConnMaxIdleTime: 5 * time.Minute,
		DisableIdentity: true, Protocol: 2,
	}
	if r.Master != "" {
		password, err := readSecret(r.SentinelPasswordFile)
		if err != nil {
			return nil, err
		}
		o.SentinelUsername, o.SentinelPassword = r.SentinelUsername, password
	}
	return &redisRunner{client: redis.NewUniversalClient(o), scripts: [...]*redis.Script{
		scriptQuotas: redis.NewScript(quotasScript), scriptRates: redis.NewScript(ratesScript), scriptLimits: redis.NewScript(limitsScript),
	}}, nil
}

// credentials returns who reads user and password at every connect, so that a
// password is rotated by writing its file; nil = there are none.
func credentials(user, file string) func(context.Context) (string, string, error) {
	if user == "" && file == "" {
		return nil
	}
	return func(context.Context) (string, string, error) {
		password, err := readSecret(file)
		return user, password, err
	}
}

// readSecret returns the content of a file without the line's end; "" for no file.
func readSecret(file string) (string, error) {
	if file == "" {
		return "", nil
	}
	b, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return "", fmt.Errorf("fleet: %w", err)
	}
	return strings.TrimRight(string(b), "\r\n"), nil
}

// run implements board. A script that Redis has forgotten is sent again.
func (b *redisRunner) run(ctx context.Context, s script, keys []string, args []any) ([]string, error) {
	reply, err := b.scripts[s].Run(ctx, b.client, keys, args...).StringSlice()
	var refused redis.Error
	switch {
	case errors.As(err, &refused):
		return nil, fmt.Errorf("%w: %w", errRefused, err)
	case err != nil:
		return nil, fmt.Errorf("fleet: redis: %w", err)
	}
	return reply, nil
}

// close implements board.
func (b *redisRunner) close() error { return b.client.Close() }
