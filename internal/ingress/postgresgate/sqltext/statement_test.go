package sqltext_test

import (
	"bytes"
	"testing"

	"github.com/admitd/admitd/internal/ingress/postgresgate/sqltext"
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

// A transaction that ends in a text may be followed by another, and what a session
// does with advisory locks is seen where it does nothing else.
func TestParseEndsAndLocks(t *testing.T) {
	for text, want := range map[string]sqltext.Statement{
		"commit":                              {Ends: true},
		"commit and chain":                    {Ends: true},
		"COMMIT; BEGIN":                       {Ends: true},
		"rollback work and chain":             {Ends: true},
		"end":                                 {Ends: true},
		"abort and chain":                     {Ends: true},
		"prepare transaction 'x'":             {Ends: true},
		"prepare x as select 1":               {},
		"rollback to a":                       {},
		"rollback transaction to savepoint a": {},
		"begin; select 'commit'":              {},
		"select pg_advisory_lock(1)":          {Lock: sqltext.LockTake},
		"SELECT pg_catalog.PG_ADVISORY_LOCK_SHARED(1, 2)": {Lock: sqltext.LockTake},
		"select pg_try_advisory_lock($1)":                 {Lock: sqltext.LockTry},
		"select pg_try_advisory_xact_lock($1)":            {},
		"select pg_advisory_unlock(1)":                    {Lock: sqltext.LockFree},
		"select pg_advisory_unlock_all()":                 {Lock: sqltext.LockFreeAll},
		"discard all":                                     {Lock: sqltext.LockFreeAll},
		"select a, pg_advisory_lock(1)":                   {},
		"select pg_advisory_lock":                         {},
	} {
		if got := sqltext.Parse([]byte(text)); got.Ends != want.Ends || got.Lock != want.Lock {
			t.Errorf("Parse(%q): ends %v, lock %d; want %v, %d", text, got.Ends, got.Lock, want.Ends, want.Lock)
		}
	}
}

// What drivers ask by themselves when a session begins, and what only looks like it.
func TestCatalogue(t *testing.T) {
	for text, want := range map[string]bool{
		"select version();":                                 true,
		"select pg_catalog.version()":                       true,
		"SELECT current_schema() as s":                      true,
		"select current_setting('server_version_num')::int": true,
		// postgres.js
		"\n    select b.oid, b.typarray\n    from pg_catalog.pg_type a\n    left join pg_catalog.pg_type b on b.oid = a.typelem\n    where a.typcategory = 'A'\n    group by b.oid, b.typarray\n    order by b.oid\n  ": true,
		// Rails
		"SELECT t.oid, t.typname, t.typelem FROM pg_type as t LEFT JOIN pg_range as r ON oid = rngtypid WHERE t.typname IN ('int2')": true,
		// asyncpg
		"WITH RECURSIVE typeinfo_tree(oid, ns) AS (SELECT oid, 1 FROM (SELECT t.oid FROM pg_catalog.pg_type AS t) AS ti UNION ALL SELECT 1, 2 FROM typeinfo_tree) SELECT * FROM typeinfo_tree": true,
		"select table_name from information_schema.tables":             true,
		"select * from users":                                          false,
		"select * from pg_class join users on true":                    false,
		"select * from public.pg_class":                                false,
		"select * from \"pg_class\"":                                   false,
		"select * from (select * from users) x":                        false,
		"select heavy()":                                               false,
		"select 1":                                                     false,
		"select version(); delete from t":                              false,
		"select version(); select version()":                           false,
		"select version() into t":                                      false,
		"select pg_sleep(10)":                                          false,
		"select pg_sleep(10) from pg_class":                            false,
		"select * from pg_class, generate_series(1, 9)":                false,
		"select * from pg_sleep(10)":                                   false,
		"with x as (delete from t returning 1) select * from pg_class": false,
		"update pg_class set relname = 'x'":                            false,
		"":                                                             false,
		"select":                                                       false,
		"with":                                                         false,
		"select * from":                                                false,
	} {
		if got := sqltext.Catalogue([]byte(text)); got != want {
			t.Errorf("Catalogue(%q) = %v; want %v", text, got, want)
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
		sqltext.Catalogue(b)
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
