package selection_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/client/selection"
	"github.com/admitd/admitd/labels"
)

func TestErrorsExplainThemselves(t *testing.T) {
	refused, reset := errors.New("connection refused"), errors.New("connection reset")
	bound := 2 * time.Minute
	for name, tc := range map[string]struct {
		shape func(v *selection.View)
		op    selection.Operation
		want  string
		is    error
	}{
		"nothing was reached": {
			shape: func(*selection.View) {},
			want:  `selection: no server for operation after 0s: no server was reached yet, wanted for reads with preference primary; topology Unknown [a:1 Unknown; b:1 Unknown]`,
		},
		"all failed alike": {
			shape: func(v *selection.View) { v.MarkUnknown("a:1", refused); v.MarkUnknown("b:1", refused) },
			op:    selection.Operation{Name: "insert", Write: true},
			want:  `selection: no server for insert after 0s: connection refused; topology Unknown [a:1 Unknown error "connection refused"; b:1 Unknown error "connection refused"]`,
			is:    refused,
		},
		"each failed in its way": {
			shape: func(v *selection.View) { v.MarkUnknown("a:1", refused); v.MarkUnknown("b:1", reset) },
			op:    selection.Operation{Name: "find"},
			want:  `selection: no server for find after 0s: a:1: connection refused, b:1: connection reset; topology Unknown [a:1 Unknown error "connection refused"; b:1 Unknown error "connection reset"]`,
			is:    reset,
		},
		"servers answer but do not suit": {
			shape: func(v *selection.View) {
				h := member(labels.RoleSecondary, "a:1")
				h.Tags = map[string]string{"rack": "2", "dc": "ny"}
				h.Load = &labels.Load{InFlight: 3, Limit: 20, Headroom: 17}
				v.Answered("a:1", h, 1234567*time.Nanosecond, time.UnixMilli(0))
			},
			op: selection.Operation{Name: "find", Deprioritized: []string{"b:1"}, Preference: selection.ReadPreference{
				Mode: selection.Secondary, TagSets: []selection.TagSet{{"dc": "tokyo", "rack": "1"}, {"dc": "paris"}}, MaxStaleness: &bound,
			}},
			want: `selection: no server for find after 0s: no servers are suitable for reads with preference secondary, ` +
				`tag sets [{dc: tokyo, rack: 1}, {dc: paris}], max staleness 2m0s, avoiding b:1; ` +
				`topology ReplicaSetNoPrimary set rs [a:1 RSSecondary rtt 1.23ms tags {dc: ny, rack: 2} load 3/20; b:1 Unknown]`,
		},
		"the preference is wrong": {
			shape: func(*selection.View) {},
			op:    selection.Operation{Preference: selection.ReadPreference{MaxStaleness: &bound}},
			want:  `selection: no server for operation after 0s: selection: invalid read preference: mode primary takes no max staleness, got 2m0s; topology Unknown [a:1 Unknown; b:1 Unknown]`,
			is:    selection.ErrPreference,
		},
	} {
		t.Run(name, func(t *testing.T) {
			view := selection.NewView(seeds(t, selection.SeedOptions{}, "a:1", "b:1"))
			tc.shape(view)
			synctest.Test(t, func(t *testing.T) {
				_, err := selection.New(view, selection.Options{Timeout: -1}).Select(t.Context(), tc.op)
				if diff := cmp.Diff(tc.want, fmt.Sprint(err)); diff != "" {
					t.Errorf("(-want +got):\n%s", diff)
				}
				var e *selection.Error
				if !errors.As(err, &e) || !errors.Is(err, selection.ErrNoServer) || tc.is != nil && !errors.Is(err, tc.is) {
					t.Errorf("%#v matches too little", err)
				}
			})
		})
	}
}

// Dozens of dead servers make a readable message.
func TestErrorsAreBounded(t *testing.T) {
	top := routers(30)
	for i, s := range top.Servers {
		s.Type, s.Err = selection.Unknown, fmt.Errorf("cause %d", i)
	}
	_, err := selection.New(selection.NewView(top), selection.Options{Timeout: -1}).Select(t.Context(), selection.Operation{})
	var e *selection.Error
	if !errors.As(err, &e) || !strings.HasSuffix(e.Reason(), "gate7:8462: cause 7, and 22 more") {
		t.Errorf("Reason = %q, want the first eight and the number of the rest", e.Reason())
	}
}

// The four messages of the specification: when, at which level, with what.
func TestLogMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{
			Level: slog.LevelDebug,
			ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
				if a.Key == slog.TimeKey {
					return slog.Attr{}
				}
				return a
			},
		}))
		view := selection.NewView(seeds(t, selection.SeedOptions{}, "gate:8462"))
		sel := selection.New(view, selection.Options{Timeout: 3 * time.Second, Log: log, Filter: func(all []*selection.Server) []*selection.Server { return all }})
		op := selection.Operation{Name: "find", ID: 7, Preference: selection.ReadPreference{Mode: selection.Nearest, TagSets: []selection.TagSet{{"dc": "ny"}}}}
		for range 2 { // changes that do not help are not told again
			time.AfterFunc(time.Second, func() { view.MarkUnknown("gate:8462", errors.New("refused")) })
		}
		_, _ = sel.Select(t.Context(), op)
		view.Answered("gate:8462", hello(labels.RoleRouter), time.Millisecond, time.Now())
		_, _ = sel.Select(t.Context(), selection.Operation{Write: true})

		criteria := "reads with preference nearest, tag sets [{dc: ny}], custom selector"
		common := func(level, msg, selector, topology string, more map[string]any) map[string]any {
			all := map[string]any{
				"level": level, "msg": msg, "component": "serverSelection", "selector": selector,
				"operation": "find", "operation_id": 7.0, "topology_description": topology,
			}
			maps.Copy(all, more)
			if selector != criteria { // the second operation has neither name nor id
				all["operation"] = ""
				delete(all, "operation_id")
			}
			return all
		}
		up := "Sharded [gate:8462 Mongos rtt 1ms]"
		want := []map[string]any{
			common("DEBUG", "Server selection started", criteria, "Unknown [gate:8462 Unknown]", nil),
			common("INFO", "Waiting for suitable server to become available", criteria, "Unknown [gate:8462 Unknown]", map[string]any{"remaining_time_ms": 3000.0}),
			common("DEBUG", "Server selection failed", criteria, `Unknown [gate:8462 Unknown error "refused"]`, map[string]any{"failure": "refused"}),
			common("DEBUG", "Server selection started", "writes, custom selector", up, nil),
			common("DEBUG", "Server selection succeeded", "writes, custom selector", up, map[string]any{"server_host": "gate", "server_port": 8462.0}),
		}
		var got []map[string]any
		for line := range strings.Lines(out.String()) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatal(err)
			}
			got = append(got, fields)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
	})
}
