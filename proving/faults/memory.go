package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

const littleMemory = 64 << 20

// memoryGroup has the kernel end the gate when it takes more memory than it may.
func memoryGroup(w *world) error {
	name := fmt.Sprintf("admitd-faults-%d", os.Getpid())
	for _, v := range [][2]string{{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"}, {"/sys/fs/cgroup", "memory.max"}} {
		dir := filepath.Join(v[0], name)
		if os.Mkdir(dir, 0o755) != nil {
			continue
		}
		w.undo = append(w.undo, func() { _ = os.Remove(dir) })
		if os.WriteFile(filepath.Join(dir, v[1]), []byte(strconv.Itoa(littleMemory)), 0o600) != nil {
			continue // a group that does not count memory
		}
		w.limit = []string{"sh", "-c", `echo $$ >"$1"/cgroup.procs && shift && exec "$@"`, "sh", dir}
		return nil
	}
	return absence("needs a control group for memory that can be written")
}

// memoryGoal tells the runtime alone.
func memoryGoal(w *world) error {
	w.env = []string{"GOMEMLIMIT=" + strconv.Itoa(littleMemory)}
	return nil
}

// crowded floods the gate a few times while others ask.
func crowded(ctx context.Context, w *world) error {
	for range 4 {
		if err := flood(ctx, w); err != nil {
			return err
		}
		if err := halves(200)(ctx, w); err != nil {
			return err
		}
	}
	time.Sleep(time.Second)
	return nil
}
