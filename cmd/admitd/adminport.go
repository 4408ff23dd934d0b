package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/admitd/admitd/internal/top"
)

// The exit codes of commands that ask a running daemon, besides 0.
const (
	exitRefused     = 1
	exitUnreachable = 2
)

// portTimeout bounds one question to the admin port.
const portTimeout = 10 * time.Second

// portAnswer bounds what is read of an answer.
const portAnswer = 16 << 20

// adminPort is where a command asks a running daemon.
type adminPort struct {
	s                streams
	verb             string // of the command, for its errors
	admin, tokenFile string
	json             bool
}

// flags adds where the daemon is.
func (o *adminPort) flags(f *pflag.FlagSet) {
	f.StringVar(&o.admin, "admin", "http://127.0.0.1:9462", "URL of the admin port")
	f.StringVar(&o.tokenFile, "token-file", "", "file with the bearer token, for an admin port that asks for one")
	f.BoolVar(&o.json, "json", false, "print the daemon's answer as it is")
}

// ask asks the admin port and decodes the answer, or prints it as it is and is
// done.
func (o *adminPort) ask(ctx context.Context, method, path string, into any) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, portTimeout)
	defer cancel()
	body, err := o.fetch(ctx, method, path, "")
	if err != nil {
		return false, err
	}
	if o.json {
		_, err = o.s.out.Write(body)
		return true, err
	}
	if into == nil {
		return false, nil
	}
	if err := json.Unmarshal(body, into); err != nil {
		return false, exitError{exitUnreachable, fmt.Errorf(o.verb+": %s does not answer as admitd does: %w", o.admin, err)}
	}
	return false, nil
}

// address is the URL of an admin port; the scheme may be left out.
func address(admin string) string {
	if !strings.Contains(admin, "://") {
		admin = "http://" + admin
	}
	return strings.TrimSuffix(admin, "/")
}

func (o *adminPort) fetch(ctx context.Context, method, path, send string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, address(o.admin)+path, strings.NewReader(send))
	if err != nil {
		return nil, exitError{exitUnreachable, fmt.Errorf(o.verb+": %w", err)}
	}
	if method != http.MethodGet {
		req.Header.Set("Content-Type", "application/json")
	}
	if o.tokenFile != "" {
		token, err := top.TokenIn(o.tokenFile)
		if err != nil {
			return nil, exitError{exitUnreachable, fmt.Errorf(o.verb+": %w", err)}
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, exitError{exitUnreachable, fmt.Errorf(o.verb+": %w", err)}
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, portAnswer))
	if err != nil {
		return nil, exitError{exitUnreachable, fmt.Errorf(o.verb+": %w", err)}
	}
	if resp.StatusCode != http.StatusOK {
		return nil, exitError{exitRefused, refusedAnswer(o.verb, resp.Status, body)}
	}
	return body, nil
}

// refusedAnswer words an answer that is a problem.
func refusedAnswer(verb, status string, body []byte) error {
	var problem struct {
		Detail   string
		Problems []string
	}
	if json.Unmarshal(body, &problem) == nil && problem.Detail != "" {
		return errors.New(verb + ": " + strings.Join(append([]string{problem.Detail}, problem.Problems...), "; "))
	}
	return errors.New(verb + ": the admin port answered " + status)
}
