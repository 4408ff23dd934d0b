package daemon

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"
)

// tokensEvery is how often the files of tokens are looked at.
const tokensEvery = 5 * time.Second

// followTokens is the actor that takes tokens anew whose files have changed, so that
// they can be renewed as certificates are. Files that cannot be read, or hold no token
// any more, leave the old ones in force.
func (s *settings) followTokens(ctx context.Context) error {
	ticker := time.NewTicker(tokensEvery)
	defer ticker.Stop()
	seen := s.tokenFiles()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if now := s.tokenFiles(); now != seen {
			seen = now
			s.renewTokens()
		}
	}
}

// tokenFiles tells whether a file was changed, or another is named.
func (s *settings) tokenFiles() string {
	var state strings.Builder
	cfg := s.running()
	for _, name := range []string{cfg.Admin.TokenFile, cfg.Decisions.TokenFile} {
		if info, err := os.Stat(name); err == nil {
			fmt.Fprint(&state, name, info.ModTime().UnixNano(), info.Size(), ";")
		}
	}
	return state.String()
}

// renewTokens takes the tokens of the configuration in force as their files have them.
func (s *settings) renewTokens() {
	s.fronts.change.Lock()
	defer s.fronts.change.Unlock()
	cfg := s.running()
	token, callers, err := readTokens(cfg)
	if err != nil {
		s.log.Warn("tokens cannot be read anew, the old ones stay", slog.Any("error", err))
		return
	}
	if cfg.Admin.TokenFile != "" && s.setToken(token) != nil || cfg.Decisions.TokenFile != "" && s.setDecisionsToken(callers) != nil {
		s.log.Warn("tokens stay as they were, for others than this machine can reach the port, and its file is empty")
		return
	}
	s.log.Info("tokens were read anew")
}
