package mongogate_test

import (
	"net"
	"testing"
	"testing/synctest"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/admitd/admitd/internal/ingress/mongogate"
	"github.com/admitd/admitd/limiter"
)

// unauthorized is what a server answers that wants a login first.
func unauthorized() bson.D { return bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: 13}} }

// tokens is a policy whose bucket holds n tokens and is not refilled.
func tokens(n float64) *limiter.Policy {
	return &limiter.Policy{Rate: limiter.Rate{PerSecond: 0.002, BurstSeconds: n / 0.002}}
}

// left returns the tokens that are there.
func (sc *scene) left() int {
	t := sc.gate.Status().Bucket.Tokens
	return int(t + 0.01)
}

// logIn plays a SCRAM conversation of two steps.
func logIn(t *testing.T, c, up net.Conn, id int32) {
	t.Helper()
	start := bson.D{{Key: "saslStart", Value: 1}, {Key: "mechanism", Value: "SCRAM-SHA-256"}, {Key: "payload", Value: []byte("n,,n=alice,r=x")}, {Key: "$db", Value: "admin"}}
	goOn := bson.D{{Key: "saslContinue", Value: 1}, {Key: "conversationId", Value: 1}, {Key: "payload", Value: []byte("c=biws")}, {Key: "$db", Value: "admin"}}
	says := func(done bool) bson.D {
		return bson.D{{Key: "conversationId", Value: 1}, {Key: "done", Value: done}, {Key: "ok", Value: 1.0}}
	}
	ask(t, c, up, id, start, says(false))
	ask(t, c, up, id+1, goOn, says(true))
}

// Operations before a login cost tokens, or none, as the configuration says; left
// alone the gate does as the backend does, and pays nothing for those who only
// pretend: a server that works for anybody has them pay, whatever it refused before.
func TestOperationsBeforeALogin(t *testing.T) {
	find, ping, serverStatus := cmd("find"), cmd("ping"), cmd("serverStatus")
	for name, tc := range map[string]struct {
		policy  mongogate.Unauthenticated
		request bson.D
		answers []bson.D
		left    int // of 10 tokens
		inForce string

		perToken int
	}{
		"gate":                           {mongogate.UnauthenticatedGate, find, []bson.D{unauthorized(), unauthorized(), unauthorized()}, 7, "gate", 0},
		"pass":                           {mongogate.UnauthenticatedPass, find, []bson.D{unauthorized(), unauthorized(), unauthorized()}, 10, "pass", 0},
		"pass, and the backend works":    {mongogate.UnauthenticatedPass, find, []bson.D{ok(), ok()}, 10, "pass", 10},
		"auto, until it is known":        {mongogate.UnauthenticatedAuto, find, []bson.D{unauthorized(), unauthorized(), unauthorized()}, 9, "pass", 0},
		"auto, any operation teaches":    {mongogate.UnauthenticatedAuto, serverStatus, []bson.D{unauthorized(), unauthorized()}, 9, "pass", 0},
		"auto, every server answers it":  {mongogate.UnauthenticatedAuto, ping, []bson.D{ok(), unauthorized(), ok(), ok()}, 8, "pass", 0},
		"auto, the backend asks nobody":  {mongogate.UnauthenticatedAuto, find, []bson.D{ok(), ok(), ok()}, 7, "gate", 0},
		"auto, it refuses and works":     {mongogate.UnauthenticatedAuto, find, []bson.D{unauthorized(), ok(), ok(), ok()}, 7, "gate", 0},
		"auto, it works and pretends to": {mongogate.UnauthenticatedAuto, find, []bson.D{ok(), unauthorized(), unauthorized()}, 7, "gate", 0},
		"auto, another error":            {mongogate.UnauthenticatedAuto, find, []bson.D{{{Key: "ok", Value: 0.0}, {Key: "code", Value: 2}}, ok()}, 8, "gate", 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := stage(t, tokens(10), mongogate.Options{Unauthenticated: tc.policy, ReplyBytesPerToken: tc.perToken})
				c, up := sc.met("hello")
				for i, answer := range tc.answers {
					ask(t, c, up, int32(2+i), tc.request, answer)
				}
				if got := sc.left(); got != tc.left {
					t.Errorf("%d tokens are left, want %d", got, tc.left)
				}
				if got := sc.s.Status().Unauthenticated; got != tc.inForce {
					t.Errorf("in force is %s, want %s", got, tc.inForce)
				}
			})
		})
	}
}

// Who has logged in pays, by whatever way, and who has logged out does not.
func TestLoginEndsThePass(t *testing.T) {
	x509 := bson.D{{Key: "authenticate", Value: 1}, {Key: "mechanism", Value: "MONGODB-X509"}, {Key: "$db", Value: "$external"}}
	early := cmd("hello", bson.E{Key: "speculativeAuthenticate", Value: bson.D{{Key: "authenticate", Value: 1}, {Key: "mechanism", Value: "MONGODB-X509"}}})
	inHello := bson.D{{Key: "maxWireVersion", Value: 21}, {Key: "speculativeAuthenticate", Value: bson.D{{Key: "user", Value: "CN=a"}}}, {Key: "ok", Value: 1.0}}
	one := func(request, answer bson.D) func(t *testing.T, c, up net.Conn) {
		return func(t *testing.T, c, up net.Conn) { t.Helper(); ask(t, c, up, 10, request, answer) }
	}
	for name, tc := range map[string]struct {
		does func(t *testing.T, c, up net.Conn)
		left int
	}{
		"nothing":              {func(*testing.T, net.Conn, net.Conn) {}, 10},
		"logs in":              {func(t *testing.T, c, up net.Conn) { t.Helper(); logIn(t, c, up, 10) }, 9},
		"without a name":       {one(x509, ok()), 9},
		"within hello":         {one(early, inHello), 9},
		"in vain":              {one(x509, bson.D{{Key: "ok", Value: 0.0}, {Key: "code", Value: 18}}), 10},
		"hello is no login":    {one(cmd("hello"), ok()), 10},
		"getnonce is no login": {one(cmd("getnonce"), append(bson.D{{Key: "nonce", Value: "x"}}, ok()...)), 10},
		"logs out": {func(t *testing.T, c, up net.Conn) {
			t.Helper()
			logIn(t, c, up, 10)
			ask(t, c, up, 20, cmd("logout"), ok())
		}, 10},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				sc := stage(t, tokens(10), mongogate.Options{Unauthenticated: mongogate.UnauthenticatedPass})
				c, up := sc.met("ping")
				tc.does(t, c, up)
				ask(t, c, up, 30, cmd("find"), ok())
				if got := sc.left(); got != tc.left {
					t.Errorf("%d tokens are left, want %d", got, tc.left)
				}
			})
		})
	}
}

// Who never logs in gets no token's worth for nothing without end: the work at the
// backend is bounded, and an empty bucket does not stop what costs nothing.
func TestStrangersNeedAPermit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := oneAtATime()
		p.Rate = tokens(1).Rate
		sc := stage(t, p, mongogate.Options{Unauthenticated: mongogate.UnauthenticatedPass})
		user, userUp := sc.met("ping")
		logIn(t, user, userUp, 2)
		ask(t, user, userUp, 4, cmd("find"), ok()) // the only token
		say(user, msg(5, 0, cmd("find")))
		if d := expectRefusal(t, user, 5); d.Lookup("reason").StringValue() != "request_rate" {
			t.Errorf("reason %v, want request_rate", d.Lookup("reason"))
		}
		first, _ := sc.enter()
		say(first, msg(1, 0, cmd("find")))
		up := sc.backend()
		readFrame(t, up)
		second, _ := sc.enter()
		say(second, msg(1, 0, cmd("find")))
		if d := expectRefusal(t, second, 1); d.Lookup("reason").StringValue() != "concurrency_limit" {
			t.Errorf("reason %v, want concurrency_limit", d.Lookup("reason"))
		}
		say(up, reply(1, unauthorized()))
		readFrame(t, first)
	})
}

// Who had logged out was counted as the user that it had been.
func TestLoggedOutIsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sc := stage(t, &limiter.Policy{}, mongogate.Options{PartitionBy: []string{"user"}})
		c, up := sc.met("ping")
		logIn(t, c, up, 2)
		ask(t, c, up, 4, cmd("find"), ok())
		ask(t, c, up, 5, cmd("logout"), ok())
		ask(t, c, up, 6, cmd("find"), ok())
		got := map[string]uint64{}
		for _, p := range sc.gate.Status().Partitions {
			got[p.Name] = p.Counts.Admitted
		}
		if got["alice@admin"] != 1 || got["default"] != 2 {
			t.Errorf("admitted %v; want 1 of alice@admin and 2 of nobody", got)
		}
	})
}
