package postgresgate

import (
	"encoding/binary"
	"sync"
)

const (
	// maxCancelKeys bounds the sessions that can be cancelled through the gate.
	maxCancelKeys = 100_000
	// maxSecret is the longest secret of a session, in bytes (protocol 3.2).
	maxSecret = 256
)

// cancelKeys tell which session, on which backend, a request to cancel is for.
// Safe for concurrent use.
type cancelKeys struct {
	mu sync.Mutex // guards the fields below
	m  map[string]*session
	// processes is m by backend and process; nil = nobody asks.
	processes map[process]*session
}

// process is a process of a backend.
type process struct {
	address string
	id      uint32
}

// add notes the key, process and secret, of a session. Beyond the bound it
// forgets nothing and notes nothing: the request then goes to any backend.
func (k *cancelKeys) add(key []byte, address string, s *session) {
	if len(key) < 8 || len(key) > 4+maxSecret {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.m == nil {
		k.m = map[string]*session{}
	}
	if len(k.m) < maxCancelKeys {
		k.m[string(key)] = s
		s.cancelKey = string(key)
		if k.processes != nil {
			s.pid = binary.BigEndian.Uint32(key)
			k.processes[process{address, s.pid}] = s
		}
	}
}

// index has sessions found by their processes from now on, those that are in too.
func (k *cancelKeys) index() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.processes != nil {
		return
	}
	k.processes = map[process]*session{}
	for key, s := range k.m {
		s.pid = binary.BigEndian.Uint32([]byte(key))
		k.processes[process{s.rs.Backend(), s.pid}] = s
	}
}

// process returns the session of a process of a backend; nil = unknown.
func (k *cancelKeys) process(address string, id uint32) *session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.processes[process{address, id}]
}

// remove forgets a session's key.
func (k *cancelKeys) remove(s *session) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.cancelKey != "" && k.m[s.cancelKey] == s {
		delete(k.m, s.cancelKey)
	}
	if s.pid == 0 {
		return
	}
	if p := (process{s.rs.Backend(), s.pid}); k.processes[p] == s {
		delete(k.processes, p)
	}
}

// find returns the session with the key; nil = unknown.
func (k *cancelKeys) find(key []byte) *session {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.m[string(key)]
}

// of returns a session's key, "" when it has none.
func (k *cancelKeys) of(s *session) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return s.cancelKey
}
