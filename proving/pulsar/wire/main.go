// Command wire plays the protocol frame by frame: at a broker and at the gate before
// it. It is run with a real broker and with the model of this repository, and both
// have to show the same.
package main

import (
	"context"
	"os"
	"time"

	"github.com/admitd/admitd/proving/pulsar"
)

// cell is where it is played.
type cell struct {
	pulsar.Facts
	broker, gate, pausing string
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 110*time.Second)
	defer cancel()
	c := &cell{broker: os.Getenv("BROKER"), gate: os.Getenv("GATE"), pausing: os.Getenv("PAUSING")}
	c.contract(ctx)
	c.unloaded(ctx)
	c.closed(ctx)
	c.alive(ctx)
	c.End()
}

// dial connects, as the anonymous.
func (c *cell) dial(ctx context.Context, address string) *pulsar.Raw {
	r, err := pulsar.Dial(ctx, address, "", "")
	c.Must("a connection to "+address, err)
	return r
}
