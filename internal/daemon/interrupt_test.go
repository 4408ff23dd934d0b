package daemon_test

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"github.com/admitd/admitd/client/pulsarproducer"
	"github.com/admitd/admitd/internal/config"
	"github.com/admitd/admitd/internal/daemon"
	"github.com/admitd/admitd/internal/modelmongo"
	"github.com/admitd/admitd/internal/modelpostgres"
	"github.com/admitd/admitd/internal/modelpulsar"
	"github.com/admitd/admitd/internal/testkit/configured"
	"github.com/admitd/admitd/internal/testkit/keypair"
)

// setting is one setting of an ingress and another value than the one before.
type setting map[string]any

// changes returns a change of every key of an ingress of the protocol, by path. What
// is a list, a file or an address has its values in special, the whole of some mappings
// too; a nil one is left out.
func changes(t *testing.T, protocol string, section reflect.Type, path string, special map[string]setting, out map[string]setting) {
	t.Helper()
	for i := range section.NumField() {
		f := section.Field(i)
		if only := strings.Fields(f.Tag.Get("for")); len(only) > 0 && only[0] != "@costs" && !slices.Contains(only, protocol) {
			continue
		}
		at := strings.TrimPrefix(path+"."+f.Tag.Get("yaml"), ".")
		if s, known := special[at]; known {
			if s != nil {
				out[at] = s
			}
			continue
		}
		kind := f.Type
		if kind.Kind() == reflect.Pointer {
			kind = kind.Elem()
		}
		if kind.Kind() == reflect.Struct && f.Tag.Get("default") == "" {
			changes(t, protocol, kind, at, special, out)
			continue
		}
		value := another(f.Tag, kind)
		if value == nil {
			t.Errorf("%s of %s: the test knows no other value", at, protocol)
			continue
		}
		keys := strings.Split(at, ".")
		for _, key := range slices.Backward(keys[1:]) {
			value = setting{key: value}
		}
		out[at] = setting{keys[0]: value}
	}
}

// another returns a value of a key that is not its default, nil when none is known.
func another(tag reflect.StructTag, kind reflect.Type) any {
	given, words := tag.Get("default"), config.Words(tag.Get("enum"))
	if i := slices.IndexFunc(words, func(w string) bool { return w != given }); len(words) > 0 && i >= 0 {
		return words[i]
	}
	switch kind.Name() {
	case "bool":
		return given != "true"
	case "Duration":
		d, _ := time.ParseDuration(given)
		return (max(d, time.Second) * 2).String()
	case "Size":
		return "1MiB"
	case "int", "float64", "Count":
		n, _ := strconv.ParseFloat(given, 64)
		return max(n, 500) * 2
	default:
		return nil
	}
}

// with returns a copy of one mapping with another laid over it.
func with(below map[string]any, over setting) map[string]any {
	out := map[string]any{}
	maps.Copy(out, below)
	for key, value := range over {
		inner, deep := value.(setting)
		outer, _ := out[key].(map[string]any)
		if deep {
			value = with(outer, inner)
		}
		out[key] = value
	}
	return out
}

// open is what is open at a gate while configurations change.
type open interface {
	// goesOn does something with it, or says why it cannot.
	goesOn() error
}

// A reload of any key interrupts nothing: not a request that is under way, not a
// stream, not a transaction, not a producer. Each once cut what it had, with the drain
// timeout, when the key was one of about forty.
func TestReloadsInterruptNothing(t *testing.T) {
	cert, key := keypair.Files(t, "gate")
	files := setting{"certFile": cert, "keyFile": key}
	shared := map[string]setting{
		"name": nil, "protocol": nil, // of another ingress
		"listen": {"listen": "127.0.0.2:0"}, "proxyProtocolFrom": {"proxyProtocolFrom": "127.0.0.1", "proxyProtocol": true},
		"tls.certFile": {"tls": files}, "tls.keyFile": nil, "tls.clientCAFile": {"tls": with(files, setting{"clientCAFile": cert})},
		"backendTLS.caFile": {"backendTLS": setting{"enabled": true, "caFile": cert}}, "backendTLS.certFile": {"backendTLS": with(files, setting{"enabled": true})},
		"backendTLS.keyFile": nil, "backendTLS.insecureSkipVerify": {"backendTLS": setting{"enabled": true, "insecureSkipVerify": true}}, "backendTLS.serverName": {"backendTLS": setting{"enabled": true, "serverName": "other"}},
		"connections.exempt": {"connections": setting{"exempt": "127.0.0.1"}}, "connections.reserved": nil,
		"requests.exempt.cidrs":        {"requests": setting{"exempt": setting{"cidrs": "127.0.0.1"}}},
		"requests.exempt.applications": {"requests": setting{"exempt": setting{"applications": "probe"}}},
		"requests.unauthenticated":     nil, "cost.header": nil,
		"partitions.default.limit":    {"partitions": setting{"default": setting{"limit": setting{"algorithm": "fixed", "limit": 100}}}},
		"partitions.default.queue":    {"partitions": setting{"default": setting{"queue": setting{"depth": 7, "maxWait": "1s"}}}},
		"partitions.default.maxShare": {"partitions": setting{"share": "one", "default": setting{"maxShare": 0.9}}},
		"partitions.named":            nil,
		"classes.by":                  nil, "classes.trust": nil, "classes.floor": {"classes": setting{"floor": setting{"sheddable": 0.1}}},
		"classes.rules":    {"classes": setting{"rules": []any{setting{"applications": "batch", "class": "sheddable"}}}},
		"rejection.status": nil, "trace.file": {"trace": setting{"file": t.TempDir() + "/trace"}},
		"requests.shared": nil, "connections.shared": nil, "partitions.default.shared": nil, // without a fleet
	}
	held := map[string]open{}
	base := map[string]map[string]any{}
	keys := map[string]map[string]setting{}
	begin := func(protocol, backend string, special map[string]setting) {
		base[protocol] = map[string]any{"name": protocol, "protocol": protocol, "listen": "127.0.0.1:0", "backend": backend, "drainTimeout": "1ms"}
		own := maps.Clone(shared)
		maps.Copy(own, special)
		keys[protocol] = map[string]setting{}
		changes(t, protocol, reflect.TypeFor[config.Ingress](), "", own, keys[protocol])
	}
	web := newStreams(t)
	begin("http", web.backend.URL, map[string]setting{
		"backend": {"backend": "http://127.0.0.1:1"}, "backendTLS": {"backend": "https://127.0.0.1:1", "backendTLS": setting{"serverName": "other"}},
		"rejection.status": {"rejection": setting{"status": 429}},
		"cost.header":      {"cost": setting{"header": "X-Cost"}}, "cost.byOperation": {"cost": setting{"byOperation": setting{"GET /a": 2}}},
		"requests.exempt.operations": {"requests": setting{"exempt": setting{"operations": "GET /a"}}},
		"partitions.by":              {"partitions": setting{"by": "header:X-Tenant"}}, "classes.by": {"classes": setting{"by": "priority"}},
		"classes.trust":       {"classes": setting{"by": "priority", "trust": "127.0.0.1"}},
		"partitions.named":    {"partitions": setting{"by": "client", "named": []any{setting{"name": "a", "match": "b"}}}},
		"http.overloadStatus": {"http": setting{"overloadStatus": []int{500}}},
	})
	wire := map[string]setting{
		"backend": {"backend": "127.0.0.1:1"},
	}
	sql := begun(t, func(ctx context.Context, ln net.Listener) error { return servePostgres(ctx, ln) })
	begin("postgres", sql, with2(wire, map[string]setting{
		"cost.byOperation":           {"cost": setting{"byOperation": setting{"select": 2}}},
		"requests.exempt.operations": {"requests": setting{"exempt": setting{"operations": "select"}}},
		"partitions.by":              {"partitions": setting{"by": "database"}}, "classes.by": {"classes": setting{"by": "application"}},
		"partitions.named":      {"partitions": setting{"by": "user", "named": []any{setting{"name": "demo"}}}},
		"postgres.exemptUsers":  {"postgres": setting{"exemptUsers": "demo"}},
		"postgres.sqlstate":     {"postgres": setting{"sqlstate": setting{"shed": "40001"}}},
		"postgres.activity":     {"postgres": setting{"activity": setting{"user": "watch"}}},
		"postgres.moreBackends": {"postgres": setting{"moreBackends": "127.0.0.1:1"}},
		"connections.reserved":  {"connections": setting{"reserved": 5}},
	}))
	documents := begun(t, modelmongo.New(10, 0).Serve)
	begin("mongodb", documents, with2(wire, map[string]setting{
		"cost.byOperation":           {"cost": setting{"byOperation": setting{"find": 2}}},
		"requests.exempt.operations": {"requests": setting{"exempt": setting{"operations": "find"}}},
		"requests.unauthenticated":   {"requests": setting{"unauthenticated": "gate"}},
		"partitions.by":              {"partitions": setting{"by": "database"}}, "classes.by": {"classes": setting{"by": "comment"}},
		"partitions.named":              {"partitions": setting{"by": "database", "named": []any{setting{"name": "shop"}}}},
		"mongodb.moreBackends":          {"mongodb": setting{"topology": setting{"mode": "loadBalanced"}, "moreBackends": "127.0.0.1:1"}},
		"mongodb.topology.members":      {"mongodb": setting{"topology": setting{"mode": "members", "members": setting{"a:1": "b:2"}}}},
		"mongodb.topology.mode":         {"mongodb": setting{"topology": setting{"mode": "direct"}}},
		"mongodb.refusal.waitAnnounced": {"mongodb": setting{"refusal": setting{"waitAnnounced": "2s"}}},
	}))
	broker := modelpulsar.New(modelpulsar.Options{})
	begin("pulsar", begun(t, broker.Serve), map[string]setting{
		"cost": nil, "requests.exempt": nil, "backend": nil, // a producer looks for its topic anew
		"partitions.by": {"partitions": setting{"by": "tenant"}}, "classes.by": {"classes": setting{"by": "producer"}},
		"partitions.named":        {"partitions": setting{"by": "tenant", "named": []any{setting{"name": "public"}}}},
		"pulsar.brokers":          {"pulsar": setting{"brokers": "127.0.0.1:*"}},
		"pulsar.topics":           {"pulsar": setting{"topics": []any{setting{"name": "a", "match": "persistent://a/b/c", "messages": 5}}}},
		"pulsar.resourceGroups":   {"pulsar": setting{"resourceGroups": []any{setting{"name": "a", "match": "persistent://a/b/c", "messages": 5}}}},
		"pulsar.maxHeldBytes":     {"pulsar": setting{"maxHeldBytes": "8MiB"}},
		"pulsar.maxGateHeldBytes": {"pulsar": setting{"maxGateHeldBytes": "64MiB"}},
	})
	parse := func(protocol string, change setting) *config.Config {
		all := map[string]any{"admin": map[string]any{"listen": "127.0.0.1:0"}, "log": map[string]any{"level": "error"}}
		var list []any
		for _, name := range slices.Sorted(maps.Keys(base)) {
			in := base[name]
			if name == protocol {
				in = with(in, change)
			}
			list = append(list, in)
		}
		all["ingresses"] = list
		b, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Parse("test", b, nil)
		if err != nil {
			t.Fatalf("%s: %v: %v", protocol, change, err)
		}
		return cfg
	}
	d := serving(t, parse("", nil))
	held["http"] = web.through(t, d.Address("http"))
	session, err := modelpostgres.Dial(t.Context(), d.Address("postgres").String())
	if err != nil {
		t.Fatal(err)
	}
	held["postgres"] = transaction(func() error { return session.Query("select 1") })
	held["mongodb"] = newMongoTransaction(t, d.Address("mongodb").String())
	held["pulsar"] = newProduction(t, d.Address("pulsar").String(), broker)
	for _, protocol := range []string{"http", "mongodb", "postgres", "pulsar"} {
		if err := held[protocol].goesOn(); err != nil {
			t.Fatalf("%s: %v", protocol, err)
		}
		for _, path := range slices.SortedFunc(maps.Keys(keys[protocol]), func(a, b string) int { // the backend last: sessions then end with their transaction
			return cmp.Or(strings.Compare(strconv.FormatBool(a == "backend"), strconv.FormatBool(b == "backend")), strings.Compare(a, b))
		}) {
			if err := d.Apply(t.Context(), parse(protocol, keys[protocol][path])); err != nil {
				t.Errorf("%s: %s: %v", protocol, path, err)
			}
			if err := held[protocol].goesOn(); err != nil {
				t.Fatalf("%s: after a change of %s, or of the one before: %v", protocol, path, err)
			}
		}
		if n := len(keys[protocol]); n < 50 {
			t.Errorf("%s: %d keys", protocol, n)
		}
	}
	if err := d.Apply(t.Context(), parse("", nil)); err != nil {
		t.Error(err)
	}
	for protocol, o := range held {
		if err := o.goesOn(); err != nil {
			t.Errorf("%s: at the end: %v", protocol, err)
		}
	}
	web.ends(t)
}

// What a reload says of requests holds for the next one of a connection that is open.
func TestReloadsHoldForOpenConnections(t *testing.T) {
	sql := begun(t, modelpostgres.New(10, 0).Serve)
	documents := begun(t, modelmongo.New(10, 0).Serve)
	parse := func(sqlMore, documentMore string) *config.Config {
		return configured.From(t, fmt.Sprintf(`
admin: { listen: 127.0.0.1:0 }
log: { level: error }
ingresses:
- { name: sql, protocol: postgres, listen: "127.0.0.1:0", backend: %q, %s }
- { name: documents, protocol: mongodb, listen: "127.0.0.1:0", backend: %q, %s }`, sql, sqlMore, documents, documentMore))
	}
	const spent = "rate: 0.001, burstSeconds: 1000"
	d := serving(t, parse("requests: { "+spent+" }", "requests: { "+spent+" }"))
	session, err := modelpostgres.Dial(t.Context(), d.Address("sql").String())
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	connection, err := modelmongo.Dial(t.Context(), d.Address("documents").String(), false)
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	find := bsoncore.BuildDocument(nil, bsoncore.AppendStringElement(bsoncore.AppendStringElement(nil, "find", "orders"), "$db", "shop"))
	asked := func(wantSQL, wantDocuments string) {
		t.Helper()
		code, labels := "", ""
		if e, ok := errors.AsType[*modelpostgres.Error](session.Query("select 1")); ok {
			code = e.Code
		}
		if e, ok := errors.AsType[*modelmongo.Error](connection.Once(find)); ok {
			labels = fmt.Sprint(e.Labels)
		}
		if code != wantSQL || labels != wantDocuments {
			t.Errorf("answers %q and %q; want %q and %q", code, labels, wantSQL, wantDocuments)
		}
	}
	asked("", "") // the buckets hold one
	asked("53400", "[SystemOverloadedError RetryableError]")
	for _, tc := range []struct{ sql, documents, wantSQL, wantDocuments string }{
		{"postgres: { sqlstate: { request_rate: \"40001\" } }", "mongodb: { refusal: { allowRetries: false } }", "40001", "[SystemOverloadedError]"},
		{"requests: { exempt: { operations: select }, " + spent + " }", "requests: { exempt: { operations: find }, " + spent + " }", "", ""},
		{"requests: { exempt: { cidrs: 127.0.0.1 }, " + spent + " }", "requests: { exempt: { cidrs: 127.0.0.1 }, " + spent + " }", "", ""},
		{"partitions: { by: user }", "partitions: { by: database }", "53400", "[SystemOverloadedError RetryableError]"},
	} {
		limited := func(more string) string {
			if strings.Contains(more, "requests:") {
				return more
			}
			return more + ", requests: { " + spent + " }"
		}
		if err := d.Apply(t.Context(), parse(limited(tc.sql), limited(tc.documents))); err != nil {
			t.Fatal(err)
		}
		asked(tc.wantSQL, tc.wantDocuments)
	}
	if rows := d.Gate("sql").Rows([]string{"demo"}, 1); len(rows) != 1 || rows[0].Name != "demo" {
		t.Errorf("partitions %+v; want that of the session's user", rows)
	}
}

// with2 returns both, the second before the first.
func with2(a, b map[string]setting) map[string]setting {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// begun serves a backend until the test ends, and returns its address.
func begun(t *testing.T, serve func(ctx context.Context, ln net.Listener) error) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() { defer close(ended); _ = serve(ctx, ln) }()
	t.Cleanup(func() { cancel(); <-ended })
	return ln.Addr().String()
}

// serving runs a daemon until the test ends.
func serving(t *testing.T, cfg *config.Config) *daemon.Daemon {
	t.Helper()
	d, err := daemon.New(cfg, daemon.Options{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	select {
	case <-d.Up():
	case err := <-ended:
		t.Fatal(err)
	}
	return d
}

// transaction is one that can go on.
type transaction func() error

func (tx transaction) goesOn() error { return tx() }

// servePostgres serves sessions that are in a transaction from their first query on.
func servePostgres(ctx context.Context, ln net.Listener) error {
	defer context.AfterFunc(ctx, func() { _ = ln.Close() })()
	for {
		c, err := ln.Accept()
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			defer context.AfterFunc(ctx, func() { _ = c.Close() })()
			r := bufio.NewReader(c)
			answer := []byte("R\x00\x00\x00\x08\x00\x00\x00\x00Z\x00\x00\x00\x05I")
			for skip := 0; ; skip = 1 { // the first message has no type
				head, err := r.Peek(skip + 4)
				if err != nil {
					return
				}
				if _, err := r.Discard(skip + int(binary.BigEndian.Uint32(head[skip:]))); err != nil {
					return
				}
				if _, err := c.Write(answer); err != nil {
					return
				}
				answer = []byte("C\x00\x00\x00\x0dSELECT 0\x00Z\x00\x00\x00\x05T")
			}
		}()
	}
}

// newMongoTransaction begins one.
func newMongoTransaction(t *testing.T, address string) transaction {
	t.Helper()
	c, err := modelmongo.Dial(t.Context(), address, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	session := bsoncore.BuildDocument(nil, bsoncore.AppendBinaryElement(nil, "id", 4, make([]byte, 16)))
	first := true
	return func() error {
		doc := bsoncore.AppendStringElement(nil, "find", "orders")
		doc = bsoncore.AppendDocumentElement(doc, "lsid", session)
		doc = bsoncore.AppendInt64Element(doc, "txnNumber", 1)
		doc = bsoncore.AppendBooleanElement(doc, "autocommit", false)
		if first {
			doc = bsoncore.AppendBooleanElement(doc, "startTransaction", true)
		}
		first = false
		return c.Once(bsoncore.BuildDocument(nil, bsoncore.AppendStringElement(doc, "$db", "shop")))
	}
}

// newProduction opens a producer that must stay on its connection.
func newProduction(t *testing.T, address string, broker *modelpulsar.Broker) transaction {
	t.Helper()
	c, err := pulsarproducer.Connect(t.Context(), address, pulsarproducer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	p, err := c.NewProducer(t.Context(), "persistent://public/default/t", pulsarproducer.ProducerOptions{})
	if err != nil {
		t.Fatal(err)
	}
	connections := broker.Stats().Connections.Load()
	return func() error {
		if n := broker.Stats().Connections.Load(); n != connections {
			return fmt.Errorf("%d connections after %d", n, connections)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return p.Send(ctx, []byte("x"))
	}
}

// streams are an event stream and a request that is under way.
type streams struct {
	backend *httptest.Server
	tick    chan struct{} // has the stream say something
	end     chan struct{} // closed when the request may end

	lines    *bufio.Reader
	answered chan error
}

func newStreams(t *testing.T) *streams {
	t.Helper()
	s := &streams{tick: make(chan struct{}), end: make(chan struct{}), answered: make(chan error, 1)}
	s.backend = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/slow" {
			select {
			case <-s.end:
			case <-t.Context().Done():
			}
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_ = http.NewResponseController(w).Flush()
		for {
			select {
			case <-s.tick:
				fmt.Fprintln(w, "data: x")
				_ = http.NewResponseController(w).Flush()
			case <-r.Context().Done():
				return
			case <-t.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(s.backend.Close)
	return s
}

// through begins both.
func (s *streams) through(t *testing.T, gate net.Addr) open {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{}}
	t.Cleanup(client.CloseIdleConnections)
	get := func(path string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+gate.String()+path, nil)
		if err != nil {
			return nil, err
		}
		return client.Do(req)
	}
	res, err := get("/events")
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%v, %v", res, err)
	}
	t.Cleanup(func() { _ = res.Body.Close() })
	s.lines = bufio.NewReader(res.Body)
	go func() {
		res, err := get("/slow")
		if err == nil && res.StatusCode != http.StatusOK {
			err = fmt.Errorf("status %d", res.StatusCode)
		}
		if err == nil {
			_, err = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
		s.answered <- err
	}()
	return transaction(func() error {
		select {
		case err := <-s.answered:
			return fmt.Errorf("the request ended: %w", err)
		case s.tick <- struct{}{}:
		case <-time.After(10 * time.Second):
			return fmt.Errorf("the stream's backend hears nothing")
		}
		line, err := s.lines.ReadString('\n')
		if err == nil && line != "data: x\n" {
			err = fmt.Errorf("the stream says %q", line)
		}
		return err
	})
}

// ends lets the request end, which was under way all the time.
func (s *streams) ends(t *testing.T) {
	t.Helper()
	close(s.end)
	if err := <-s.answered; err != nil {
		t.Errorf("the request under way: %v", err)
	}
}
