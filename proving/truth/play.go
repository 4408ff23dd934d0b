package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// world is what the phases have in common.
type world struct {
	gate       *gate
	prometheus *prometheus
	collector  *collector
	panels     []panel
	alertNames []string
	lag        lag
}

// phase is one kind of traffic to an ingress of its own.
type phase struct {
	name    string
	ingress string // its configuration, less name, protocol, listen and backend
	serve   behaviour
	streams []stream
	lasts   time.Duration // 0 = 4 s
	warm    time.Duration // after which it is steady; 0 = 1 s
	// during runs beside the load.
	during func(ctx context.Context, p *play) error
	// after runs when everything is compared.
	after func(ctx context.Context, p *play, s *sheet)

	alerts []string // that it has to raise, as long as it lasts
	// Of a wire protocol; else it is HTTP.
	protocol *protocol
	work     func(since time.Duration) bool
	refused  refusal // what refusals are, where clients are not told

	named   []string              // partitions
	limit   int                   // permits, where they are fixed
	exempt  func(r *request) bool // which requests are
	classes bool
	verdict []string            // conditions of which one is told at the end of the load
	says    []string            // and what its text has in it
	explain map[string][]string // by key, what is said; what begins with ! is not
	moves   bool                // it is not steady: panels have only to be possible
}

// load is who sends requests: those of streams for so long, returning when each has ended.
type load interface {
	send(ctx context.Context, streams []stream, lasts time.Duration)
	end() // closes the connections that are kept
}

// play is a phase that is played.
type play struct {
	*phase
	world   *world
	gate    *gate
	ledger  *ledger
	backend *backend
	load    load
	listen  string
	began   time.Time
	text    string // the verdict
	is      string
}

// prepare starts the backend of a phase and adds its ingress to the gate.
func prepare(ctx context.Context, w *world, ph *phase) (*play, error) {
	p := &play{phase: ph, world: w, gate: w.gate, ledger: &ledger{}, listen: freePort()}
	if ph.protocol != nil {
		model := &server{ledger: p.ledger, work: ph.work, began: func() time.Time { return p.began }}
		if err := model.serve(ctx, ph.protocol); err != nil {
			return nil, err
		}
		text := ph.protocol.wireText(p.listen, model.address)
		if ph.ingress != "" {
			text += ", " + ph.ingress
		}
		p.gate.add(ph.name, text)
		p.load = &sessions{ledger: p.ledger, protocol: ph.protocol, address: p.listen, refused: ph.refused}
		return p, nil
	}
	serve := ph.serve
	if serve == nil {
		serve = takes(20 * time.Millisecond)
	}
	var err error
	if p.backend, err = newBackend(ctx, "127.0.0.1:0", p.ledger, serve); err != nil {
		return nil, err
	}
	p.load = newGenerator(p.ledger, p.listen)
	p.configure(ph.ingress)
	return p, nil
}

// configure sets the options of the ingress, for the next reload.
func (p *play) configure(options string) {
	text := fmt.Sprintf("protocol: http, listen: %q, backend: \"http://%s\"", p.listen, p.backend.address)
	if options != "" {
		text += ", " + options
	}
	p.gate.add(p.name, text)
}

// run plays the phase and compares.
func (p *play) run(ctx context.Context) *sheet {
	s := &sheet{phase: p.name}
	lasts, warm := p.lasts, p.warm
	if lasts == 0 {
		lasts = 4 * time.Second
	}
	if warm == 0 {
		warm = time.Second
	}
	p.began = time.Now()
	if p.backend != nil {
		p.backend.began = p.began
	}
	result := make(chan error, 2)
	go func() { result <- p.look(ctx, lasts-200*time.Millisecond, s) }()
	go func() {
		if p.during == nil {
			result <- nil
			return
		}
		result <- p.during(ctx, p)
	}()
	p.load.send(ctx, p.streams, lasts)
	for range 2 {
		if err := <-result; err != nil {
			s.fail("%v", err)
		}
	}
	steady := span{p.began.Add(warm), p.began.Add(lasts)}
	for range 2 { // of an instant nothing can be said when nothing was run in it
		if p.panels(ctx, s, steady); s.unseen == "" || p.moves || p.during != nil {
			break
		}
		began := time.Now()
		p.load.send(ctx, p.streams, lasts)
		steady = span{began.Add(warm), began.Add(lasts)}
	}
	p.load.end()
	if w, ok := p.load.(*sessions); ok && w.problem != nil {
		s.fail("a connection: %v", w.problem)
	}
	if err := p.settle(ctx); err != nil {
		s.fail("%v", err)
	}
	p.compare(ctx, s)
	if p.after != nil {
		p.after(ctx, p, s)
	}
	return s
}

// last plays the phase until ctx is done. What is counted then is compared by the
// sheet that it returns.
func (p *play) last(ctx context.Context) *sheet {
	s := &sheet{phase: p.name}
	p.began = time.Now()
	p.backend.began = p.began
	if p.during != nil {
		if err := p.during(ctx, p); err != nil {
			s.fail("%v", err)
		}
	}
	p.load.send(ctx, p.streams, time.Hour)
	p.load.end()
	return s
}

// look reads the verdict and the explanations while the load is on.
func (p *play) look(ctx context.Context, after time.Duration, s *sheet) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(after):
	}
	st, err := p.gate.status(ctx, p.name)
	if err != nil {
		return err
	}
	p.is, p.text = st.Verdict.Condition, st.Verdict.Text
	if stood := p.world.lag.worst(span{p.began, time.Now()}); stood > stoodStill {
		return nil // limits fall with what they measure, and the verdict says that the gate is delayed
	}
	if len(p.verdict) > 0 && !slices.Contains(p.verdict, p.is) && p.is != "gate_delayed" {
		s.fail("the verdict is %s, want %s: %s", p.is, strings.Join(p.verdict, " or "), p.text)
	}
	for _, want := range p.says {
		if !said(p.text, want) {
			s.fail("the verdict, want %q: %s", want, p.text)
		}
	}
	for key, wants := range p.explain {
		var page json.RawMessage
		if err := get(ctx, "http://"+p.gate.admin+"/v1/explain/"+p.name+"/"+url.PathEscape(key), &page); err != nil {
			return err
		}
		var e struct{ Text string }
		if err := json.Unmarshal(page, &e); err != nil {
			return err
		}
		for _, want := range wants {
			if !said(e.Text, want) {
				s.fail("explain %s, want %q: %s", key, want, e.Text)
			}
		}
	}
	return nil
}

// said reports whether a text has another in it, or after a ! that it has not.
func said(text, want string) bool {
	if not, ok := strings.CutPrefix(want, "!"); ok {
		return !strings.Contains(text, not)
	}
	return strings.Contains(text, want)
}

// settle waits until the gate holds nothing of the phase.
func (p *play) settle(ctx context.Context) error {
	return until(10*time.Second, "the gate is idle", func() error {
		m, err := p.gate.metrics(ctx)
		if err != nil {
			return err
		}
		in := "ingress=" + p.name
		held, queued := m.sum("admitd_requests_in_flight", in), m.sum("admitd_requests_queued", in)
		if open := m.sum("admitd_connections_open", in); held+queued > 0 || open != float64(p.ledger.open) {
			return fmt.Errorf("%g in flight, %g queued, %g connections open of %d", held, queued, open, p.ledger.open)
		}
		return nil
	})
}

// compare compares what was counted with the ledger, once nothing is counted any more.
func (p *play) compare(ctx context.Context, s *sheet) {
	m, err := p.gate.metrics(ctx)
	if err != nil {
		s.fail("%v", err)
		return
	}
	st, err := p.gate.status(ctx, p.name)
	if err != nil {
		s.fail("%v", err)
		return
	}
	p.counters(s, m)
	p.same(s, m, st)
}
