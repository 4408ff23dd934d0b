// Command differ sends requests that servers are known to read in different ways
// through the gate to nginx, HAProxy and Node, and compares what the gate took
// for a request with what the backend took for one. A request that only the
// backend saw, or saw with another path or tenant, got past the gate's limits.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/ingress"
	"github.com/admitd/admitd/internal/ingress/httpgate"
	"github.com/admitd/admitd/limiter"
)

// seen is a request as one side understood it.
type seen struct{ method, target, tenant string }

// ledger is what one side saw, by the vector that the target names.
type ledger struct {
	mu   sync.Mutex // guards rows
	rows map[string][]seen
}

func (l *ledger) add(s seen) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows[vectorOf(s.target)] = append(l.rows[vectorOf(s.target)], s)
}

var numbered = regexp.MustCompile(`v\d+v`)

// vectorOf returns the number of the vector, which is in nearly each target.
func vectorOf(target string) string { return numbered.FindString(target) }

// watcher is the gate's observer.
type watcher struct{ ledger }

// Begin implements [httpgate.Observer].
func (w *watcher) Begin(r *http.Request) (context.Context, httpgate.Span) {
	target := r.RequestURI
	if r.URL.Host != "" && !strings.HasPrefix(target, "/") {
		target = r.URL.RequestURI()
	}
	var tenant string
	if v := r.Header["X-Tenant"]; len(v) > 0 {
		tenant = v[0]
	}
	w.add(seen{r.Method, target, tenant})
	return r.Context(), nil
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: differ nginx|haproxy|node CERT KEY")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Println("not ok", err)
		os.Exit(1)
	}
}

func run(kind, cert, key string) error {
	keys, err := ingress.LoadTLS(cert, key, "")
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Second)
	defer cancel()
	vectors := append(overHTTP1(), overHTTP2()...)
	front := &watcher{ledger{rows: map[string][]seen{}}}
	back, answers, err := play(ctx, kind, vectors, front, nil)
	if err != nil {
		return err
	}
	plain, others, err := play(ctx, kind, vectors, nil, nil)
	if err != nil {
		return err
	}
	secured, overTLS, err := play(ctx, kind, vectors, nil, keys)
	if err != nil {
		return err
	}
	if err := judge("all through net/http", vectors, answers, front, back); err != nil {
		return err
	}
	// A backend that answers before it has read what it answers ends the connection,
	// now before the gate has looked at the next request on it and now behind that.
	for range 5 {
		odd := slices.DeleteFunc(slices.Clone(vectors), func(v vector) bool { return unseen(v, front, plain) == nil && unseen(v, front, secured) == nil })
		if len(odd) == 0 {
			break
		}
		if _, _, err := play(ctx, kind, odd, front, nil); err != nil {
			return err
		}
	}
	if err := judge("plain ones by the gate itself", vectors, others, front, plain); err != nil {
		return err
	}
	return judge("these over TLS", vectors, overTLS, front, secured)
}

// play sends the vectors through a gate and returns what the backend saw, and the
// answers. A gate that is watched leaves every request to net/http; without front
// it serves the plain ones itself, and what it took for a request is known from
// the same vectors under watch. With keys the vectors come over TLS.
func play(ctx context.Context, kind string, vectors []vector, front httpgate.Observer, keys *tls.Config) (*ledger, []string, error) {
	back := &ledger{rows: map[string][]seen{}}
	address, stop, err := backend(ctx, kind, back)
	if err != nil {
		return nil, nil, err
	}
	limits := &limiter.Policy{Default: limiter.PartitionPolicy{NewLimit: func() limiter.Limit { return roomy{} }}}
	gate, err := httpgate.New(limiter.New("differ", limits, limiter.Options{}), httpgate.Options{
		Backend: "http://" + address, By: []string{"header:X-Tenant"}, Observer: front,
		Ingress: ingress.Options{TLS: keys},
	})
	if err != nil {
		return nil, nil, err
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	served, quit := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- gate.Serve(served, ln) }()
	answers := sendAll(ctx, ln.Addr().String(), vectors, keys != nil)
	quit()
	if err := <-done; err != nil {
		return nil, nil, fmt.Errorf("the gate: %w", err)
	}
	stop()
	return back, answers, nil
}

// roomy is a limit that nobody reaches.
type roomy struct{}

func (roomy) Current() int                            { return 1000 }
func (roomy) Observe(int64, time.Duration, int, bool) {}

// sendAll plays the vectors, some at a time.
func sendAll(ctx context.Context, address string, vectors []vector, overTLS bool) []string {
	answers := make([]string, len(vectors))
	slots := make(chan struct{}, 12)
	var wg sync.WaitGroup
	for i := range vectors {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			answers[i] = vectors[i].send(ctx, address, overTLS)
		})
	}
	wg.Wait()
	return answers
}

// judge compares, for one way through the gate.
func judge(lane string, vectors []vector, answers []string, front *watcher, back *ledger) error {
	front.mu.Lock()
	defer front.mu.Unlock()
	back.mu.Lock()
	defer back.mu.Unlock()
	passed, refused, differ := 0, 0, 0
	for i, v := range vectors {
		switch {
		case len(back.rows[v.id]) > 0:
			passed++
		default:
			refused++
		}
		if s := unseen(v, front, back); s != nil {
			differ++
			fmt.Printf("not ok %s %s: the backend saw %+v, the gate %+v; answered %q\n", lane, v.name, *s, front.rows[v.id], first(answers[i]))
		}
	}
	for _, s := range back.rows[""] { // of vectors whose target is none of theirs
		if !slices.Contains(front.rows[""], s) {
			differ++
			fmt.Printf("not ok %s: the backend saw %+v, the gate %+v\n", lane, s, front.rows[""])
		}
	}
	if passed < 20 || refused < 20 {
		return fmt.Errorf("%s: %d vectors came to the backend and %d did not: too few to have tried anything", lane, passed, refused)
	}
	if differ > 0 {
		return fmt.Errorf("%s: %d of %d vectors are seen differently", lane, differ, len(vectors))
	}
	fmt.Printf("ok %s: %d vectors (%d of them requests that came through, in their unambiguous form), 0 that the gate and the backend see differently\n", lane, len(vectors), passed)
	return nil
}

// unseen returns a request of a vector that the backend saw and the gate did not;
// nil = there is none.
func unseen(v vector, front *watcher, back *ledger) *seen {
	left := append([]seen(nil), front.rows[v.id]...)
	for _, s := range back.rows[v.id] {
		if left = without(left, s); left == nil {
			return &s
		}
	}
	return nil
}

// without returns list without s, nil when s is not in it.
func without(list []seen, s seen) []seen {
	for i := range list {
		if list[i] == s {
			return append(append([]seen{}, list[:i]...), list[i+1:]...)
		}
	}
	return nil
}

func first(s string) string {
	line, _, _ := strings.Cut(s, "\r\n")
	return line
}
