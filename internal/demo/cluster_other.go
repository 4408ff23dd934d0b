//go:build !unix

package demo

import (
	"context"
	"errors"
)

// cluster is a server that runs on other systems only.
type cluster struct{}

func findCluster() *cluster { return nil }

func (*cluster) start(context.Context) (address string, ended <-chan struct{}, err error) {
	return "", nil, errors.ErrUnsupported
}

func (*cluster) sql(context.Context, ...string) error { return errors.ErrUnsupported }
