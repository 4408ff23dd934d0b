package mongosource_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/tuner/mongosource"
	"github.com/admitd/admitd/internal/tuner/source"
)

func document(t *testing.T, v any) bson.Raw {
	t.Helper()
	b, err := bson.Marshal(v)
	if err != nil {
		t.Fatalf("marshal: %v", err)
	}
	return b
}

func TestPaths(t *testing.T) {
	status := document(t, bson.M{
		"queues": bson.M{"execution": bson.M{"read": bson.M{"available": int32(128), "out": int64(5)}}}, "load": 0.5, "ok": 1.0, "host": "h",
	})
	for path, want := range map[string]float64{
		"queues.execution.read.available": 128, "queues.execution.read.out": 5, "load": .5, "ok": 1, "queues.execution.read.*": 133,
		"host": -1, "queues": -1, "nothing": -1,
	} {
		s, err := mongosource.New("mongodb://127.0.0.1:1", "serverStatus", path)
		if err != nil {
			t.Fatalf("New: %v", err)
		}
		got, err := s.Value(status)
		if want < 0 && !errors.Is(err, source.ErrForm) && !errors.Is(err, source.ErrAbsent) || want >= 0 && (err != nil || got != want) {
			t.Errorf("%s: %v, %v; want %v", path, got, err, want)
		}
	}
}

func TestLag(t *testing.T) {
	now := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	member := func(state string, behind time.Duration) bson.M {
		return bson.M{"stateStr": state, "optimeDate": now.Add(-behind)}
	}
	for name, tc := range map[string]struct {
		members []bson.M
		want    float64
		err     error
	}{
		"the slowest":   {[]bson.M{member("SECONDARY", 3*time.Second), member("PRIMARY", 0), member("SECONDARY", 12*time.Second)}, 12, nil},
		"ahead":         {[]bson.M{member("PRIMARY", time.Second), member("SECONDARY", 0)}, 0, nil},
		"an arbiter":    {[]bson.M{member("PRIMARY", 0), {"stateStr": "ARBITER"}}, 0, mongosource.ErrNoLag},
		"no primary":    {[]bson.M{member("SECONDARY", 0)}, 0, mongosource.ErrNoLag},
		"nobody at all": {nil, 0, mongosource.ErrNoLag},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := mongosource.New("mongodb://127.0.0.1:1", "replSetGetStatus", mongosource.Lag)
			if err != nil {
				t.Fatalf("New: %v", err)
			}
			got, err := s.Value(document(t, bson.M{"members": tc.members}))
			if got != tc.want || !errors.Is(err, tc.err) {
				t.Errorf("lag = %v, %v; want %v, %v", got, err, tc.want, tc.err)
			}
		})
	}
}

// An answer that cannot be decoded is no replica set without a primary, and no lag
// of 0.
func TestLagOfAnotherForm(t *testing.T) {
	s, err := mongosource.New("mongodb://127.0.0.1:1", "replSetGetStatus", mongosource.Lag)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	if got, err := s.Value(document(t, bson.M{"members": "none"})); err == nil || errors.Is(err, mongosource.ErrNoLag) {
		t.Errorf("lag = %v, %v; want that it cannot be decoded", got, err)
	}
}

// A server that is not there costs the time that is allowed, not the driver's
// thirty seconds.
func TestNobodyThere(t *testing.T) {
	s, err := mongosource.New("mongodb://127.0.0.1:1/?directConnection=true", "serverStatus", "ok")
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, _, err := s.Read(ctx); err == nil {
		t.Error("Read = nil; want an error")
	}
	if err := s.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, tc := range [][3]string{
		{"mongodb://h", "dropDatabase", "ok"}, {"postgres://h", "serverStatus", "ok"}, {"mongodb://h", "serverStatus", "a..b"},
	} {
		if _, err := mongosource.New(tc[0], tc[1], tc[2]); err == nil {
			t.Errorf("New(%q) = nil; want an error", tc)
		}
	}
}
