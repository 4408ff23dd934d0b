package fleet_test

import (
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/admitd/admitd/internal/fleet"
)

// Lengths are judged before the client library allocates what they announce,
// however the stream is cut into reads; what strings hold is no header.
func TestRepliesAreBounded(t *testing.T) {
	for stream, ok := range map[string]bool{
		"+OK\r\n:5\r\n$-1\r\n*-1\r\n*0\r\n":                             true,
		"*2\r\n$12\r\n$99999999999\r\n$0\r\n\r\n":                       true,
		"%1\r\n+a\r\n*1\r\n#t\r\n" + "-ERR no\r\n":                      true,
		"|1\r\n+a\r\n+b\r\n*65534\r\n":                                  true,
		strings.Repeat("*60000\r\n"+strings.Repeat(":1\r\n", 60000), 2): true,
		"$99999999999\r\n":                                              false,
		"=99999999999\r\n":                                              false,
		"!99999999999\r\n":                                              false,
		"*2000000000\r\n":                                               false,
		"%500000000\r\n":                                                false,
		"~70000\r\n":                                                    false,
		">70000\r\n":                                                    false,
		"|70000\r\n":                                                    false,
		"$-2\r\n":                                                       false,
		"$?\r\n":                                                        false,
		"$99999999999999999999\r\n":                                     false,
		"*60000\r\n*60000\r\n":                                          false, // one after the other, nested
		"+" + strings.Repeat("x", 1<<17):                                false,
	} {
		for _, n := range []int{1, 7, 1 << 20} {
			err := fleet.CheckReply(stream, n)
			if (err == nil) != ok || err != nil && !errors.Is(err, fleet.ErrReplyTooLarge) {
				t.Errorf("%.40q in pieces of %d: %v; want ok %v", stream, n, err, ok)
			}
		}
	}
}

// A reply of a large length ended the process, which allocated what was announced.
func TestLargeReplyIsAFailedCall(t *testing.T) {
	for name, reply := range map[string]string{"string": "$99999999999\r\n", "array": "*2000000000\r\n", "map": "%500000000\r\n"} {
		t.Run(name, func(t *testing.T) {
			ln, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer ln.Close()
			go func() {
				for {
					c, err := ln.Accept()
					if err != nil {
						return
					}
					go func() {
						defer c.Close()
						for buf := make([]byte, 4096); ; {
							if _, err := c.Read(buf); err != nil {
								return
							}
							if _, err := c.Write([]byte(reply)); err != nil {
								return
							}
						}
					}()
				}
			}()
			m := join(t, fleet.Redis{Addresses: []string{ln.Addr().String()}}, quick())
			eventually(t, "the call fails for its reply", func() bool {
				_, problem := m.Mode()
				return strings.Contains(problem, "too large")
			})
		})
	}
}
