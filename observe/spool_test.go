package observe_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/admitd/admitd/observe"
)

// A line is out when Write returns, while somebody reads.
func TestSpoolWritesAtOnce(t *testing.T) {
	var out strings.Builder
	s := observe.Spool{Out: &out}
	for i := range 100 {
		fmt.Fprintln(&s, i)
		if want := fmt.Sprintln(i); !strings.HasSuffix(out.String(), want) {
			t.Fatalf("after line %d: %q", i, out.String())
		}
	}
}

// Whoever reads the log of a daemon may stand still, and its pipe is full then: who
// logged next waited for ever, and who logged after that for its lock. The daemon did
// not even stop when it was asked to.
func TestSpoolOfAReaderThatStands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, w := io.Pipe()
		var told uint64
		s := observe.Spool{Out: w, Lost: func(n uint64) { told = n }}
		start := time.Now()
		var wg sync.WaitGroup
		line := []byte(strings.Repeat("x", 1023) + "\n")
		for range 4 {
			wg.Go(func() {
				for range 500 {
					_, _ = s.Write(line)
				}
			})
		}
		wg.Wait()
		if took := time.Since(start); took != 50*time.Millisecond {
			t.Errorf("2,000 lines took %v; want 50ms, for all who log", took)
		}
		s.Flush()
		if took := time.Since(start); took != 1050*time.Millisecond {
			t.Errorf("the farewell took %v; want 1s", took-50*time.Millisecond)
		}
		read := make(chan int)
		go func() {
			n := 0
			for in := bufio.NewScanner(r); in.Scan(); n++ {
				if in.Text() != string(line[:1023]) {
					t.Error("a line is torn")
				}
			}
			read <- n
		}()
		s.Flush()
		synctest.Wait()
		start = time.Now()
		_, _ = s.Write(line)
		if took := time.Since(start); took != 0 {
			t.Errorf("a line took %v after the reader had come back", took)
		}
		w.Close()
		if n := <-read; told == 0 || uint64(n)+told != 2001 {
			t.Errorf("%d lines were read and %d said to be lost; want 2,001 in all", n, told)
		}
	})
}
