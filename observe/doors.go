package observe

import (
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/admitd/admitd/internal/ingress"
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
	responses, invalid         family
	attempts                   family
	certificate                family

	mu   sync.Mutex // guards read
	read map[string]DoorReader
}

func newDoors(tokens family) *doors {
	return &doors{
		open:        newGauge("connections_open", "Connections that are open."),
		waiting:     newGauge("connections_waiting", "Connections that wait for a token before they come in."),
		maxOpen:     newGauge("connections_max_open", "Bound on connections that are open or waiting."),
		accepted:    newCounter("connections_accepted_total", "Connections that came in."),
		rejected:    newCounter("connections_rejected_total", "Connections that were closed before they came in."),
		responses:   newCounter("backend_responses_total", "Answers of the backend, by class of status, or by whether they were errors."),
		invalid:     newCounter("requests_invalid_total", "Requests that the gate answered by itself because they cannot be forwarded."),
		attempts:    newCounter("request_attempts_total", "Requests whose clients say whether they have tried before."),
		tokens:      tokens,
		certificate: newGauge("tls_certificate_expiry_timestamp_seconds", "When the certificate that a listener serves ceases to be valid, in seconds since 1970."),
		read:        map[string]DoorReader{},
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

// Doors reads the connections of every ingress.
func (m *Metrics) Doors() map[string]ingress.Status {
	m.doors.mu.Lock()
	read := maps.Clone(m.doors.read)
	m.doors.mu.Unlock()
	out := make(map[string]ingress.Status, len(read))
	for name, r := range read {
		out[name] = r.Status()
	}
	return out
}

// collect implements [source].
func (d *doors) collect(b *builder) {
	d.mu.Lock()
	read := maps.Clone(d.read)
	d.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(read)) {
		s := read[name].Status()
		in := pair("ingress", name)
		b.add(&d.open, float64(s.Open), in)
		b.add(&d.waiting, float64(s.Queued), in)
		b.add(&d.maxOpen, float64(s.MaxOpen), in)
		b.add(&d.accepted, float64(s.Accepted), in)
		for _, why := range ingress.Refusals() {
			if int(why) < len(s.Refused) {
				b.add(&d.rejected, float64(s.Refused[why]), in, pair("reason", why.String()))
			}
		}
		for _, class := range ingress.Responses() {
			if int(class) < len(s.Responses) && s.Responses[class] > 0 {
				b.add(&d.responses, float64(s.Responses[class]), b.label("class", class.String()), in)
			}
		}
		for _, attempt := range ingress.Attempts() {
			if int(attempt) < len(s.Attempts) && s.Attempts[attempt] > 0 {
				b.add(&d.attempts, float64(s.Attempts[attempt]), b.label("attempt", attempt.String()), in)
			}
		}
		if !s.Certificate.IsZero() {
			b.add(&d.certificate, unix(s.Certificate), pair("listener", name))
		}
		for _, i := range s.Invalid {
			b.add(&d.invalid, float64(i.Count), in, b.label("status", i.Name()))
		}
		if !math.IsInf(s.Tokens, 0) {
			b.add(&d.tokens, s.Tokens, pair("bucket", "connections"), in)
		}
	}
}
