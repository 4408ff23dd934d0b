package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
)

const (
	topTimeout   = 5 * time.Second
	maxStatus    = 64 << 20 // bytes of a status
	minInterval  = 100 * time.Millisecond
	enterScreen  = "\x1b[?1049h\x1b[?25l" // the other screen, no cursor
	leaveScreen  = "\x1b[?25h\x1b[?1049l"
	repaint      = "\x1b[H" // from the top left, over what is there
	clearBelow   = "\x1b[J"
	clearLineEnd = "\x1b[K\r\n"
)

// topOptions are the flags of top.
type topOptions struct {
	admin, tokenFile, sort, ingress string
	interval                        time.Duration
	once                            bool
}

// newTop returns the command that shows a running daemon in the terminal.
func newTop(s streams) *cobra.Command {
	var o topOptions
	cmd := &cobra.Command{
		Use:   "top",
		Short: "Show a running daemon in the terminal",
		Long: `Shows what a running admitd admits and refuses, why and for whom, and how its
limits stand, as read from the admin port every second.

Keys: ` + topKeys() + `; the same key again turns the order.
Arrows, PgUp, PgDn, Home and End move through the partitions, p pauses, q or Ctrl-C quits.

With --once, or when the output is not a terminal, it prints one snapshot with
the rates of one interval and ends. NO_COLOR switches colours off.`,
		Example: "  admitd top\n  admitd top --admin http://10.0.0.7:9462 --sort rtt\n  admitd top --once | head",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return top(cmd.Context(), s, o) },
	}
	f := cmd.Flags()
	f.StringVar(&o.admin, "admin", "http://127.0.0.1:9462", "URL of the admin port")
	f.StringVar(&o.tokenFile, "token-file", "", "file with the bearer token, for an admin port that asks for one")
	f.StringVar(&o.sort, "sort", "rejected", "order: "+strings.Join(topOrderNames(), ", "))
	f.StringVar(&o.ingress, "ingress", "", "only this ingress")
	f.DurationVar(&o.interval, "interval", time.Second, "time between two readings, at least 100ms")
	f.BoolVar(&o.once, "once", false, "print one snapshot and end")
	_ = cmd.MarkFlagFilename("token-file")
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(topOrderNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// top runs until it is told to quit.
func top(ctx context.Context, s streams, o topOptions) error {
	order, ok := topOrderOf(o.sort)
	if !ok {
		return fmt.Errorf("top: --sort must be one of %s (%s)", strings.Join(topOrderNames(), ", "), o.sort)
	}
	if o.interval < minInterval {
		return fmt.Errorf("top: --interval must be at least %v (%v)", minInterval, o.interval)
	}
	reader, err := newStatusReader(o)
	if err != nil {
		return err
	}
	view := &topView{order: order, ingress: o.ingress, colour: os.Getenv("NO_COLOR") == ""}
	out, isFile := s.out.(*os.File)
	if o.once || !isFile || !term.IsTerminal(int(out.Fd())) || !term.IsTerminal(int(os.Stdin.Fd())) {
		view.colour = false
		return topOnce(ctx, s.out, reader, view, o.interval)
	}
	return topScreen(ctx, terminal{in: os.Stdin, out: out}, reader, view, o.interval)
}

// statusReader reads the status of a daemon.
type statusReader struct {
	client *http.Client
	url    string
	token  string
}

// newStatusReader returns a reader of the admin port that o names.
func newStatusReader(o topOptions) (*statusReader, error) {
	address := o.admin
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("top: --admin must be a URL, such as http://127.0.0.1:9462 (%s)", o.admin)
	}
	u = u.JoinPath("v1", "status")
	if o.ingress != "" {
		u.RawQuery = url.Values{"ingress": {o.ingress}}.Encode()
	}
	r := &statusReader{client: &http.Client{Timeout: topTimeout}, url: u.String()}
	if o.tokenFile != "" {
		b, err := os.ReadFile(o.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("top: --token-file: %w", err)
		}
		r.token = strings.TrimSpace(string(b))
	}
	return r, nil
}

// read reads the status now.
func (r *statusReader) read(ctx context.Context) (*topStatus, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url, http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("top: %w", err)
	}
	if r.token != "" {
		req.Header.Set("Authorization", "Bearer "+r.token)
	}
	res, err := r.client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("top: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	body := io.LimitReader(res.Body, maxStatus)
	if res.StatusCode != http.StatusOK {
		var problem struct {
			Detail string `json:"detail"`
		}
		_ = json.NewDecoder(body).Decode(&problem) // the status says enough
		return nil, fmt.Errorf("top: %s answers %s %s", r.url, res.Status, printable(problem.Detail))
	}
	var s topStatus
	if err := json.NewDecoder(body).Decode(&s); err != nil {
		return nil, fmt.Errorf("top: %s does not answer with a status: %w", r.url, err)
	}
	return &s, nil
}

// topOnce prints one snapshot, with the rates of one interval.
func topOnce(ctx context.Context, out io.Writer, r *statusReader, v *topView, interval time.Duration) error {
	before, err := r.read(ctx)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(interval):
	}
	now, err := r.read(ctx)
	if err != nil {
		return err
	}
	v.take(before)
	v.take(now)
	for _, l := range v.lines(0, 0) {
		if _, err := io.WriteString(out, strings.TrimRight(l.text, " ")+"\n"); err != nil {
			if errors.Is(err, syscall.EPIPE) {
				return nil // head has seen enough
			}
			return fmt.Errorf("top: %w", err)
		}
	}
	return nil
}

// terminal is where top reads keys and draws.
type terminal struct{ in, out *os.File }

// topScreen draws on the terminal until the user quits, and leaves it as it was
// however it ends.
func topScreen(ctx context.Context, t terminal, r *statusReader, v *topView, interval time.Duration) (err error) {
	before, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return fmt.Errorf("top: %w", err)
	}
	defer func() {
		_, wrote := t.out.WriteString(leaveScreen)
		err = errors.Join(err, wrote, term.Restore(int(t.in.Fd()), before))
	}()
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	resized := make(chan os.Signal, 1)
	signal.Notify(resized, syscall.SIGWINCH)
	defer signal.Stop(resized)

	if _, err := t.out.WriteString(enterScreen); err != nil {
		return fmt.Errorf("top: %w", err)
	}
	keys := make(chan string)
	go readKeys(ctx, t.in, keys)
	readings := make(chan reading)
	go keepReading(ctx, r, interval, readings)
	for {
		if err := v.draw(t.out); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case key, open := <-keys:
			if !open || v.key(key) {
				return nil
			}
		case got := <-readings:
			v.failure = got.err
			if got.err == nil {
				v.take(got.status)
			}
		}
	}
}

// reading is one status, or why there is none.
type reading struct {
	status *topStatus
	err    error
}

// keepReading reads the status at once and then every interval.
func keepReading(ctx context.Context, r *statusReader, interval time.Duration, into chan<- reading) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		s, err := r.read(ctx)
		select {
		case into <- reading{s, err}:
		case <-ctx.Done():
			return
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// readKeys sends what is typed, a key or an escape sequence at a time, and
// closes keys at the end of the input. A read cannot be interrupted: after the
// end it stays until the process ends or another key is pressed.
func readKeys(ctx context.Context, in io.Reader, keys chan<- string) {
	defer close(keys)
	buf := make([]byte, 64)
	for {
		n, err := in.Read(buf)
		for _, key := range splitKeys(string(buf[:n])) {
			select {
			case keys <- key:
			case <-ctx.Done():
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// splitKeys splits what was typed since the last read into keys. A sequence
// that begins with ESC [ ends with its first letter or tilde.
func splitKeys(s string) []string {
	var keys []string
	for s != "" {
		n := 1
		if strings.HasPrefix(s, "\x1b[") {
			end := strings.IndexFunc(s[2:], func(r rune) bool { return r >= '@' && r <= '~' })
			n = len(s)
			if end >= 0 {
				n = 2 + end + 1
			}
		}
		keys = append(keys, s[:n])
		s = s[n:]
	}
	return keys
}

// draw paints the view over the whole terminal.
func (v *topView) draw(out *os.File) error {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	var b strings.Builder
	b.WriteString(repaint)
	for i, l := range v.lines(width, height) {
		if i > 0 {
			b.WriteString(clearLineEnd)
		}
		b.WriteString(l.styled(v.colour))
	}
	b.WriteString("\x1b[K" + clearBelow)
	if _, err := out.WriteString(b.String()); err != nil {
		return fmt.Errorf("top: %w", err)
	}
	return nil
}
