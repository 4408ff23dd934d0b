package topics_test

import (
	"testing"

	"github.com/admitd/admitd/internal/ingress/pulsargate/topics"
)

func TestTopicPatterns(t *testing.T) {
	for _, tc := range []struct {
		pattern, topic string
		want           bool
	}{
		{"t", "persistent://public/default/t", true},
		{"persistent://public/default/t", "t", true},
		{"t", "t-partition-3", true},
		{"t-partition-3", "t-partition-3", true},
		{"t-partition-3", "t-partition-4", false},
		{"t", "t2", false},
		{"a/b/*", "persistent://a/b/t", true},
		{"persistent://a/*", "a/b/t", true},
		{"persistent://a/*", "persistent://ab/c/t", false},
		{"*", "t", true},
		{"*", "non-persistent://a/b/t", false},
	} {
		name := topics.Parse(tc.topic)
		if got := name.Matches(tc.pattern); got != tc.want {
			t.Errorf("%q matches %q = %v; want %v", tc.pattern, tc.topic, got, tc.want)
		}
	}
}
