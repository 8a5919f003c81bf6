// Package etcd keeps the membership of a cluster in etcd: a key for each node, with a lease of cluster.Gone. The node renews the lease. If the
// node is silent, the lease ends, etcd deletes the key, and the other nodes hear of the deletion. Package cluster then asks the node itself: only a
// node that does not answer is lost.
//
// A binary built with the tag noetcd has only the errors of this package, and is 3 MB smaller (7 MB without
// the tag grpcnotrace).
package etcd

import (
	"crypto/tls"
	"log/slog"
)

// Prefix is the default of Options.Prefix.
const Prefix = "/troupe/nodes/"

// Options say where etcd is.
type Options struct {
	// Endpoints are servers of one etcd: http://HOST:PORT, https://HOST:PORT, unix:///PATH. At least one must answer.
	Endpoints []string
	// Prefix begins the keys of the cluster's nodes, each prefix is a cluster. "" means Prefix. A missing / at the end is added.
	Prefix string
	TLS    *tls.Config // of https endpoints; nil: the certificates of the system
	// Username and Password of a user who may read and write keys with the Prefix. "": etcd asks for no user.
	Username, Password string
	Log                *slog.Logger // nil: slog.Default()
}
