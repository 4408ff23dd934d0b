package top

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/admitd/admitd/status"
)

const (
	enterScreen  = "\x1b[?1049h\x1b[?25l" // the other screen, no cursor
	leaveScreen  = "\x1b[?25h\x1b[?1049l"
	repaint      = "\x1b[H" // from the top left, over what is there
	clearBelow   = "\x1b[J"
	clearLineEnd = "\x1b[K\r\n"
)

// terminal is where top reads keys and draws.
type terminal struct{ in, out *os.File }

// screen draws on the terminal until the user quits, and leaves it as it was
// however it ends.
func screen(ctx context.Context, t terminal, r *statusReader, v *View, interval time.Duration) (err error) {
	before, err := term.MakeRaw(int(t.in.Fd()))
	if err != nil {
		return fmt.Errorf("top: %w", err)
	}
	defer func() {
		_, wrote := t.out.WriteString(leaveScreen)
		err = errors.Join(err, wrote, term.Restore(int(t.in.Fd()), before))
	}()
	if _, err := t.out.WriteString(enterScreen); err != nil {
		return fmt.Errorf("top: %w", err)
	}
	return t.follow(ctx, r, v, interval)
}

// follow draws what is read and what the user asks for, until the user quits.
func (t terminal) follow(ctx context.Context, r *statusReader, v *View, interval time.Duration) error {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	resized := make(chan os.Signal, 1)
	notifyResize(resized)
	defer signal.Stop(resized)
	keys := make(chan string)
	go readKeys(ctx, t.in, keys)
	readings := make(chan reading)
	go keepReading(ctx, r, interval, readings)
	heard := time.Now()
	for {
		if err := v.draw(t.out); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-resized:
		case key, open := <-keys:
			if !open || v.Key(key) {
				return nil
			}
			r.find.Store(v.Search())
		case got := <-readings:
			v.Failure, v.Silence = got.err, time.Since(heard)
			if got.err == nil {
				heard = time.Now()
				v.Take(got.status)
			}
		}
	}
}

// reading is one status, or why there is none.
type reading struct {
	status *status.Document
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
func (v *View) draw(out *os.File) error {
	width, height, err := term.GetSize(int(out.Fd()))
	if err != nil || width <= 0 || height <= 0 {
		width, height = 80, 24
	}
	var b strings.Builder
	b.WriteString(repaint)
	for i, l := range v.Lines(width, height) {
		if i > 0 {
			b.WriteString(clearLineEnd)
		}
		b.WriteString(l.styled(v.Colour))
	}
	b.WriteString("\x1b[K" + clearBelow)
	if _, err := out.WriteString(b.String()); err != nil {
		return fmt.Errorf("top: %w", err)
	}
	return nil
}
