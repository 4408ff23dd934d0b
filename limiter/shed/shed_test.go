package shed_test

import (
	"testing"
	"time"

	"github.com/admitd/admitd/limiter/shed"
)

// full is a limit of which all is used.
func full() float64 { return 1 }

// half is the coin of somebody on the very line.
func half() uint64 { return 128 }

// crowded returns a shedder whose line has moved in a second of overload, and when
// it was.
func crowded(t *testing.T) (*shed.Shedder, int64) {
	t.Helper()
	var (
		s   shed.Shedder
		now int64
	)
	for i := range 10_000 {
		now += int64(100 * time.Microsecond)
		s.Begin(now, shed.Ranks-1, 7)
		if i%10 == 0 { // who matters most asks as well: nobody makes way for nobody
			s.Decide(0, 7, half)
		} else if p, _ := s.Decide(shed.Ranks-1, uint64(i), half); p != shed.Refused {
			s.Short(shed.Ranks-1, p)
		}
		s.Turn(now, new([shed.Ranks]float64), full)
	}
	if !s.Watching() || s.Threshold() == shed.TopLevel {
		t.Fatalf("after a second of overload the line is at %d", s.Threshold())
	}
	return &s, now
}

// What was counted before a second in which nobody came does not move the line: the
// overload is over.
func TestTurnAfterASilence(t *testing.T) {
	s, now := crowded(t)
	s.Turn(now+int64(5*time.Second), new([shed.Ranks]float64), full)
	if s.Watching() {
		t.Errorf("watched on, with the line at %d", s.Threshold())
	}
}

// Who is refused where there is room ends an overload that nobody came for in a
// second, and not one of now.
func TestLapse(t *testing.T) {
	s, now := crowded(t)
	if s.Lapse(now + int64(100*time.Millisecond)) {
		t.Error("over at once")
	}
	if !s.Lapse(now+int64(5*time.Second)) || s.Watching() {
		t.Error("watched on")
	}
}
