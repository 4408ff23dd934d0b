package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// island is a network of its own, where the backend that fails lives, with a cable
// to it on which packets can be lost. Its addresses are those of documentation.
type island struct {
	holder *exec.Cmd // keeps the network there
	server *exec.Cmd
	kind   string // protocol
}

const (
	mainland     = "192.0.2.1"
	islandHost   = "192.0.2.2"
	islandAt     = islandHost + ":9000"
	nobody       = "02:00:00:00:00:01" // a hardware address that no interface has
	mainlandPort = "faults0"
	islandPort   = "faults1"
)

// toIsland moves the backend there.
func toIsland(w *world) error {
	if err := apart(); err != nil {
		return err
	}
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			return absence("needs the program " + tool)
		}
	}
	i := &island{holder: exec.CommandContext(context.Background(), "sleep", "3600"), kind: w.name}
	i.holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	if err := i.holder.Start(); err != nil {
		return absence("needs to make a network: " + err.Error())
	}
	w.island = i
	w.undo = append(w.undo, i.close)
	for _, c := range [][]string{
		{"ip", "link", "add", mainlandPort, "type", "veth", "peer", "name", islandPort, "netns", i.pid()},
		{"ip", "addr", "add", mainland + "/30", "dev", mainlandPort},
		{"ip", "link", "set", mainlandPort, "up"},
		i.there("ip", "addr", "add", islandHost+"/30", "dev", islandPort),
		i.there("ip", "link", "set", islandPort, "up"),
		i.there("ip", "link", "set", "lo", "up"),
	} {
		if err := command(c); err != nil {
			return absence("needs to lay a cable: " + err.Error())
		}
	}
	w.backend = islandAt
	return i.serve(w)
}

func (i *island) pid() string { return strconv.Itoa(i.holder.Process.Pid) }

// there is a command that runs on the island.
func (i *island) there(args ...string) []string {
	return slices.Concat([]string{"nsenter", "-t", i.pid(), "-n"}, args)
}

func command(args []string) error {
	if out, err := exec.CommandContext(context.Background(), args[0], args[1:]...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(string(out)))
	}
	return nil
}

// serve starts a backend there.
func (i *island) serve(w *world) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := i.there(self, "-serve", i.kind, "-listen", islandAt)
	i.server = exec.CommandContext(context.Background(), args[0], args[1:]...)
	if err := i.server.Start(); err != nil {
		return err
	}
	return w.until(10*time.Second, "the backend on the island serves", func() error {
		return command(i.there("bash", "-c", "exec 3<>/dev/tcp/"+strings.Replace(islandAt, ":", "/", 1)))
	})
}

// cut has all packets lost, in both directions; neither side is told.
func (i *island) cut() error {
	if err := command([]string{"ip", "neigh", "replace", islandHost, "lladdr", nobody, "dev", mainlandPort, "nud", "permanent"}); err != nil {
		return err
	}
	return command(i.there("ip", "neigh", "replace", mainland, "lladdr", nobody, "dev", islandPort, "nud", "permanent"))
}

// mend has them come through again.
func (i *island) mend() error {
	if err := command([]string{"ip", "neigh", "del", islandHost, "dev", mainlandPort}); err != nil {
		return err
	}
	return command(i.there("ip", "neigh", "del", mainland, "dev", islandPort))
}

func (i *island) end(c *exec.Cmd) {
	if c != nil && c.Process != nil {
		_ = c.Process.Kill()
		_ = c.Wait()
	}
}

func (i *island) close() {
	i.end(i.server)
	i.end(i.holder)
	_ = command([]string{"ip", "link", "del", mainlandPort})
}

// dropped loses packets for three seconds.
func dropped(_ context.Context, w *world) error {
	if err := w.island.cut(); err != nil {
		return err
	}
	time.Sleep(3 * time.Second)
	return w.island.mend()
}

// vanished loses the backend while nothing comes through, so that it cannot say
// good-bye, and has another one there afterwards, which knows of no connection.
func vanished(_ context.Context, w *world) error {
	time.Sleep(300 * time.Millisecond)
	if err := w.island.cut(); err != nil {
		return err
	}
	w.island.end(w.island.server)
	time.Sleep(time.Second)
	if err := w.island.serve(w); err != nil {
		return err
	}
	return w.island.mend()
}

// serveBackend is the backend of a protocol, until it is killed.
func serveBackend(name, listen string) error {
	ctx := context.Background()
	for _, p := range protocols() {
		if p.name != name {
			continue
		}
		ln, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
		if err != nil {
			return err
		}
		p.serve(ctx, ln, listen)
		return fmt.Errorf("%s ended", name)
	}
	return fmt.Errorf("there is no protocol %s", name)
}
