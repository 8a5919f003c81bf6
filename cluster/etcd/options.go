// Package etcd keeps the membership of a cluster in etcd: a key for each node, with a lease. The node renews the lease. If the node is
// silent, the lease ends, etcd deletes the key, and the other nodes hear of the deletion.
//
// A binary built with the tag noetcd has only the errors of this package, and is 9 MB smaller.
package etcd

import (
	"crypto/tls"
	"errors"
	"log/slog"
	"strings"
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

func (o Options) checked() (Options, error) {
	if len(o.Endpoints) == 0 {
		return o, errors.New("no endpoint of etcd is given, for example http://127.0.0.1:2379")
	}
	for _, e := range o.Endpoints {
		if scheme, rest, ok := strings.Cut(e, "://"); !ok || rest == "" || scheme != "http" && scheme != "https" && scheme != "unix" {
			return o, errors.New("endpoint of etcd " + e + ": must be http://HOST:PORT, https://HOST:PORT or unix:///PATH")
		}
	}
	if (o.Username == "") != (o.Password == "") {
		return o, errors.New("etcd needs both a user name and a password, or neither")
	}
	if o.Prefix == "" {
		o.Prefix = Prefix
	}
	if !strings.HasSuffix(o.Prefix, "/") {
		o.Prefix += "/"
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o, nil
}
