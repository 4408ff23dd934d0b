package postgresgate_test

import (
	"testing"

	"github.com/admitd/admitd/ingress/postgresgate"
)

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
		if op, n := postgresgate.ParseStatement([]byte(text)); op != want.op || n != want.n {
			t.Errorf("parseStatement(%q) = %v, %d statements; want %v, %d", text, op, n, want.op, want.n)
		}
	}
}
