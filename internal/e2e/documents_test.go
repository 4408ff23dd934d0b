package e2e_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// documents are those whose commands are run: what an operator reads.
func documents(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, pattern := range []string{"README.md", "CONTRIBUTING.md", "docs/*.md", "docs/*/*.md", "dashboards/README.md", "examples/*/README.md"} {
		found, err := filepath.Glob("../../" + pattern)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, found...)
	}
	return slices.DeleteFunc(all, func(f string) bool { return strings.Contains(f, "/adr/") || strings.HasSuffix(f, "results.md") })
}

// block is a fenced block of commands.
type block struct {
	line     int
	language string
	text     string
	why      string // it is not run; "" = it is
}

// fence finds fenced blocks, with the mark before them if there is one:
//
//	<!-- not run: needs a MongoDB server -->
var fence = regexp.MustCompile("(?m)(?:^<!-- not run: (.*) -->\n+)?^```(\\w*)\n((?s:.*?))^```$")

// blocks returns the blocks of commands of a document.
func blocks(t *testing.T, file string) (all []block) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text := string(content)
	for _, m := range fence.FindAllStringSubmatchIndex(text, -1) {
		part := func(i int) string {
			if m[2*i] < 0 {
				return ""
			}
			return text[m[2*i]:m[2*i+1]]
		}
		b := block{line: 1 + strings.Count(text[:m[4]], "\n"), language: part(2), text: part(3), why: part(1)}
		command := regexp.MustCompile(`(?m)^(\$ )?(admitd|bin/admitd|curl|make|psql|mongosh|pulsar-client|docker|kubectl) `).MatchString(b.text)
		if b.language == "sh" || b.language == "bash" || b.language == "console" || b.language == "" && command {
			all = append(all, b)
		}
	}
	return all
}

// world is what is there before a block runs: a network of its own, so that the
// addresses of the documents are free, and the program. What is refused is an
// error, unless the document looks at statuses itself.
const world = `set -euo pipefail
ip link set lo up
export PATH="$PWD/bin:$PATH"
make() { command make -n -C "$REPO" "$@" >/dev/null; }
sudo() { "$@"; }
git() { :; }
cd() { :; }
curl() {
  case " $* " in
    *" -w "*|*127.0.0.1:8462*) command curl --max-time 20 "$@" ;;
    *) command curl --max-time 20 --fail-with-body "$@" ;;
  esac
}
`

// scene is what runs before a block that starts nothing itself: a backend, the
// daemon, and tenants that ask.
const scene = `admitd demo backend > backend.log 2>&1 &
admitd serve admitd.yaml > daemon.log 2>&1 &
command curl -s --retry 20 --retry-connrefused -o /dev/null http://127.0.0.1:9000/ http://127.0.0.1:9462/readyz -o /dev/null
for tenant in checkout tenant-00003 tenant-00009 tenant-7; do
  for i in 1 2 3; do command curl -s -o /dev/null -H "X-Tenant: $tenant" http://127.0.0.1:8462/; done
done
admitd set orders tenant-00009 limit=5 > /dev/null
sleep 2
`

const sceneConfig = `decisions: { listen: 127.0.0.1:9463 }
ingresses:
  - name: orders
    listen: 127.0.0.1:8462
    backend: http://127.0.0.1:9000
    requests: { rate: 5, burstSeconds: 1000 }
    partitions: { by: "header:X-Tenant", named: [ { name: checkout, match: checkout, rate: 200 } ] }
  - name: jobs
tuner:
  mode: advise
  signals: [ { name: cpu, source: host, metric: cpu } ]
  policies: [ { name: guard, kind: target, signal: cpu, target: 0.8, adjust: orders.requests.rate, min: 1, max: 5, step: 0.1 } ]
`

// foreground finds a daemon that a document leaves running in a terminal.
var foreground = regexp.MustCompile(`(?m)^((?:bin/)?admitd (?:serve|demo backend)\b[^#\n&]*?)\s*(#.*)?$`)

// Every fenced command of the documents does what it is there for, or says why it
// is not tried: the PATCH of a runbook lacked a header, and the quick start asked
// the backend before it listened.
func TestDocumentedCommands(t *testing.T) {
	isolate := isolation(t)
	ran := 0
	for _, file := range documents(t) {
		for _, b := range blocks(t, file) {
			if b.why != "" {
				continue
			}
			ran++
			t.Run(fmt.Sprintf("%s:%d", strings.TrimPrefix(file, "../../"), b.line), func(t *testing.T) {
				t.Parallel()
				runBlock(t, isolate, b.text)
			})
		}
	}
	if ran < 20 {
		t.Errorf("%d blocks of commands were found; want what the documents have", ran)
	}
}

// The quick start, pasted as one block, answers as it says.
func TestQuickStart(t *testing.T) {
	isolate := isolation(t)
	for _, b := range blocks(t, "../../README.md") {
		if !strings.Contains(b.text, "demo backend") {
			continue
		}
		out := runBlock(t, isolate, b.text)
		got := regexp.MustCompile(`(?m)^\d{3}$`).FindAllString(out, -1)
		if want := []string{"200", "200", "200", "200", "200", "429", "429", "429"}; !slices.Equal(got, want) {
			t.Errorf("statuses %v; want %v\n%s", got, want, out)
		}
		if !strings.Contains(out, `"code":462`) {
			t.Errorf("no refusal is shown:\n%s", out)
		}
		return
	}
	t.Error("README.md has no quick start")
}

// isolation returns the command that gives another one a network of its own.
func isolation(t *testing.T) []string {
	t.Helper()
	isolate := []string{"unshare", "--net", "--map-root-user", "--kill-child", "--pid", "--fork"}
	if os.Getuid() == 0 {
		isolate = slices.DeleteFunc(isolate, func(s string) bool { return s == "--map-root-user" })
	}
	if out, err := exec.CommandContext(t.Context(), isolate[0], append(isolate[1:], "ip", "link", "set", "lo", "up")...).CombinedOutput(); err != nil {
		t.Skipf("needs unshare and ip, and the right to a network of its own: %v %s", err, out)
	}
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("needs curl")
	}
	return isolate
}

// runBlock runs a block in a directory and a network of its own, and returns what
// it printed.
func runBlock(t *testing.T, isolate []string, text string) string {
	t.Helper()
	dir := t.TempDir()
	repository, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "bin"), 0o700); err != nil {
		t.Fatal(err)
	}
	for to, from := range map[string]string{"bin/admitd": build(t), "examples": repository + "/examples", "scripts": repository + "/scripts", "dashboards": repository + "/dashboards"} {
		if err := os.Symlink(from, filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	configuration := sceneConfig
	if strings.Contains(text, "would_reject") { // what a gate says that only looks
		configuration = strings.Replace(configuration, "{ rate: 5, burstSeconds: 1000 }", "{ rate: 1 }\n    mode: shadow", 1)
	}
	write(t, filepath.Join(dir, "admitd.yaml"), configuration)
	script := world
	if !foreground.MatchString(text) && !regexp.MustCompile(`admitd serve`).MatchString(text) {
		script += scene
	}
	script += foreground.ReplaceAllString(text, "$1 & sleep 2; kill -0 $$!")
	write(t, filepath.Join(dir, "block.sh"), script+"\n")
	cmd := exec.CommandContext(t.Context(), isolate[0], append(isolate[1:], "bash", "block.sh")...)
	cmd.Dir, cmd.WaitDelay = dir, 10*time.Second
	cmd.Env = append(os.Environ(), "REPO="+repository)
	out, err := cmd.CombinedOutput()
	if err != nil {
		daemon, _ := os.ReadFile(filepath.Join(dir, "daemon.log"))
		t.Errorf("%v\n%s\n--- printed:\n%s\n--- daemon:\n%s", err, text, out, daemon)
	}
	return string(out)
}
