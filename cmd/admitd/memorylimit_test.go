package main

import (
	"os"
	"testing"
)

// The memory limit is the least one of the process's group and of those above it, in
// both versions of control groups, and none that makes no sense.
func TestMemoryLimit(t *testing.T) {
	const mib = 1 << 20
	for name, tc := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no control groups": {},
		"a container": {map[string]string{
			"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "268435456\n",
		}, 256 * mib},
		"no limit": {map[string]string{
			"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "max\n",
		}, 0},
		"a service below a slice that has less": {map[string]string{
			"/proc/self/cgroup": "0::/system.slice/admitd.service\n",
			"/sys/fs/cgroup/system.slice/admitd.service/memory.max": "536870912\n",
			"/sys/fs/cgroup/system.slice/memory.max":                "134217728\n",
		}, 128 * mib},
		"a path beyond what can be seen": {map[string]string{
			"/proc/self/cgroup":         "0::/../../kubepods/pod1/c1\n",
			"/sys/fs/cgroup/memory.max": "268435456\n",
		}, 256 * mib},
		"version 1": {map[string]string{
			"/proc/self/cgroup":                                     "3:cpu,cpuacct:/a\n2:memory:/docker/c1\n1:name=systemd:/x\n",
			"/sys/fs/cgroup/memory/memory.limit_in_bytes":           "9223372036854771712\n",
			"/sys/fs/cgroup/memory/docker/c1/memory.limit_in_bytes": "268435456\n",
			"/sys/fs/cgroup/memory/a/memory.limit_in_bytes":         "134217728\n",
		}, 256 * mib},
		"version 1, no limit": {map[string]string{
			"/proc/self/cgroup": "2:memory:/\n", "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
		}, 0},
		"too little to run with": {map[string]string{
			"/proc/self/cgroup": "0::/\n", "/sys/fs/cgroup/memory.max": "1048576\n",
		}, 0},
		"damaged": {map[string]string{
			"/proc/self/cgroup": "0:/\n\n::\n0::/\n", "/sys/fs/cgroup/memory.max": "-5 MiB\n",
		}, 0},
	} {
		got := memoryLimit(func(file string) ([]byte, error) {
			if text, ok := tc.files[file]; ok {
				return []byte(text), nil
			}
			return nil, os.ErrNotExist
		})
		if got != tc.want {
			t.Errorf("%s: %d bytes; want %d", name, got, tc.want)
		}
	}
}
