package mongogate_test

import (
	"net"
	"net/netip"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// answering plays a backend that answers every command of one connection.
func answering(t *testing.T, b *script, answer func(name string) bson.D) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		c, ok := <-b.conns
		if !ok {
			return
		}
		defer c.Close()
		buf := make([]byte, 64<<10)
		for {
			n, err := c.Read(buf)
			if err != nil {
				return
			}
			f, err := mongogate.Identify(buf[:n], n)
			if err != nil {
				return
			}
			if _, err := c.Write(reply(int32(buf[4]), answer(f.Command))); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(b.conns)
		<-done
	})
}

// passes sends a command and reports whether the gate let it through.
func passes(t *testing.T, c net.Conn, id int32, d bson.D) bool {
	t.Helper()
	write(t, c, msg(id, 0, d))
	code, err := bson.Raw(readFrame(t, c)[21:]).LookupErr("code")
	return err != nil || code.AsInt64() != 462
}

// starved admits everything but the partition of the key, which has one token.
func starved(key string) *limiter.Policy {
	return &limiter.Policy{Named: []limiter.PartitionPolicy{{Name: "starved", Match: key, Rate: limiter.Rate{PerSecond: 1e-6}}}}
}

// Every part of a key finds its partition: the first command takes the
// partition's only token, the second is refused, one of another key passes.
func TestPartitionBy(t *testing.T) {
	hello := bson.D{
		{Key: "hello", Value: 1}, {Key: "backpressure", Value: true}, {Key: "client", Value: bson.D{
			{Key: "application", Value: bson.D{{Key: "name", Value: "shop"}}}, {Key: "driver", Value: bson.D{{Key: "name", Value: "gopher"}}},
		}}, {Key: "$db", Value: "admin"},
	}
	login := bson.D{
		{Key: "saslStart", Value: 1},
		{Key: "mechanism", Value: "PLAIN"},
		{Key: "payload", Value: bson.Binary{Data: []byte("\x00bob\x00pw")}},
		{Key: "$db", Value: "admin"},
	}
	hit := cmd("find", bson.E{Key: "comment", Value: "c"}, bson.E{Key: "$readPreference", Value: bson.D{{Key: "mode", Value: "nearest"}}})
	miss := bson.D{{Key: "count", Value: "other"}, {Key: "$db", Value: "elsewhere"}}
	cases := map[string]struct {
		by       []string
		key      string
		connWide bool // the key belongs to the connection: nothing misses it
	}{
		"database":        {[]string{"database"}, "shop", false},
		"collection":      {[]string{"collection"}, "shop.orders", false},
		"command":         {[]string{"command"}, "find", false},
		"read preference": {[]string{"readPreference"}, "nearest", false},
		"comment":         {[]string{"comment"}, "c", false},
		"application":     {[]string{"application"}, "shop", true},
		"driver":          {[]string{"driver"}, "gopher", true},
		"user":            {[]string{"user"}, "bob@admin", true},
		"client":          {[]string{"client"}, "127.0.0.1", true},
		"network":         {[]string{"client:24"}, "127.0.0.0/24", true},
		"combination":     {[]string{"application", "database", "command"}, "shop/shop/find", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := startScript(t)
			_, addr, _ := serve(t, starved(tc.key), mongogate.Options{Backends: []string{b.l.Addr().String()}, PartitionBy: tc.by})
			answering(t, b, func(name string) bson.D {
				if name == "saslStart" {
					return bson.D{{Key: "conversationId", Value: 1}, {Key: "done", Value: true}, {Key: "ok", Value: 1.0}}
				}
				return ok()
			})
			c := dial(t, addr)
			if !passes(t, c, 1, hello) || !passes(t, c, 2, login) {
				t.Fatal("the handshake was refused")
			}
			if !passes(t, c, 3, hit) {
				t.Fatal("the first command was refused")
			}
			if passes(t, c, 4, hit) {
				t.Error("the second command found a token: it went to another partition")
			}
			if passes(t, c, 5, miss) == tc.connWide {
				t.Errorf("a command of another key: passed %v, want %v", tc.connWide, !tc.connWide)
			}
		})
	}
}

// Whoever fails to authenticate is not taken for the user it claims to be.
func TestUserIsProven(t *testing.T) {
	b := startScript(t)
	_, addr, _ := serve(t, starved("bob@admin"), mongogate.Options{Backends: []string{b.l.Addr().String()}, PartitionBy: []string{"user"}})
	answering(t, b, func(name string) bson.D {
		if name == "saslStart" {
			return bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: 18}}
		}
		return ok()
	})
	c := dial(t, addr)
	passes(t, c, 1, bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: "PLAIN"}, {Key: "payload", Value: bson.Binary{Data: []byte("\x00bob\x00no")}}, {Key: "$db", Value: "admin"}})
	for id := range int32(3) {
		if !passes(t, c, 2+id, cmd("find")) {
			t.Fatal("an impostor spends bob's tokens")
		}
	}
}

// Exempt networks, applications and commands are never refused, and costs and
// the reconciliation spend what they say.
func TestExemptAndCost(t *testing.T) {
	hello := bson.D{{Key: "hello", Value: 1}, {Key: "client", Value: bson.D{{Key: "application", Value: bson.D{{Key: "name", Value: "backup-3"}}}}}, {Key: "$db", Value: "admin"}}
	tokens := func(n float64) *limiter.Policy {
		return &limiter.Policy{Rate: limiter.Rate{PerSecond: n / 1000, BurstSeconds: 1000}}
	}
	cases := map[string]struct {
		policy *limiter.Policy
		o      mongogate.Options
		want   []bool
	}{
		"nothing":     {tokens(1), mongogate.Options{}, []bool{true, false, false}},
		"network":     {tokens(1), mongogate.Options{Exempt: mongogate.Exemptions{Clients: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}, []bool{true, true, true}},
		"application": {tokens(1), mongogate.Options{Exempt: mongogate.Exemptions{Applications: []string{"backup"}}}, []bool{true, true, true}},
		"command":     {tokens(1), mongogate.Options{Exempt: mongogate.Exemptions{Commands: []string{"find"}}}, []bool{true, true, true}},
		"class cost":  {tokens(4), mongogate.Options{Costs: map[string]float64{"read": 2}}, []bool{true, true, false}},
		"own cost":    {tokens(4), mongogate.Options{Costs: map[string]float64{"read": 1, "find": 4}}, []bool{true, false, false}},
		"reconciled":  {tokens(4), mongogate.Options{ReplyBytesPerToken: 40}, []bool{true, true, false}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := startScript(t)
			tc.o.Backends = []string{b.l.Addr().String()}
			_, addr, _ := serve(t, tc.policy, tc.o)
			answering(t, b, func(string) bson.D { return ok() })
			c := dial(t, addr)
			passes(t, c, 1, hello)
			for i, want := range tc.want {
				if got := passes(t, c, int32(2+i), cmd("find")); got != want {
					t.Errorf("command %d: passed %v, want %v", i, got, want)
				}
			}
		})
	}
}

// Options that cannot work are refused with every reason.
func TestOptions(t *testing.T) {
	g := limiter.New("test", &limiter.Policy{}, limiter.Options{})
	for name, o := range map[string]mongogate.Options{
		"no backend":     {},
		"two backends":   {Backends: []string{"a:1", "b:1"}},
		"no members":     {Backends: []string{"a:1"}, Topology: mongogate.Topology{Mode: mongogate.TopologyMembers}},
		"unknown part":   {Backends: []string{"a:1"}, PartitionBy: []string{"colour"}},
		"network of 129": {Backends: []string{"a:1"}, PartitionBy: []string{"client:129"}},
		"tiny messages":  {Backends: []string{"a:1"}, MaxMessageBytes: 100},
		"negative costs": {Backends: []string{"a:1"}, Costs: map[string]float64{"find": -1}},
	} {
		if _, err := mongogate.New(g, o); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
