package measure

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
)

// Read reads results that were written with [Write], such as
// those of somebody else's limiters.
func Read(rd io.Reader) ([]*Result, error) {
	var list []*Result
	if err := json.NewDecoder(rd).Decode(&list); err != nil {
		return nil, fmt.Errorf("lab: read results: %w", err)
	}
	first := map[[2]string]*Result{}
	for _, r := range list {
		if r == nil || len(r.Windows) == 0 {
			return nil, errors.New("lab: read results: a result has no windows")
		}
		key := [2]string{r.Scenario, r.Variant}
		if first[key] == nil {
			first[key] = r
		} else if !slices.Equal(r.Names(), first[key].Names()) {
			return nil, fmt.Errorf("lab: read results: those of %s, %s have windows %v and %v", r.Scenario, r.Variant, first[key].Names(), r.Names())
		}
	}
	return list, nil
}

// Write writes results, one per line, in the order of their names.
func Write(w io.Writer, list []*Result) error {
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b *Result) int {
		return cmp.Or(cmp.Compare(a.Scenario, b.Scenario), cmp.Compare(a.Variant, b.Variant),
			cmp.Compare(a.Contender, b.Contender), cmp.Compare(a.Seed, b.Seed))
	})
	for i, r := range list {
		b, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("lab: write results: %w", err)
		}
		before := ",\n"
		if i == 0 {
			before = "[\n"
		}
		if _, err := fmt.Fprintf(w, "%s%s", before, b); err != nil {
			return fmt.Errorf("lab: write results: %w", err)
		}
	}
	_, err := io.WriteString(w, "\n]\n")
	return err
}
