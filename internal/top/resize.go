//go:build !windows

package top

import (
	"os"
	"os/signal"
	"syscall"
)

// notifyResize has the terminal tell c when its size changes. [signal.Stop]
// ends it.
func notifyResize(c chan<- os.Signal) { signal.Notify(c, syscall.SIGWINCH) }
