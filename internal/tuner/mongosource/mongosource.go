// Package mongosource reads a signal of the tuner from what a MongoDB server
// says of itself: serverStatus and replSetGetStatus.
package mongosource

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"

	"github.com/admitd/admitd/internal/tuner/source"
)

// Lag is the path of what no command says in one number: by how many seconds
// the slowest secondary follows the primary. Of replSetGetStatus.
const Lag = "lag"

// ErrNoLag is wrapped when a replica set has no primary, or no secondary.
var ErrNoLag = errors.New("mongosource: replication lag cannot be told")

// closeWithin bounds a polite end of the connections.
const closeWithin = time.Second

// Source runs one command of the admin database. One goroutine at a time may
// use it.
type Source struct {
	options *options.ClientOptions
	command string
	path    string
	client  *mongo.Client
}

// New returns a source for a mongodb:// URL. command is serverStatus or
// replSetGetStatus; path is as in [source.Document], or [Lag]. It does not
// connect yet.
func New(url, command, path string) (*Source, error) {
	if command != "serverStatus" && command != "replSetGetStatus" {
		return nil, fmt.Errorf("mongosource: command must be serverStatus or replSetGetStatus (%q)", command)
	}
	if _, err := source.ParsePath(path); err != nil {
		return nil, err
	}
	o := options.Client().ApplyURI(url).SetMaxPoolSize(1).SetReadPreference(readpref.PrimaryPreferred())
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("mongosource: %w", err)
	}
	if o.AppName == nil {
		o.SetAppName("admitd-tuner")
	}
	return &Source{options: o, command: command, path: path}, nil
}

// Read runs the command.
func (s *Source) Read(ctx context.Context) (float64, time.Time, error) {
	if s.client == nil {
		client, err := mongo.Connect(s.options)
		if err != nil {
			return 0, time.Time{}, fmt.Errorf("mongosource: %w", err)
		}
		s.client = client
	}
	raw, err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: s.command, Value: 1}}).Raw()
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("mongosource: %w", err)
	}
	v, err := s.value(raw)
	return v, time.Time{}, err
}

func (s *Source) value(raw bson.Raw) (float64, error) {
	if s.command == "replSetGetStatus" && s.path == Lag {
		return lag(raw)
	}
	document, err := bson.MarshalExtJSON(raw, false, false)
	if err != nil {
		return 0, fmt.Errorf("mongosource: %w", err)
	}
	return source.Lookup(document, s.path)
}

// lag compares the newest write of the primary with what each secondary has
// applied.
func lag(raw bson.Raw) (float64, error) {
	var status struct {
		Members []struct {
			State      string    `bson:"stateStr"`
			OptimeDate time.Time `bson:"optimeDate"`
		} `bson:"members"`
	}
	if err := bson.Unmarshal(raw, &status); err != nil {
		return 0, fmt.Errorf("mongosource: %w", err)
	}
	var primary, slowest time.Time
	for _, m := range status.Members {
		switch m.State {
		case "PRIMARY":
			primary = m.OptimeDate
		case "SECONDARY":
			if slowest.IsZero() || m.OptimeDate.Before(slowest) {
				slowest = m.OptimeDate
			}
		}
	}
	if primary.IsZero() || slowest.IsZero() {
		return 0, fmt.Errorf("%w: %d members, without a primary or a secondary", ErrNoLag, len(status.Members))
	}
	return max(primary.Sub(slowest).Seconds(), 0), nil
}

// Close ends the connections.
func (s *Source) Close() error {
	if s.client == nil {
		return nil
	}
	client := s.client
	s.client = nil
	ctx, cancel := context.WithTimeout(context.Background(), closeWithin) //nolint:forbidigo // the end is detached from what was read last
	defer cancel()
	if err := client.Disconnect(ctx); err != nil {
		return fmt.Errorf("mongosource: %w", err)
	}
	return nil
}
