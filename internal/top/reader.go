package top

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/admitd/admitd/status"
)

const (
	timeout   = 5 * time.Second
	maxStatus = 64 << 20 // bytes of a status
)

// statusReader reads the status of a daemon.
type statusReader struct {
	client *http.Client
	url    string
	token  string
	find   atomic.Value // string: what is searched
}

// newStatusReader returns a reader of the admin port that o names.
func newStatusReader(o Options) (*statusReader, error) {
	address := o.Admin
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("top: --admin must be a URL, such as http://127.0.0.1:9462 (%s)", o.Admin)
	}
	u = u.JoinPath("v1", "status")
	if o.Ingress != "" {
		u.RawQuery = url.Values{"ingress": {o.Ingress}}.Encode()
	}
	r := &statusReader{client: &http.Client{Timeout: timeout}, url: u.String()}
	if o.TokenFile != "" {
		if r.token, err = TokenIn(o.TokenFile); err != nil {
			return nil, fmt.Errorf("top: %w", err)
		}
	}
	return r, nil
}

// TokenIn returns the bearer token that a file holds, for those who ask the admin
// port. The file may be the daemon's own: of several tokens it is the first, and a
// name before it is none of it.
func TokenIn(file string) (string, error) {
	b, err := os.ReadFile(file) //nolint:gosec // whoever asks names the file
	if err != nil {
		return "", fmt.Errorf("--token-file: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if fields := strings.Fields(line); len(fields) > 0 && !strings.HasPrefix(fields[0], "#") {
			return fields[len(fields)-1], nil
		}
	}
	return "", fmt.Errorf("--token-file: holds no token (%s)", file)
}

// read reads the status now.
func (r *statusReader) read(ctx context.Context) (*status.Document, error) {
	address := r.url
	if find, ok := r.find.Load().(string); ok && find != "" { // which may not be among those that are listed
		separator := "?"
		if strings.Contains(address, "?") {
			separator = "&"
		}
		address += separator + url.Values{"find": {find}}.Encode()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
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
	var s status.Document
	if err := json.NewDecoder(body).Decode(&s); err != nil {
		return nil, fmt.Errorf("top: %s does not answer with a status: %w", r.url, err)
	}
	return &s, nil
}
