//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"strings"

	"github.com/b6f6fdd7/troupe/actors/peer"
	"github.com/b6f6fdd7/troupe/cluster"
	"github.com/b6f6fdd7/troupe/cluster/etcd"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/hold"
	"github.com/b6f6fdd7/troupe/transport"
)

// clusterFlags are the flags of troupe serve about other servers.
type clusterFlags struct {
	members, node, advertise, listen string
	labels                           []string
	files                            cluster.Files

	membership func(*cluster.Cluster) (cluster.Membership, error) // by check; nil: there is no cluster
	parsed     map[string]string                                  // of labels, by check
}

// check completes flags that do not contradict each other.
func (f *clusterFlags) check() (err error) {
	if f.members == "" {
		if f.advertise != "" || f.node != "" || f.listen != "" || len(f.labels) > 0 || f.files != (cluster.Files{}) {
			return errors.New("--advertise, --node, --node-label, --cluster-listen, --cluster-cert, --cluster-key, --cluster-ca and --cluster-revoked need --cluster")
		}
		return nil
	}
	if f.node == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("--node: the machine has no name: %w", err)
		}
		f.node, _, _ = strings.Cut(strings.ToLower(host), ".")
	}
	host, port, err := net.SplitHostPort(f.advertise)
	if err != nil || host == "" || port == "" || port == "0" {
		return fmt.Errorf("--advertise %q: write HOST:PORT, where the other nodes reach this one", f.advertise)
	}
	if f.listen == "" {
		f.listen = "0.0.0.0:" + port
		if ip := net.ParseIP(host); ip != nil {
			f.listen = f.advertise
		}
	}
	if _, err := netip.ParseAddrPort(f.listen); err != nil {
		return fmt.Errorf("--cluster-listen %q: write IP:PORT, because a name can mean any address: %w", f.listen, err)
	}
	if f.files.Certificate == "" || f.files.Key == "" || f.files.CA == "" {
		return errors.New("--cluster needs --cluster-cert, --cluster-key and --cluster-ca: troupe node-certs makes them")
	}
	f.parsed = make(map[string]string)
	for _, label := range f.labels {
		key, value, ok := strings.Cut(label, "=")
		if !ok {
			return fmt.Errorf("--node-label %q: write KEY=VALUE", label)
		}
		f.parsed[key] = value
	}
	if err := (cluster.Wish{Labels: f.parsed}).Validate(); err != nil {
		return fmt.Errorf("--node-label: %w", err)
	}
	f.membership, err = f.engine()
	return err
}

// engine returns what makes the membership of --cluster.
func (f *clusterFlags) engine() (func(*cluster.Cluster) (cluster.Membership, error), error) {
	kind, rest, _ := strings.Cut(f.members, ":")
	switch kind {
	case "static":
		addresses := strings.Split(rest, ",")
		for _, at := range addresses {
			if host, port, err := net.SplitHostPort(at); err != nil || host == "" || port == "" {
				return nil, fmt.Errorf("--cluster %s: %q: write static:HOST:PORT,HOST:PORT, with the addresses of --advertise", f.members, at)
			}
		}
		return f.peers(func(context.Context) ([]string, error) { return addresses, nil }), nil
	case "dns":
		host, port, err := net.SplitHostPort(rest)
		if err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("--cluster %s: write dns:HOST:PORT, where HOST has an address for each node", f.members)
		}
		return f.peers(func(ctx context.Context) (addresses []string, err error) {
			ips, err := net.DefaultResolver.LookupHost(ctx, host)
			for _, ip := range ips {
				addresses = append(addresses, net.JoinHostPort(ip, port))
			}
			return addresses, err
		}), nil
	case "etcd", "etcds":
		return f.etcd(kind, strings.TrimPrefix(rest, "//"))
	}
	return nil, fmt.Errorf("--cluster %q: choose etcd://HOST:PORT, etcds://HOST:PORT, static:HOST:PORT,HOST:PORT or dns:HOST:PORT", f.members)
}

// peers returns what makes a membership without a server for it.
func (f *clusterFlags) peers(addresses func(context.Context) ([]string, error)) func(*cluster.Cluster) (cluster.Membership, error) {
	return func(c *cluster.Cluster) (cluster.Membership, error) {
		return cluster.Peers{Addresses: addresses, Ask: c.Ask}, nil
	}
}

// etcd returns what makes a membership in etcd. list is HOST:PORT,HOST:PORT/PREFIX.
func (f *clusterFlags) etcd(kind, list string) (func(*cluster.Cluster) (cluster.Membership, error), error) {
	hosts, prefix, found := strings.Cut(list, "/")
	if found && prefix != "" {
		prefix = "/" + prefix
	}
	scheme := "http://"
	if kind == "etcds" {
		scheme = "https://"
	}
	var endpoints []string
	for at := range strings.SplitSeq(hosts, ",") {
		if host, port, err := net.SplitHostPort(at); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("--cluster %s: %q: write %s://HOST:PORT,HOST:PORT, perhaps with /PREFIX", f.members, at, kind)
		}
		endpoints = append(endpoints, scheme+at)
	}
	return func(c *cluster.Cluster) (cluster.Membership, error) {
		o := etcd.Options{Endpoints: endpoints, Prefix: prefix, Log: c.Log()}
		if kind == "etcds" {
			o.TLS = c.TLS()
		}
		m, err := etcd.New(o)
		if err != nil {
			return nil, fmt.Errorf("--cluster %s: %w", f.members, err)
		}
		return m, nil
	}, nil
}

// open returns the cluster of flags that check has accepted; nil: there is none. connections are as in cluster.Options, and port completes the options of the port for other nodes.
func (f *clusterFlags) open(o *serveOptions, held *hold.Server, log *slog.Logger, connections func() map[string]int, port func(*transport.ServerOptions)) (*cluster.Cluster, error) {
	if f.membership == nil {
		return nil, nil
	}
	if o.users == "" && !o.config.RequireSandbox {
		log.Warn("programs of clients can read the key of this node, and with it act for everybody on all nodes: run them as other users (--users-file) or in sandboxes (--require-sandbox)")
	}
	return cluster.New(cluster.Options{
		Name: f.node, Incarnation: held.Incarnation(), Address: f.advertise, Listen: f.listen, Labels: f.parsed,
		Version: o.config.Version, MaxSessions: o.config.MaxSessions,
		Each:        cluster.Account{Sessions: o.config.MaxSessionsEach, Processes: o.config.MaxProcessesEach, Connections: o.maxConnectionsEach},
		Connections: connections,
		Membership:  f.membership, Files: f.files, Dialect: peer.Greetings(), Log: log, Audit: o.config.Audit, Shares: o.config.Shares,
		Transport: func(t *transport.ServerOptions) {
			port(t)
			url := "wss://" + f.listen
			if file := held.Sockets()[url]; file != nil {
				t.Kept = map[string]*os.File{url: file}
			}
		},
	})
}

// others returns the kept sockets without that of the port for other nodes.
func (f *clusterFlags) others(kept map[string]*os.File) map[string]*os.File {
	rest := make(map[string]*os.File)
	for url, file := range kept {
		if f.membership == nil || url != "wss://"+f.listen {
			rest[url] = file
		}
	}
	return rest
}
