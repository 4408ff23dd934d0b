package sqltext_test

import (
	"bytes"
	"testing"

	"github.com/admitd/admitd/ingress/postgresgate/sqltext"
)

// parse returns the name of what a text does, and how many statements it has.
func parse(text []byte) (op string, n int) {
	s := sqltext.Parse(text)
	return s.Op.String(), s.N
}

// What decides is what a text does at its dearest, and nothing that is only
// quoted, commented or part of a name.
func TestParseStatement(t *testing.T) {
	for text, want := range map[string]struct {
		op string
		n  int
	}{
		"":                                  {"other", 0},
		" ; -- nothing\n":                   {"other", 0},
		"select 1":                          {"select", 1},
		"/* a; /* nested */ b */ SeLeCt 1;": {"select", 1},
		"begin":                             {"begin", 1},
		"BEGIN; insert into t values (1); COMMIT":                 {"insert", 3},
		"set a = 'x;y'; show a":                                   {"control", 2},
		"set a to 1; delete from t":                               {"delete", 2},
		"select ';' , \";\" , $q$;$q$, E'\\';'; update t set a=1": {"select", 2},
		"set foo$a$ to 1; select heavy(); --$a$":                  {"select", 2},
		"prepare transaction 'x'":                                 {"control", 1},
		"prepare p as select 1":                                   {"other", 1},
		"(select 1)":                                              {"select", 1},
		"with x as (delete from t returning *) select * from x":   {"select", 1},
		"explain analyze select 1":                                {"other", 1},
		"truncate t":                                              {"ddl", 1},
		"copy t from stdin":                                       {"copy", 1},
		"rollback":                                                {"control", 1},
		// How asyncpg and Npgsql reset a connection that comes back to their pools.
		// It was refused, and the pool threw the connection away.
		"SELECT pg_advisory_unlock_all();\nCLOSE ALL;\nUNLISTEN *;\nRESET ALL;": {"control", 4},
		"select pg_advisory_unlock_all ( )":                                     {"control", 1},
		"select pg_advisory_unlock_all(), heavy()":                              {"select", 1},
		"select pg_advisory_unlock_all() from heavy":                            {"select", 1},
		"select pg_advisory_unlock_all(); select heavy()":                       {"select", 2},
		"select heavy(pg_advisory_unlock_all())":                                {"select", 1},
		"$1":                                                                    {"other", 1},
		"select 'unfinished":                                                    {"select", 1},
		"/* unfinished":                                                         {"other", 0},
		"$tag$unfinished":                                                       {"other", 1},
	} {
		if op, n := parse([]byte(text)); op != want.op || n != want.n {
			t.Errorf("Parse(%q) = %v, %d statements; want %v, %d", text, op, n, want.op, want.n)
		}
	}
}

// What is never refused must not hide work, whatever stands around it.
func TestNothingHidesWork(t *testing.T) {
	for _, text := range []string{
		"set a = 1 --\r; delete from t",
		"set time zone'\\'; delete from t; --'",
		"set a = 'x\\'; delete from t; --'",
		"set a to U&'\\'; delete from t; --'",
		"commit/*/**/*/;delete from t",
		"show a;;;;delete from t",
		"set a to $x$ $ $x$; delete from t",
		"set a$x$ to b; delete from t --$x$",
		"set \"a;\"\"\" to b; delete from t",
	} {
		if op, _ := parse([]byte(text)); op != "delete" {
			t.Errorf("Parse(%q) = %s; want delete", text, op)
		}
	}
	for text, want := range map[string]string{"set a to b": "other", "/* ": "other", "begin": "other", "select": "select", "commit\x00": "control"} {
		if got := sqltext.ParseShown([]byte(text)); got.Op.String() != want || got.N == 0 {
			t.Errorf("ParseShown(%q) = %s, %d; want %s", text, got.Op, got.N, want)
		}
	}
}

// A text that is never refused stays what it is when work follows it, and work
// is seen.
func FuzzStatement(f *testing.F) {
	for _, s := range []string{"set a to 'x'", "commit", "show a -- x", "/* a */ reset all", "set a = E'\\''", "set a = $x$;$x$", "begin"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		op, n := parse(b)
		if n < 0 || n > len(b) {
			t.Fatalf("Parse(%q) = %d statements", b, n)
		}
		if op != "control" && op != "begin" || bytes.IndexByte(b, 0) >= 0 {
			return
		}
		// However it ends, one of these closes what is open in it.
		seen := false
		for _, end := range []string{";", "\n;", "';", "\";", "*/;", "\n*/;", "\\';"} {
			op, _ := parse(append(append([]byte(nil), b...), end+"delete from t"...))
			seen = seen || op == "delete"
		}
		if dollars := bytes.Count(b, []byte("$")); !seen && dollars < 2 && bytes.Count(b, []byte("/*")) < 2 {
			t.Fatalf("work behind %q is never seen", b)
		}
	})
}
