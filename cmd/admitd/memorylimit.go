package main

import (
	"math"
	"os"
	"path"
	"runtime/debug"
	"strconv"
	"strings"
)

// Bounds of a memory limit that the process is kept to, in bytes: with less the
// collector would run without end, and more is how a kernel writes "no limit".
const (
	leastMemory = 64 << 20
	mostMemory  = 1 << 46
)

// limitMemory keeps the heap below 90 % of the memory limit of the process's control
// group, as GOMEMLIMIT does, which goes before. It returns the limit set, in bytes;
// 0 = none.
func limitMemory() int64 {
	if os.Getenv("GOMEMLIMIT") != "" {
		return 0
	}
	limit := memoryLimit(os.ReadFile) / 10 * 9
	if limit > 0 {
		debug.SetMemoryLimit(limit)
	}
	return limit
}

// memoryLimit returns the least memory limit of the process's control group and of
// those above it, versions 1 and 2, in bytes; 0 = there is none, or one that makes no
// sense.
func memoryLimit(read func(file string) ([]byte, error)) int64 {
	groups, err := read("/proc/self/cgroup")
	if err != nil {
		return 0
	}
	least := int64(math.MaxInt64)
	for line := range strings.Lines(string(groups)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3) // hierarchy, controllers, path
		if len(fields) < 3 {
			continue
		}
		root, file := "/sys/fs/cgroup", "memory.max"
		switch {
		case strings.Contains(","+fields[1]+",", ",memory,"):
			root, file = "/sys/fs/cgroup/memory", "memory.limit_in_bytes"
		case fields[1] != "":
			continue
		}
		// A container may see its own group as the root, under a path that it cannot see.
		for dir := path.Clean("/" + fields[2]); ; dir = path.Dir(dir) {
			if b, err := read(path.Join(root, dir, file)); err == nil {
				if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil { // else it is "max"
					least = min(least, n)
				}
			}
			if dir == "/" {
				break
			}
		}
	}
	if least < leastMemory || least > mostMemory {
		return 0
	}
	return least
}
