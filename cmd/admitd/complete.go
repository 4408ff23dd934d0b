package main

import (
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/admitd/admitd/status"
)

// completionPatience bounds what a Tab may wait for the daemon.
const completionPatience = time.Second

// completer completes one word.
type completer = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// completeNames completes, with the names of a running daemon, first an ingress
// and then, where keys is true, a partition of it. Without a daemon it completes
// nothing.
func completeNames(o *adminPort, keys bool) completer {
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		const only = cobra.ShellCompDirectiveNoFileComp
		if len(args) > 1 || len(args) == 1 && !keys {
			return nil, only
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completionPatience)
		defer cancel()
		port := adminPort{s: streams{io.Discard, io.Discard}, admin: o.admin, tokenFile: o.tokenFile}
		body, err := port.fetch(ctx, "GET", "/v1/status", "")
		var doc status.Document
		if err != nil || json.Unmarshal(body, &doc) != nil {
			return nil, only
		}
		var names []string
		for i := range doc.Ingresses {
			in := &doc.Ingresses[i]
			if len(args) == 0 {
				names = append(names, in.Name)
				continue
			}
			for j := range in.Partitions {
				if in.Name == args[0] && !strings.ContainsFunc(in.Partitions[j].Name, odd) {
					names = append(names, in.Partitions[j].Name)
				}
			}
		}
		return slices.DeleteFunc(names, func(n string) bool { return !strings.HasPrefix(n, toComplete) }), only
	}
}

// odd reports a character that a shell may take for something: clients choose
// keys, and a completion must not run one.
func odd(r rune) bool {
	plain := 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.:@+,", r)
	return !plain
}
