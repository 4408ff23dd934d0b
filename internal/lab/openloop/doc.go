// Package openloop sends a load as real users do: arrivals are scheduled ahead,
// whatever the answers are, and a latency counts from the moment at which its
// request was due. A [Load] drives any sender; an [HTTPSender] makes the requests
// of one over HTTP, as the reference client does.
package openloop
