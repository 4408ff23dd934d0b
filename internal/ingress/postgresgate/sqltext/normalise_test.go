package sqltext_test

import (
	"testing"

	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
)

// Literals, parameters, comments and white space make no other shape of a
// statement; names do.
func TestNormalise(t *testing.T) {
	for text, want := range map[string]string{
		"SELECT * FROM  t\n WHERE a = 17":                 "select * from t where a = ?",
		"select * from t where a=$1 and b='it''s'":        "select * from t where a=? and b=?",
		"select 1 /* class='x' */ -- all\n;":              "select ?",
		"select * from t where a in (1, 2,3 , 'x')":       "select * from t where a in (?)",
		`select "A b" from T2 where x = E'\'' or y=$$z$$`: `select "A b" from t2 where x = ? or y=?`,
		"select 1.5e3, -2":                                "select ?, -?",
		"insert into t values ('unfinished":               "insert into t values (?",
		"":                                                "",
	} {
		if got := string(sqltext.Normalise(nil, []byte(text))); got != want {
			t.Errorf("Normalise(%q) = %q; want %q", text, got, want)
		}
	}
}
