package selection_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/admitd/admitd/client/selection"
)

// vectorCase is one file of the MongoDB driver specifications, in any of the
// four forms; its keys say which.
type vectorCase struct {
	Heartbeat     number           `json:"heartbeatFrequencyMS"`
	Topology      *vectorTopology  `json:"topology_description"`
	Operation     string           `json:"operation"`
	Preference    vectorPreference `json:"read_preference"`
	Deprioritized []vectorServer   `json:"deprioritized_servers"`
	Suitable      *[]vectorServer  `json:"suitable_servers"`
	InWindow      *[]vectorServer  `json:"in_latency_window"`
	Error         bool             `json:"error"`
	Mocked        []vectorLoad     `json:"mocked_topology_state"`
	Iterations    int              `json:"iterations"`
	Outcome       *vectorOutcome   `json:"outcome"`
	AvgRTT        *number          `json:"avg_rtt_ms"`
	NewRTT        *number          `json:"new_rtt_ms"`
	NewAvg        *number          `json:"new_avg_rtt"`
}

type vectorTopology struct {
	Type    string         `json:"type"`
	SetName string         `json:"setName"`
	Servers []vectorServer `json:"servers"`
}

type vectorServer struct {
	Address        string            `json:"address"`
	Type           string            `json:"type"`
	RTT            *number           `json:"avg_rtt_ms"`
	Tags           map[string]string `json:"tags"`
	LastUpdate     *number           `json:"lastUpdateTime"`
	MinWireVersion int               `json:"minWireVersion"`
	MaxWireVersion int               `json:"maxWireVersion"`
	LastWrite      *struct {
		Date number `json:"lastWriteDate"`
	} `json:"lastWrite"`
}

type vectorPreference struct {
	Mode         string             `json:"mode"`
	TagSets      []selection.TagSet `json:"tag_sets"`
	MaxStaleness *number            `json:"maxStalenessSeconds"`
}

type vectorLoad struct {
	Address string `json:"address"`
	Count   int    `json:"operation_count"`
}

type vectorOutcome struct {
	Tolerance float64            `json:"tolerance"`
	Expected  map[string]float64 `json:"expected_frequencies"`
}

// number is a JSON number, {"$numberLong": "1"} and its relatives,
// {"$date": …}, or the string "NULL".
type number struct {
	value float64
	null  bool
}

func (n *number) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		n.null = strings.EqualFold(text, "null")
		if n.null {
			return nil
		}
		return n.parse(text)
	}
	var extended map[string]json.RawMessage
	if json.Unmarshal(b, &extended) == nil {
		for _, inner := range extended {
			return n.UnmarshalJSON(inner)
		}
	}
	return json.Unmarshal(b, &n.value)
}

func (n *number) parse(text string) (err error) {
	n.value, err = strconv.ParseFloat(text, 64)
	return err
}

func (n *number) millis() time.Duration {
	return time.Duration(math.Round(n.value * float64(time.Millisecond)))
}

func (n *number) date() time.Time { return time.UnixMilli(int64(n.value)) }

func (v *vectorServer) server(t *testing.T) *selection.Server {
	t.Helper()
	kind, err := selection.ParseServerType(v.Type)
	if err != nil {
		t.Fatal(err)
	}
	s := &selection.Server{
		Address: v.Address, Type: kind, Tags: v.Tags,
		MinWireVersion: v.MinWireVersion, MaxWireVersion: v.MaxWireVersion,
	}
	if v.RTT != nil && !v.RTT.null {
		s.RTT = s.RTT.Add(v.RTT.millis())
	}
	if v.LastUpdate != nil {
		s.LastUpdate = v.LastUpdate.date()
	}
	if v.LastWrite != nil {
		s.LastWrite = v.LastWrite.Date.date()
	}
	return s
}

func (c *vectorCase) topology(t *testing.T) *selection.Topology {
	t.Helper()
	kind, err := selection.ParseTopologyType(c.Topology.Type)
	if err != nil {
		t.Fatal(err)
	}
	top := &selection.Topology{Type: kind, SetName: c.Topology.SetName, Every: c.Heartbeat.millis()}
	for i := range c.Topology.Servers {
		top.Servers = append(top.Servers, c.Topology.Servers[i].server(t))
	}
	return top
}

func (c *vectorCase) operation(t *testing.T) selection.Operation {
	t.Helper()
	mode, err := selection.ParseMode(c.Preference.Mode)
	if err != nil {
		t.Fatal(err)
	}
	op := selection.Operation{
		Name: "vector", Write: c.Operation == "write",
		Preference: selection.ReadPreference{Mode: mode, TagSets: c.Preference.TagSets},
	}
	if bound := c.Preference.MaxStaleness; bound != nil && !bound.null {
		op.Preference.MaxStaleness = new(time.Duration(bound.value * float64(time.Second)))
	}
	for _, d := range c.Deprioritized {
		op.Deprioritized = append(op.Deprioritized, d.Address)
	}
	return op
}

// Every file of the specifications' cases that is there, through the public
// API. They are not part of this repository because of their licence.
func TestVectors(t *testing.T) {
	base := os.Getenv("ADMITD_VECTORS")
	if base == "" {
		base = filepath.Join("..", "..", "..", "shared", "vectors") // ../shared/vectors from the root
	} else if !filepath.IsAbs(base) {
		base = filepath.Join("..", "..", base)
	}
	root := filepath.Join(base, "server-selection")
	if _, err := os.Stat(root); err != nil {
		t.Skipf("no server selection cases: set ADMITD_VECTORS to the folder that has server-selection/ (%v)", err)
	}
	var ran int
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".json" {
			return err
		}
		name, err := filepath.Rel(root, strings.TrimSuffix(path, ".json"))
		if err != nil {
			return err
		}
		ran++
		t.Run(filepath.ToSlash(name), func(t *testing.T) { runVector(t, path) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if ran == 0 {
		t.Skipf("no .json file below %s", root)
	}
	t.Logf("%d files", ran)
}

func runVector(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c vectorCase
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	switch {
	case c.NewAvg != nil && c.NewRTT != nil:
		c.runRTT(t)
	case c.Topology != nil && c.Outcome != nil:
		c.runInWindow(t)
	case c.Topology != nil && (c.Error || c.Suitable != nil || c.InWindow != nil):
		c.runSuitable(t)
	default:
		t.Fatalf("not a form of case that this test knows: %s", b)
	}
}

func (c *vectorCase) runRTT(t *testing.T) {
	t.Helper()
	var rtt selection.RTT
	if c.AvgRTT != nil && !c.AvgRTT.null {
		rtt = rtt.Add(c.AvgRTT.millis())
	}
	got, ok := rtt.Add(c.NewRTT.millis()).Average()
	if want := c.NewAvg.millis(); !ok || (got-want).Abs() > time.Nanosecond {
		t.Errorf("average %v, %v; want %v", got, ok, want)
	}
}

func (c *vectorCase) runSuitable(t *testing.T) {
	t.Helper()
	top, op := c.topology(t), c.operation(t)
	got, err := top.Suitable(&op)
	view := selection.NewView(top)
	sel := selection.New(view, selection.Options{Timeout: -1})
	picked, pickErr := sel.Select(t.Context(), op)
	defer picked.Done()

	if c.Error {
		if err == nil {
			t.Errorf("Suitable = %s, want an error", addresses(got))
		}
		if !errors.Is(pickErr, selection.ErrNoServer) {
			t.Errorf("Select: %v, want an error", pickErr)
		}
		return
	}
	if err != nil {
		t.Fatalf("Suitable: %v", err)
	}
	if c.Suitable != nil {
		if diff := cmp.Diff(vectorAddresses(*c.Suitable), addresses(got)); diff != "" {
			t.Errorf("suitable (-want +got):\n%s", diff)
		}
	}
	if c.InWindow == nil {
		return
	}
	want := vectorAddresses(*c.InWindow)
	if diff := cmp.Diff(want, addresses(selection.InWindow(got, selection.DefaultLocalThreshold))); diff != "" {
		t.Errorf("in latency window (-want +got):\n%s", diff)
	}
	switch {
	case len(want) == 0 && !errors.Is(pickErr, selection.ErrNoServer):
		t.Errorf("Select: %v, want ErrNoServer", pickErr)
	case len(want) > 0 && pickErr != nil:
		t.Errorf("Select: %v, want one of %s", pickErr, want)
	case len(want) > 0 && !slices.Contains(want, picked.Server.Address):
		t.Errorf("Select = %s, want one of %s", picked.Server.Address, want)
	}
}

// runInWindow selects as often as the case says, from servers that are as busy
// as it says.
func (c *vectorCase) runInWindow(t *testing.T) {
	t.Helper()
	view := selection.NewView(c.topology(t))
	for _, m := range c.Mocked {
		only := selection.New(view, selection.Options{
			LocalThreshold: time.Hour,
			Filter: func(all []*selection.Server) []*selection.Server {
				return slices.DeleteFunc(all, func(s *selection.Server) bool { return s.Address != m.Address })
			},
		})
		for range m.Count {
			if _, err := only.Select(t.Context(), nearest()); err != nil { // never Done: the operation goes on
				t.Fatal(err)
			}
		}
	}
	sel := selection.New(view, selection.Options{})
	op := c.operation(t)
	if c.Preference.Mode == "" {
		op = nearest()
	}
	count := map[string]int{}
	for range c.Iterations {
		picked, err := sel.Select(t.Context(), op)
		if err != nil {
			t.Fatal(err)
		}
		count[picked.Server.Address]++
		picked.Done()
	}
	for address, want := range c.Outcome.Expected {
		got := float64(count[address]) / float64(c.Iterations)
		exact := want == 0 || want == 1
		if exact && got != want || math.Abs(got-want) > c.Outcome.Tolerance {
			t.Errorf("%s selected with frequency %.3f, want %.2f ± %.2f", address, got, want, c.Outcome.Tolerance)
		}
		delete(count, address)
	}
	if len(count) > 0 {
		t.Errorf("selected servers that the case does not expect: %v", count)
	}
}

func nearest() selection.Operation {
	return selection.Operation{Name: "find", Preference: selection.ReadPreference{Mode: selection.Nearest}}
}

func addresses(servers []*selection.Server) []string {
	out := []string{}
	for _, s := range servers {
		out = append(out, s.Address)
	}
	slices.Sort(out)
	return out
}

func vectorAddresses(servers []vectorServer) []string {
	out := []string{}
	for _, s := range servers {
		out = append(out, s.Address)
	}
	slices.Sort(out)
	return out
}
