package tuner

import (
	"context"
	"sync"
	"time"
)

// tickEvery is how often the tuner looks.
const tickEvery = time.Second

// Run reads the sources and decides, until ctx is done, and then closes the
// sources. Every source has a goroutine of its own, so that a slow one holds up
// nobody.
func (t *Tuner) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	if t.o.Mode != Off {
		t.senses.run(ctx, &wg)
	}
	ticker := time.NewTicker(tickEvery)
	defer ticker.Stop()
	for ctx.Err() == nil {
		t.Tick(ctx, time.Now())
		select {
		case <-ctx.Done():
		case <-ticker.C:
		}
	}
	wg.Wait()
	return t.senses.close()
}
