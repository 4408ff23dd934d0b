// Command model is the broker of this repository with as much of an admin interface
// as the cells need that are played with a real one too.
package main

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/admitd/admitd/internal/modelpulsar"
	"github.com/admitd/admitd/internal/pulsarwire"
)

// stored counts what was published, by topic.
type stored struct {
	mu       sync.Mutex // guards messages
	messages map[string]int
}

// add counts a message.
func (s *stored) add(topic string, m pulsarwire.Send, _ int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.messages[topic] += m.NumMessages
}

// of returns how many a topic has.
func (s *stored) of(topic string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.messages[topic]
}

func main() {
	counts := &stored{messages: map[string]int{}}
	broker := modelpulsar.New(modelpulsar.Options{Sent: counts.add, KeepAlive: 3 * time.Second})
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", os.Args[1])
	if err != nil {
		panic(err)
	}
	go func() {
		admin := http.Server{Addr: os.Args[2], Handler: routes(broker, counts), ReadHeaderTimeout: 10 * time.Second}
		panic(admin.ListenAndServe())
	}()
	if err := broker.Serve(context.Background(), ln); err != nil {
		panic(err)
	}
}

// routes is the admin interface.
func routes(b *modelpulsar.Broker, counts *stored) http.Handler {
	mux := http.NewServeMux()
	full := func(r *http.Request) string {
		return "persistent://public/default/" + strings.TrimSpace(r.PathValue("topic"))
	}
	const topic = " /admin/v2/persistent/public/default/{topic}"
	mux.HandleFunc("PUT"+topic+"/unload", func(_ http.ResponseWriter, r *http.Request) { b.Unload(full(r)) })
	mux.HandleFunc("PUT"+topic+"/subscription/s", func(http.ResponseWriter, *http.Request) {})
	mux.HandleFunc("GET"+topic+"/stats", func(w http.ResponseWriter, r *http.Request) {
		backlog := map[string]int{"msgBacklog": counts.of(full(r))}
		_ = json.NewEncoder(w).Encode(map[string]any{"subscriptions": map[string]any{"s": backlog}})
	})
	return mux
}
