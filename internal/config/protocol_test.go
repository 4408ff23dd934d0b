package config_test

import (
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/config"
)

// A protocol that exists nowhere else is one value: nothing else in the room has
// to know it. Each new gate once edited a dozen switches here.
func TestProtocolIsAValue(t *testing.T) {
	undo := config.Register(&config.Protocol{
		Name: "smtp", Schemes: []string{"smtp"}, HostPort: true, Parts: 2, Costs: true, Exempts: true,
		By: []config.PartKind{{Name: "sender"}, {Name: "domain", Argument: func(arg string, _ bool) string {
			if arg != "from" && arg != "to" {
				return "takes from or to"
			}
			return ""
		}}},
		Operation: func(op string) string {
			if op != strings.ToUpper(op) {
				return "is not a verb"
			}
			return ""
		},
		Classes: []string{"bulk"},
	})
	const good = `{"ingresses": [{"name": "mail", "protocol": "smtp", "listen": "127.0.0.1:2525", "backend": "smtp://127.0.0.1:25",
		"partitions": {"by": ["sender", "domain:to"]}, "cost": {"byOperation": {"bulk": 9, "DATA": 5}}, "requests": {"exempt": {"operations": "NOOP"}}}]}`
	if _, err := config.Parse("test", []byte(good), nil); err != nil {
		t.Errorf("a good configuration is refused: %v", err)
	}
	for change, want := range map[string]string{
		`"domain:to"|"domain:cc"`:                           "takes from or to",
		`"sender"|"header:X-A"`:                             "must begin with sender or domain for protocol smtp",
		`"DATA"|"data"`:                                     "is not a verb (data)",
		`"NOOP"|"bulk"`:                                     "is not a verb (bulk)",
		`smtp://127.0.0.1:25|http://127.0.0.1:25`:           "must be a URL, such as smtp://127.0.0.1:9000",
		`"cost": {|"maxBodyBytes": "1KiB", "cost": {`:       "does not belong to protocol smtp",
		`"cost": {|"rejection": {"status": 429}, "cost": {`: "belongs to protocol http only",
		`"domain:to"]|"domain:to", "domain:from"]`:          "lists more than 2 for protocol smtp",
	} {
		from, to, _ := strings.Cut(change, "|")
		_, err := config.Parse("test", []byte(strings.Replace(good, from, to, 1)), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v; want %q", change, err, want)
		}
	}
	undo()
	if _, err := config.Parse("test", []byte(good), nil); err == nil || !strings.Contains(err.Error(), "must be http, mongodb, postgres or pulsar") {
		t.Errorf("after undo: %v; want the protocols that there are", err)
	}
}
