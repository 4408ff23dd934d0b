package main

import (
	"bytes"
	"strings"
	"testing"
)

// The manual page has every command and every option that help shows.
func TestMan(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), []string{"man"}, streams{&out, &out}); err != nil {
		t.Fatal(err)
	}
	page := out.String()
	for _, want := range []string{
		".TH ADMITD 1", `.SS admitd serve \-\-config FILE`, `.SS admitd tune promote NAME`, `\fB\-c, \-\-config\fR`,
		`With \-\-json`, ".I /etc/admitd/token",
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	for line := range strings.Lines(page) {
		if word, _, _ := strings.Cut(strings.TrimSpace(line), " "); strings.HasPrefix(word, ".") && !strings.Contains(" .TH .SH .SS .B .BR .I .PP .TP .nf .fi ", " "+word+" ") {
			t.Errorf("a line of text became a request: %q", line)
		}
	}
	if strings.Contains(page, `\-\-clock\-fault`) {
		t.Error("the page shows a hidden option")
	}
}
