package main

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// newSnapshot returns the command that keeps for a post-mortem what a running
// daemon knows.
func newSnapshot(s streams) *cobra.Command {
	o := &snapshotFlags{adminPort: adminPort{s: s, verb: "snapshot"}}
	cmd := &cobra.Command{
		Use:   "snapshot",
		Short: "Keep what a running daemon knows, for a post-mortem",
		Long: `Writes one archive (tar.gz) with what a running admitd knows at this moment: its
status, the configuration in force, the last half hour, the metrics, the tuner's
decisions and, when a token is given, its goroutines. Secrets are left out by the
daemon; clients' keys are in it.

Ends with 1 when the daemon refuses, and with 2 when it cannot be reached. What
could not be read is told in the archive's MANIFEST.`,
		Example: "  admitd snapshot --out incident.tar.gz",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context()) },
	}
	o.flags(cmd.Flags())
	_ = cmd.Flags().MarkHidden("json")
	cmd.Flags().StringVar(&o.out, "out", "", "file to write; by default admitd-TIME.tar.gz here")
	_ = cmd.MarkFlagFilename("token-file")
	return cmd
}

type snapshotFlags struct {
	adminPort

	out string
}

// pieces are what is asked for, and what it is called in the archive. The first
// must be there.
func pieces() [][2]string {
	return [][2]string{
		{"status.json", "/v1/status?partitions=all"},
		{"top.json", "/v1/top?n=100"},
		{"log.txt", "/v1/log"},
		{"readyz.json", "/readyz"},
		{"config.json", "/v1/config"},
		{"history.json", "/v1/history"},
		{"metrics.txt", "/metrics"},
		{"tuner.json", "/v1/tuner?records=-1"},
		{"goroutines.txt", "/debug/pprof/goroutine?debug=2"},
	}
}

// run reads everything and writes the archive.
func (o *snapshotFlags) run(ctx context.Context) error {
	now := time.Now()
	name := o.out
	if name == "" {
		name = "admitd-" + now.Format("20060102-150405") + ".tar.gz"
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() { // it would be replaced
		return fmt.Errorf("snapshot: --out must name a file (%s)", name)
	}
	manifest, parts, err := o.collect(ctx, now)
	if err != nil {
		return err
	}
	if err := writeArchive(name, now, manifest, parts); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	_, err = fmt.Fprintf(o.s.out, "%s\n\n%s", name, manifest)
	return err
}

// collect reads every piece, and says in the manifest what came of it. Without the
// first there is nothing to archive.
func (o *snapshotFlags) collect(ctx context.Context, now time.Time) (text string, parts [][]byte, err error) {
	var manifest strings.Builder
	fmt.Fprintf(&manifest, "%s\ntaken %s from %s\n\n", versionLine(), now.Format(time.RFC3339), o.admin)
	for i, p := range pieces() {
		one, cancel := context.WithTimeout(ctx, portTimeout)
		body, err := o.fetch(one, http.MethodGet, p[1], "")
		cancel()
		if err != nil && i == 0 {
			return "", nil, err
		}
		line := fmt.Sprintf("%d bytes", len(body))
		if err != nil {
			line = "not there: " + err.Error()
		}
		fmt.Fprintf(&manifest, "%-15s %s: %s\n", p[0], p[1], line)
		parts = append(parts, body)
	}
	return manifest.String(), parts, nil
}

// writeArchive writes a file that appears whole or not at all.
func writeArchive(name string, now time.Time, manifest string, parts [][]byte) error {
	temporary := name + ".part"
	f, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) //nolint:gosec // G304: whoever runs the command names the file
	if err != nil {
		return err
	}
	err = errors.Join(archive(f, now, manifest, parts), f.Close())
	if err == nil {
		err = os.Rename(temporary, name)
	}
	if err != nil {
		_ = os.Remove(temporary)
	}
	return err
}

// archive writes the manifest and the pieces that are there.
func archive(out io.Writer, now time.Time, manifest string, parts [][]byte) error {
	z := gzip.NewWriter(out)
	t := tar.NewWriter(z)
	dir := "admitd-" + now.Format("20060102-150405") + "/"
	put := func(name string, b []byte) error {
		head := &tar.Header{Name: dir + name, Mode: 0o600, Size: int64(len(b)), ModTime: now, Typeflag: tar.TypeReg}
		if err := t.WriteHeader(head); err != nil {
			return err
		}
		_, err := t.Write(b)
		return err
	}
	if err := put("MANIFEST", []byte(strings.TrimLeft(manifest, "\n"))); err != nil {
		return err
	}
	for i, p := range pieces() {
		if parts[i] == nil {
			continue
		}
		if err := put(p[0], parts[i]); err != nil {
			return err
		}
	}
	return errors.Join(t.Close(), z.Close())
}
