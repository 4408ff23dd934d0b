package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// firstWait is how long the first reading of what is counted waits for a second
// one to compare with.
const firstWait = 200 * time.Millisecond

// maxFile bounds what is read of one file of /proc or /sys.
const maxFile = 1 << 20

// Host reads the machine, or a control group (version 2) of it. Linux only.
type Host struct {
	// Metric is one of [HostMetrics].
	Metric string
	// Cgroup is a directory such as sys/fs/cgroup/system.slice/x.service below
	// the root; "" = the machine. For cpu, psi_* and memory.
	Cgroup string
	// Root is where proc and sys are found; required, os.DirFS("/").
	Root fs.FS
	// CPUs that there are; 0 = as the runtime says.
	CPUs int

	last  reading
	known bool
}

// reading is a count and what it counts towards, at one moment.
type reading struct {
	at          time.Time
	part, whole float64 // whole = 0: per second
}

// HostMetrics lists what can be read. All but network are shares: 1 is all that
// there is; load, run_queue and psi may pass it or stay far below. network is
// in bytes per second.
func HostMetrics() []string {
	return []string{"cpu", "psi_cpu", "psi_io", "psi_memory", "memory", "load", "run_queue", "disk", "network"}
}

// Read returns the metric, in the unit that [HostMetrics] tells; the time is zero,
// which is now. What is counted is told as the growth since the reading before; the
// first Read waits for a moment to have one. It is used by one goroutine at a time.
func (h *Host) Read(ctx context.Context) (float64, time.Time, error) {
	if read := h.counter(); read != nil {
		v, err := h.growth(ctx, read)
		return v, time.Time{}, err
	}
	v, err := h.gauge()
	return v, time.Time{}, err
}

func (h *Host) counter() func() (reading, error) {
	switch {
	case h.Metric == "cpu" && h.Cgroup != "":
		return h.cgroupCPU
	case h.Metric == "cpu":
		return h.cpu
	case h.Metric == "disk":
		return h.disk
	case h.Metric == "network":
		return h.network
	}
	return nil
}

// growth compares a count with the one before.
func (h *Host) growth(ctx context.Context, read func() (reading, error)) (float64, error) {
	if !h.known {
		first, err := read()
		if err != nil {
			return 0, err
		}
		h.last, h.known = first, true
		timer := time.NewTimer(firstWait)
		defer timer.Stop()
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("source: %w", ctx.Err())
		case <-timer.C:
		}
	}
	now, err := read()
	if err != nil {
		return 0, err
	}
	part, whole := now.part-h.last.part, now.whole-h.last.whole
	if now.whole == 0 {
		whole = now.at.Sub(h.last.at).Seconds()
	}
	h.last = now
	if whole <= 0 || part < 0 {
		return 0, fmt.Errorf("%w: %s was counted anew", ErrAbsent, h.Metric)
	}
	if h.Metric != "network" {
		return min(part/whole, 1), nil
	}
	return part / whole, nil
}

func (h *Host) gauge() (float64, error) {
	switch h.Metric {
	case "psi_cpu", "psi_io", "psi_memory":
		return h.pressure(strings.TrimPrefix(h.Metric, "psi_"))
	case "memory":
		if h.Cgroup != "" {
			return h.cgroupMemory()
		}
		return h.memory()
	case "load":
		fields, err := h.fields("proc/loadavg", "")
		if err != nil {
			return 0, err
		}
		return at(fields, 0) / h.cpus(), nil
	case "run_queue":
		fields, err := h.fields("proc/stat", "procs_running")
		if err != nil {
			return 0, err
		}
		return max(at(fields, 0)-1, 0) / h.cpus(), nil // less the one that asks
	}
	return 0, fmt.Errorf("source: host has no metric %q", h.Metric)
}

// cpu is the time that was not idle, of all time.
func (h *Host) cpu() (reading, error) {
	fields, err := h.fields("proc/stat", "cpu")
	if err != nil {
		return reading{}, err
	}
	r := reading{at: time.Now()}
	for i := range min(len(fields), 8) { // guest time, behind, is counted in user time
		r.whole += at(fields, i)
		if i != 3 && i != 4 { // idle, iowait
			r.part += at(fields, i)
		}
	}
	return r, nil
}

// cgroupCPU is the time used, of what the quota or the machine allows.
func (h *Host) cgroupCPU() (reading, error) {
	fields, err := h.fields(path.Join(h.Cgroup, "cpu.stat"), "usage_usec")
	if err != nil {
		return reading{}, err
	}
	cpus := h.cpus()
	if quota, err := h.fields(path.Join(h.Cgroup, "cpu.max"), ""); err == nil {
		if allowed := at(quota, 0) / at(quota, 1); allowed > 0 {
			cpus = min(cpus, allowed)
		}
	}
	return reading{at: time.Now(), part: at(fields, 0) / 1e6 / cpus}, nil
}

// disk is the time for which the busiest device had work.
func (h *Host) disk() (reading, error) {
	text, err := h.file("proc/diskstats")
	if err != nil {
		return reading{}, err
	}
	r := reading{at: time.Now()}
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 12 {
			r.part = max(r.part, at(f, 12)/1000)
		}
	}
	return r, nil
}

// network is what was received and sent, but for the loopback.
func (h *Host) network() (reading, error) {
	text, err := h.file("proc/net/dev")
	if err != nil {
		return reading{}, err
	}
	r := reading{at: time.Now()}
	for line := range strings.Lines(text) {
		name, counts, found := strings.Cut(line, ":")
		if f := strings.Fields(counts); found && strings.TrimSpace(name) != "lo" && len(f) > 8 {
			r.part += at(f, 0) + at(f, 8)
		}
	}
	return r, nil
}

// pressure is the share of the last ten seconds in which something stalled.
func (h *Host) pressure(of string) (float64, error) {
	file := "proc/pressure/" + of
	if h.Cgroup != "" {
		file = path.Join(h.Cgroup, of+".pressure")
	}
	fields, err := h.fields(file, "some")
	if err != nil {
		return 0, err
	}
	for _, f := range fields {
		if v, found := strings.CutPrefix(f, "avg10="); found {
			return parse(v) / 100, nil
		}
	}
	return 0, fmt.Errorf("%w: avg10 in %s", ErrAbsent, file)
}

// memory is what is not available, of all.
func (h *Host) memory() (float64, error) {
	total, err := h.fields("proc/meminfo", "MemTotal:")
	if err != nil {
		return 0, err
	}
	available, err := h.fields("proc/meminfo", "MemAvailable:")
	if err != nil {
		return 0, err
	}
	return 1 - at(available, 0)/at(total, 0), nil
}

// cgroupMemory is what is used and cannot just be dropped, of what is allowed.
func (h *Host) cgroupMemory() (float64, error) {
	used, err := h.fields(path.Join(h.Cgroup, "memory.current"), "")
	if err != nil {
		return 0, err
	}
	most := math.NaN()
	if limit, err := h.fields(path.Join(h.Cgroup, "memory.max"), ""); err == nil {
		most = at(limit, 0)
	}
	if math.IsNaN(most) { // "max": no bound but the machine
		total, err := h.fields("proc/meminfo", "MemTotal:")
		if err != nil {
			return 0, err
		}
		most = at(total, 0) * 1024
	}
	cached := 0.0
	if inactive, err := h.fields(path.Join(h.Cgroup, "memory.stat"), "inactive_file"); err == nil {
		cached = at(inactive, 0)
	}
	return max(at(used, 0)-cached, 0) / most, nil
}

func (h *Host) cpus() float64 {
	if h.CPUs > 0 {
		return float64(h.CPUs)
	}
	return float64(runtime.NumCPU())
}

// fields splits the line of a file that begins with a word, without it; with ""
// the first line.
func (h *Host) fields(name, word string) ([]string, error) {
	text, err := h.file(name)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case word == "":
			return f, nil
		case f[0] == word:
			return f[1:], nil
		}
	}
	return nil, fmt.Errorf("%w: %s in %s", ErrAbsent, word, name)
}

func (h *Host) file(name string) (string, error) {
	if h.Root == nil {
		return "", errors.New("source: host needs a root")
	}
	b, err := fs.ReadFile(h.Root, strings.TrimPrefix(name, "/"))
	if err != nil {
		return "", fmt.Errorf("source: %w", err)
	}
	if len(b) > maxFile {
		return "", fmt.Errorf("%w: %s", ErrTooLarge, name)
	}
	return string(b), nil
}

// at is the number at a place; NaN when there is none.
func at(fields []string, i int) float64 {
	if i >= len(fields) {
		return math.NaN()
	}
	return parse(fields[i])
}

func parse(text string) float64 {
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}
