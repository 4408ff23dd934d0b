package source_test

import (
	"errors"
	"testing"

	"github.com/admitd/admitd/internal/tuner/source"
)

// Whatever an endpoint answers, the errors are of the closed set.
func FuzzScrape(f *testing.F) {
	f.Add(exposition, "exporter_backlog_records", 0.0)
	f.Add("d_bucket{le=\"1\"} 5\nd_bucket{le=\"+Inf\"} 6\n", "d", 0.5)
	f.Add("a{b=\"c", "a", 0.0)
	f.Add("a{b=\"\\", "a", 0.0)
	f.Fuzz(func(t *testing.T, text, metric string, quantile float64) {
		s := &source.Scrape{Metric: metric, Quantile: quantile}
		for range 2 { // quantiles compare with the reading before
			if _, err := s.Value(text); err != nil && !errors.Is(err, source.ErrForm) && !errors.Is(err, source.ErrAbsent) {
				t.Errorf("Value: %v; want ErrForm or ErrAbsent", err)
			}
		}
	})
}

func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"7"]}]}}`))
	f.Add([]byte(`{"status":"success","data":{"resultType":"scalar","result":[1e300,"7"]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		if _, _, err := source.ParseAnswer(body); err != nil && !errors.Is(err, source.ErrForm) && !errors.Is(err, source.ErrAbsent) {
			t.Errorf("ParseAnswer: %v; want ErrForm or ErrAbsent", err)
		}
	})
}

func FuzzLookup(f *testing.F) {
	f.Add([]byte(`{"a":[{"b":1}]}`), "a[0].b")
	f.Add([]byte(`{"a":{"x":1,"y":"2"}}`), "a.*")
	f.Fuzz(func(t *testing.T, doc []byte, path string) {
		if _, err := source.Lookup(doc, path); err != nil && !errors.Is(err, source.ErrForm) && !errors.Is(err, source.ErrAbsent) {
			t.Errorf("Lookup: %v; want ErrForm or ErrAbsent", err)
		}
	})
}
