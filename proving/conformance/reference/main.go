// Command reference is a plain server of net/http, HTTP/2 with and without TLS:
// what the gate is compared with, since it stands on it.
package main

import (
	"fmt"
	"net/http"
	"os"
	"time"
)

func main() {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	s := &http.Server{
		Addr: os.Args[1], Protocols: protocols, ReadHeaderTimeout: 10 * time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok")) }),
	}
	serve := s.ListenAndServe
	if len(os.Args) > 2 {
		serve = func() error { return s.ListenAndServeTLS(os.Args[2], os.Args[3]) }
	}
	fmt.Fprintln(os.Stderr, "reference:", serve())
	os.Exit(1)
}
