//go:build noetcd

package etcd

import (
	"errors"

	"github.com/b6f6fdd7/troupe/cluster"
)

// New fails: this binary has no client of etcd.
func New(Options) (cluster.Membership, error) {
	return nil, errors.New("this binary was built without etcd (-tags noetcd)")
}
