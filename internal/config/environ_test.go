package config_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/internal/config"
)

const minimal = `ingresses:
  - name: orders
    listen: 127.0.0.1:8462
    backend: http://127.0.0.1:9000
    partitions: { by: [client], named: [{ name: a, rate: 5 }] }
`

func mustParse(t *testing.T, content string, env ...string) *config.Config {
	t.Helper()
	c, err := config.Parse("admitd.yaml", []byte(content), env)
	if err != nil {
		t.Fatalf("Parse with %q:\n%v", env, err)
	}
	return c
}

// A variable reaches every kind of key: nested, in a list, of every type, and
// one the file does not write.
func TestEnvironmentOverrides(t *testing.T) {
	c := mustParse(t, minimal,
		"PATH=/bin", "ADMITD_PORT=tcp://10.0.0.1:1", "ADMITD_VECTORS=../vectors",
		"ADMITD_STATE_FILE=/state", "ADMITD_TUNER_PORT=1",
		"ADMITD_ADMIN__LISTEN=127.0.0.1:1",
		"ADMITD_ADMIN__TOKEN_FILE=/token",
		"ADMITD_TRACING__HEADERS__Authorization=Bearer x",
		"ADMITD_INGRESSES__0__LISTEN=127.0.0.1:2",
		"ADMITD_INGRESSES__0__PROXYPROTOCOL=true",
		"ADMITD_INGRESSES__0__DRAINTIMEOUT=3s",
		"ADMITD_INGRESSES__0__MAX_BODY_BYTES=2MiB",
		"ADMITD_INGRESSES__0__REQUESTS__RATE=1e3",
		"ADMITD_INGRESSES__0__REQUESTS__QUEUEDEPTH=7",
		"ADMITD_INGRESSES__0__REJECTION__STATUS=462",
		"ADMITD_INGRESSES__0__PARTITIONS__BY=header:X-Tenant, client",
		"ADMITD_INGRESSES__0__PARTITIONS__NAMED__0__RATE=9",
		"ADMITD_INGRESSES__0__PARTITIONS__NAMED__1__NAME=b",
		"ADMITD_INGRESSES__0__CONNECTIONS__EXEMPT__0=10.0.0.0/8",
		"ADMITD_INGRESSES__1__NAME=second",
	)
	in := c.Ingresses[0]
	got := map[string]any{
		"state": c.StateFile, "admin": c.Admin, "header": c.Tracing.Headers["Authorization"].Reveal(), "listen": in.Listen,
		"proxy": in.ProxyProtocol, "drain": time.Duration(in.DrainTimeout), "body": int64(in.MaxBodyBytes),
		"rate": in.Requests.Rate, "queue": in.Requests.QueueDepth, "status": int(in.Rejection.Status),
		"by": in.Partitions.By, "a": in.Partitions.Named[0].Rate, "b": in.Partitions.Named[1].Match,
		"exempt": in.Connections.Exempt[0].String(), "second": c.Ingresses[1].Name,
	}
	want := map[string]any{
		"state": "/state",
		"admin": config.Admin{Listen: "127.0.0.1:1", TokenFile: "/token", Reads: "open"}, "header": "Bearer x", "listen": "127.0.0.1:2",
		"proxy": true, "drain": 3 * time.Second, "body": int64(2 << 20),
		"rate": 1000.0, "queue": 7, "status": 462,
		"by": []string{"header:X-Tenant", "client"}, "a": 9.0, "b": "b",
		"exempt": "10.0.0.0/8", "second": "second",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("overridden (-want +got):\n%s", diff)
	}
}

// What is wrong with a variable is said with its name, wherever it is found
// out.
func TestEnvironmentProblems(t *testing.T) {
	cases := map[string]struct {
		env  []string
		want string
	}{
		"unknown key": {
			[]string{"ADMITD_ADMIN__LISTN=x"},
			`$ADMITD_ADMIN__LISTN: admin.listn: unknown key, did you mean "listen"?`,
		},
		"unknown block":   {[]string{"ADMITD_OTHER__A=x"}, `$ADMITD_OTHER__A: other: unknown key`},
		"below a word":    {[]string{"ADMITD_LOG__LEVEL__X=x"}, `$ADMITD_LOG__LEVEL__X: log.level: has no keys below it (X)`},
		"whole block":     {[]string{"ADMITD_INGRESSES__0__TLS=x"}, `$ADMITD_INGRESSES__0__TLS: ingresses[0].tls: sets no single value; add __ and a key`},
		"no index":        {[]string{"ADMITD_INGRESSES__ORDERS__LISTEN=x"}, `$ADMITD_INGRESSES__ORDERS__LISTEN: ingresses: is a list and needs an index from 0 (ORDERS)`},
		"beyond the list": {[]string{"ADMITD_INGRESSES__2__NAME=x"}, `$ADMITD_INGRESSES__2__NAME: ingresses[2].name: is beyond the list, which has 1 elements`},
		"wrong type":      {[]string{"ADMITD_INGRESSES__0__REQUESTS__RATE=fast"}, `$ADMITD_INGRESSES__0__REQUESTS__RATE: ingresses[0].requests.rate: must be a number or unlimited (fast)`},
		"out of range":    {[]string{"ADMITD_TRACING__SAMPLERATIO=2"}, `$ADMITD_TRACING__SAMPLERATIO: tracing.sampleRatio: must be at most 1 (2)`},
		"relation":        {[]string{"ADMITD_ADMIN__LISTEN=0.0.0.0:1"}, `$ADMITD_ADMIN__LISTEN: admin.listen: is not a loopback address: set admin.tokenFile, or admin.insecure: true (0.0.0.0:1)`},
		"word of a list":  {[]string{"ADMITD_INGRESSES__0__PARTITIONS__BY=clint"}, `$ADMITD_INGRESSES__0__PARTITIONS__BY: ingresses[0].partitions.by: must begin with header, query, path, client or constant for protocol http, did you mean "client"? (clint)`},
		"other protocol":  {[]string{"ADMITD_INGRESSES__0__MONGODB__TESTCOMMANDS=true"}, `admitd.yaml:2: ingresses[0].mongodb: does not belong to protocol http, only to mongodb`},
		"one in another": {
			[]string{"ADMITD_INGRESSES__0__PARTITIONS__BY=client", "ADMITD_INGRESSES__0__PARTITIONS__BY__0=path"},
			`$ADMITD_INGRESSES__0__PARTITIONS__BY__0: ingresses[0].partitions.by[0]: is set by $ADMITD_INGRESSES__0__PARTITIONS__BY already`,
		},
		"secret": {[]string{"ADMITD_TRACING__HEADERS__A=geheim", "ADMITD_TRACING__ENDPOINT=http://u:geheim@"}, `$ADMITD_TRACING__ENDPOINT: tracing.endpoint: must be a URL, such as http://127.0.0.1:4318 (REDACTED)`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse("admitd.yaml", []byte(minimal), tc.env)
			if err == nil || err.Error() != tc.want {
				t.Errorf("Parse = %v;\nwant %s", err, tc.want)
			}
		})
	}
}

// Whatever order the process hands its variables over in, the result is one.
func TestEnvironmentOrder(t *testing.T) {
	a := []string{"ADMITD_INGRESSES__1__NAME=b", "ADMITD_INGRESSES__2__NAME=c", "ADMITD_LOG__LEVEL=warn"}
	b := []string{a[2], a[1], a[0]}
	if diff := cmp.Diff(mustParse(t, minimal, a...), mustParse(t, minimal, b...), cmp.Comparer(samePrefix)); diff != "" {
		t.Errorf("order matters:\n%s", diff)
	}
}

func samePrefix(a, b config.Prefix) bool { return a.Prefix == b.Prefix }

// Nothing that is rendered holds a secret.
func TestEffectiveRedacts(t *testing.T) {
	c := mustParse(t, `tracing:
  endpoint: http://user:geheim@collector:4318
  headers: { Authorization: Bearer geheim }
`+minimal)
	b, err := c.Effective()
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(b), "geheim") || strings.Count(string(b), "REDACTED") != 2 {
		t.Errorf("effective configuration:\n%s", b)
	}
	if got := c.Tracing.Headers["Authorization"].Reveal(); got != "Bearer geheim" {
		t.Errorf("Reveal = %q; want the secret itself", got)
	}
}
