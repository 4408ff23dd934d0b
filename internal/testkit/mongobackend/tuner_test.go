package mongobackend_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/internal/testkit/mongobackend"
	"github.com/admitd/admitd/internal/tuner/mongosource"
)

// The tuner reads what a real server says of itself.
func TestTunerReadsServerStatus(t *testing.T) {
	b, err := mongobackend.Start(t.Context(), t.TempDir(), "")
	if err != nil {
		t.Fatalf("Start: %v", err)
	}
	t.Cleanup(b.Stop)
	s, err := mongosource.New("mongodb://"+b.Addr()+"/?directConnection=true", "serverStatus", "uptimeMillis")
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer s.Close()
	first, _, err := s.Read(t.Context())
	if err != nil {
		t.Fatalf("Read: %v", err)
	}
	time.Sleep(50 * time.Millisecond)
	if second, _, err := s.Read(t.Context()); err != nil || second <= first {
		t.Errorf("uptime = %v then %v, %v; want that it grows", first, second, err)
	}
	absent, err := mongosource.New("mongodb://"+b.Addr()+"/?directConnection=true", "serverStatus", "no.such.path")
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	defer absent.Close()
	if _, _, err := absent.Read(t.Context()); err == nil {
		t.Error("Read of a path that is not there: no error")
	}
}
