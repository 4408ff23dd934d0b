package observe

import (
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/admitd/admitd/ingress"
)

// DoorReader is an ingress's [ingress.Door], as far as it is read at scrape
// time.
type DoorReader interface {
	Status() ingress.Status
}

// WatchDoor exposes the connections of one ingress until stop is called. Of two
// with one name the later is exposed.
func (m *Metrics) WatchDoor(name string, d DoorReader) (stop func()) { return m.doors.watch(name, d) }

// doors collects the connection metrics of every ingress.
type doors struct {
	open, waiting, maxOpen     family
	accepted, rejected, tokens family

	mu   sync.Mutex // guards read
	read map[string]DoorReader
}

func newDoors(tokens family) *doors {
	return &doors{
		open:     newGauge("connections_open", "Connections that are open.", "ingress"),
		waiting:  newGauge("connections_waiting", "Connections that wait for a token before they come in.", "ingress"),
		maxOpen:  newGauge("connections_max_open", "Bound on connections that are open or waiting.", "ingress"),
		accepted: newCounter("connections_accepted_total", "Connections that came in.", "ingress"),
		rejected: newCounter("connections_rejected_total", "Connections that were closed before they came in.", "ingress", "reason"),
		tokens:   tokens,
		read:     map[string]DoorReader{},
	}
}

func (d *doors) watch(name string, r DoorReader) (stop func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.read[name] = r
	return func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.read[name] == r {
			delete(d.read, name)
		}
	}
}

// Describe implements prometheus.Collector. The family of bucket tokens is
// described by the gates, who share it.
func (d *doors) Describe(ch chan<- *prometheus.Desc) {
	for _, f := range []family{d.open, d.waiting, d.maxOpen, d.accepted, d.rejected} {
		ch <- f.desc
	}
}

// Collect implements prometheus.Collector.
func (d *doors) Collect(ch chan<- prometheus.Metric) {
	d.mu.Lock()
	read := maps.Clone(d.read)
	d.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(read)) {
		s := read[name].Status()
		in := pair("ingress", name)
		d.open.send(ch, float64(s.Open), in)
		d.waiting.send(ch, float64(s.Queued), in)
		d.maxOpen.send(ch, float64(s.MaxOpen), in)
		d.accepted.send(ch, float64(s.Accepted), in)
		for _, why := range ingress.Refusals() {
			if int(why) < len(s.Refused) {
				d.rejected.send(ch, float64(s.Refused[why]), in, pair("reason", why.String()))
			}
		}
		if !math.IsInf(s.Tokens, 0) {
			d.tokens.send(ch, s.Tokens, pair("bucket", "connections"), in)
		}
	}
}
