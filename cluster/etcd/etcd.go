//go:build !noetcd

package etcd

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/b6f6fdd7/troupe/cluster"
)

const (
	renewEvery = cluster.Gone / 4       // so a lease lasts for three lost renewals
	putEvery   = 500 * time.Millisecond // of a node that changes all the time
	answerIn   = time.Second            // how long a request may take
	retryAfter = 500 * time.Millisecond // after a failed connection
	leaveIn    = 2 * time.Second        // how long Run says goodbye
	settleIn   = cluster.Gone * 3 / 2   // see link.settled
	probeIn    = 300 * time.Millisecond // how long a failure is examined
)

// settle is a variable for tests.
var settle = func() <-chan time.Time { return time.After(settleIn) }

// New returns a membership in etcd. Run connects: an unreachable etcd is news, no error of New.
func New(o Options) (cluster.Membership, error) {
	o, err := o.checked()
	if err != nil {
		return nil, err
	}
	return membership{o}, nil
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

type membership struct{ o Options }

// Run implements cluster.Membership. The id of the node must not change in a Run.
//
// After an outage, the first news have the nodes that etcd has, and news with All follow after settleIn: the other nodes have lost etcd as
// well, and may come back later than this one.
func (m membership) Run(ctx context.Context, self func() cluster.Node, changed <-chan struct{}, news func(cluster.News)) {
	r := &run{o: m.o, self: self, changed: changed, news: news, ignored: make(map[string]bool)}
	for ctx.Err() == nil {
		r.registered = time.Time{}
		err := r.link(ctx)
		if ctx.Err() != nil {
			return
		}
		lasted := !r.registered.IsZero() && time.Since(r.registered) > answerIn
		switch {
		case lasted && errors.Is(err, rpctypes.ErrLeaseNotFound):
			// This process was stopped, or etcd was out of reach, for longer than the lease.
			r.o.Log.Warn("etcd: the lease of this node has ended, the node registers again", "node", self().ID)
		case lasted && !errors.Is(err, errSilent):
			// Only a connection has ended, and another server of etcd may answer.
		default:
			news(cluster.News{Err: r.explain(ctx, err)})
		}
		if lasted { // hurry: the lease has not ended yet
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

// run is the state of a Run, and its goroutine owns it.
type run struct {
	o       Options
	self    func() cluster.Node
	changed <-chan struct{}
	news    func(cluster.News)

	joined     bool            // the news with All of a first link have been told
	registered time.Time       // by this link; zero: not yet
	ignored    map[string]bool // logged keys whose value is no node
	warned     bool            // of long leases
}

// errSilent means that etcd has not answered in time.
var errSilent = errors.New("no answer")

// link is a lease, and a connection to renew the lease, put the node and watch the others.
type link struct {
	*run
	client *clientv3.Client
	lease  clientv3.LeaseID
	key    string

	// Of the last put.
	value     []byte
	notBefore time.Time // of the next
	putting   bool
	dirty     bool // the node has changed since

	nodes map[string]cluster.Node // by key
	watch clientv3.WatchChan
	// settled is due when the other nodes have had the time to register again after an outage. Until then no node is told to be gone. Nil: not
	// after an outage, or settled was due.
	settled <-chan time.Time
}

// link keeps the node registered until ctx is done, the lease or the connection has ended, or etcd is silent.
func (r *run) link(ctx context.Context) error {
	// Not ctx itself: the client revokes the lease after the end of ctx.
	clientCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, cancel)
	client, err := clientv3.New(clientv3.Config{
		Endpoints: r.o.Endpoints, TLS: r.tls(), Username: r.o.Username, Password: r.o.Password,
		DialTimeout: answerIn, Context: clientCtx, Logger: zap.NewNop(),
	})
	stop()
	if err != nil {
		return err
	}
	defer client.Close()

	l := &link{run: r, client: client, nodes: make(map[string]cluster.Node)}
	request, cancelRequest := context.WithTimeout(ctx, answerIn)
	defer cancelRequest()
	lease, err := client.Grant(request, int64(cluster.Gone/time.Second))
	if err != nil {
		return err
	}
	l.lease = lease.ID
	if ttl := time.Duration(lease.TTL) * time.Second; ttl > cluster.Gone && !r.warned {
		r.warned = true
		r.o.Log.Warn("etcd: leases are longer than asked for, so the others hear of a crash later: its --election-timeout is long", "lease", ttl, "want", cluster.Gone)
	}
	defer func() {
		if ctx.Err() != nil {
			leave, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveIn)
			defer cancel()
			client.Revoke(leave, l.lease) // if this fails, the lease ends by itself
		}
	}()

	inner, stopInner := context.WithCancel(ctx)
	var goroutines sync.WaitGroup
	defer goroutines.Wait()
	defer stopInner()
	renewed := make(chan error, 1)
	goroutines.Go(func() { renewed <- renew(inner, client, l.lease) })
	if err := l.register(inner); err != nil {
		return err
	}
	r.registered = time.Now()
	return l.serve(inner, renewed, &goroutines)
}

// tls returns the configuration for endpoints with https.
func (r *run) tls() *tls.Config {
	if r.o.TLS == nil && slices.ContainsFunc(r.o.Endpoints, func(e string) bool { return strings.HasPrefix(e, "https://") }) {
		return &tls.Config{}
	}
	return r.o.TLS
}

// register puts the node, and reads the nodes that there are.
func (l *link) register(ctx context.Context) error {
	request, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	node := l.self()
	l.key = l.o.Prefix + node.ID
	var err error
	if l.value, err = json.Marshal(node); err != nil {
		return err
	}
	l.notBefore = time.Now().Add(putEvery)
	if _, err := l.client.Put(request, l.key, string(l.value), clientv3.WithLease(l.lease)); err != nil {
		return err
	}
	if l.joined {
		l.settled = settle()
	}
	return l.read(ctx)
}

// read tells of all nodes, and watches them from then on.
func (l *link) read(ctx context.Context) error {
	request, cancel := context.WithTimeout(ctx, answerIn)
	defer cancel()
	all, err := l.client.Get(request, l.o.Prefix, clientv3.WithPrefix())
	if err != nil {
		return silence(request, err)
	}
	clear(l.nodes)
	for _, kv := range all.Kvs {
		l.decode(kv)
	}
	l.news(cluster.News{Nodes: slices.Collect(maps.Values(l.nodes)), All: l.settled == nil})
	l.joined = true
	// WithRequireLeader: a server of etcd ends the watch when it has lost the others. The next link goes to the others.
	watch, cancel := context.WithCancel(clientv3.WithRequireLeader(ctx))
	silent := time.AfterFunc(answerIn, cancel) // Watch waits for etcd
	l.watch = l.client.Watch(watch, l.o.Prefix, clientv3.WithPrefix(), clientv3.WithRev(all.Header.Revision+1))
	if !silent.Stop() {
		return errSilent
	}
	return nil
}

// decode puts a node into nodes. A value without a node is ignored, and the last node stays.
func (l *link) decode(kv *mvccpb.KeyValue) (node cluster.Node, ok bool) {
	key := string(kv.Key)
	err := json.Unmarshal(kv.Value, &node)
	if err == nil && l.o.Prefix+node.ID != key {
		err = fmt.Errorf("the id in the value is %q", node.ID)
	}
	if err != nil {
		if !l.ignored[key] {
			l.ignored[key] = true
			l.o.Log.Warn("etcd: a key has no node of the cluster, and is ignored", "key", key, "err", err)
		}
		return node, false
	}
	delete(l.ignored, key)
	l.nodes[key] = node
	return node, true
}

// serve is the life of a link. Its goroutines end with ctx.
func (l *link) serve(ctx context.Context, renewed <-chan error, goroutines *sync.WaitGroup) error {
	put := make(chan error, 1)
	due := time.NewTimer(0)
	defer due.Stop()
	for {
		if wait := time.Until(l.notBefore); l.dirty && !l.putting && wait > 0 {
			due.Reset(wait)
		} else if l.dirty && !l.putting {
			l.dirty = false
			if err := l.put(ctx, put, goroutines); err != nil {
				return err
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case err := <-renewed:
			return err
		case err := <-put:
			if l.putting = false; err != nil {
				return err
			}
		case <-l.changed:
			l.dirty = true
		case <-due.C:
		case <-l.settled:
			l.settled = nil
			l.news(cluster.News{Nodes: slices.Collect(maps.Values(l.nodes)), All: true})
		case w, ok := <-l.watch:
			if err := l.seen(ctx, w, ok); err != nil {
				return err
			}
		}
	}
}

// put starts to put the node, unless etcd has it already. The outcome goes to done.
func (l *link) put(ctx context.Context, done chan<- error, goroutines *sync.WaitGroup) error {
	value, err := json.Marshal(l.self())
	if err != nil || bytes.Equal(value, l.value) {
		return err
	}
	l.value, l.putting, l.notBefore = value, true, time.Now().Add(putEvery)
	client, key, lease := l.client, l.key, l.lease
	goroutines.Go(func() {
		request, cancel := context.WithTimeout(ctx, answerIn)
		defer cancel()
		_, err := client.Put(request, key, string(value), clientv3.WithLease(lease))
		done <- silence(request, err)
	})
	return nil
}

// seen tells of the events of a watch. ok is false after the end of the watch.
func (l *link) seen(ctx context.Context, w clientv3.WatchResponse, ok bool) error {
	switch {
	case !ok:
		return errors.New("the watch has ended")
	case w.CompactRevision != 0: // etcd has forgotten events that this watch has not seen yet
		return l.read(ctx)
	case w.Err() != nil:
		return w.Err()
	}
	touched := make(map[string]string) // ids by key
	for _, e := range w.Events {
		key := string(e.Kv.Key)
		if e.Type == clientv3.EventTypePut {
			if node, ok := l.decode(e.Kv); ok {
				touched[key] = node.ID
			}
			continue
		}
		if key == l.key { // somebody else has deleted the key, since the lease is renewed
			l.value, l.dirty = nil, true
		}
		delete(l.ignored, key)
		if node, known := l.nodes[key]; known {
			delete(l.nodes, key)
			touched[key] = node.ID
		}
	}
	var told cluster.News
	for key, id := range touched {
		if node, there := l.nodes[key]; there {
			told.Nodes = append(told.Nodes, node)
		} else if l.settled == nil {
			told.Gone = append(told.Gone, id)
		}
	}
	if len(told.Nodes)+len(told.Gone) > 0 {
		l.news(told)
	}
	return nil
}

// renew renews a lease until ctx is done, the lease has ended, or etcd is silent.
func renew(ctx context.Context, client *clientv3.Client, lease clientv3.LeaseID) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	// Not client.KeepAlive, which renews once a second and tells nothing of a silent etcd.
	stream, err := pb.NewLeaseClient(client.ActiveConnection()).LeaseKeepAlive(ctx)
	if err != nil {
		return err
	}
	for {
		silent := time.AfterFunc(answerIn, func() { cancel(errSilent) })
		stream.Send(&pb.LeaseKeepAliveRequest{ID: int64(lease)}) // Recv has the error
		answer, err := stream.Recv()
		silent.Stop()
		switch {
		case context.Cause(ctx) != nil:
			return context.Cause(ctx)
		case err != nil:
			return err
		case answer.TTL <= 0:
			return rpctypes.ErrLeaseNotFound
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(renewEvery):
		}
	}
}

// silence makes errSilent of the error of a request without an answer in time.
func silence(request context.Context, err error) error {
	if err != nil && errors.Is(request.Err(), context.DeadlineExceeded) {
		return errSilent
	}
	return err
}

// explain names the endpoints, the fault, and how to correct it.
func (r *run) explain(ctx context.Context, err error) error {
	where := "etcd at " + strings.Join(r.o.Endpoints, ", ")
	switch {
	case errors.Is(err, rpctypes.ErrAuthFailed):
		return fmt.Errorf("%s: user %s: %w: check the user name and the password", where, r.o.Username, err)
	case errors.Is(err, rpctypes.ErrUserEmpty), errors.Is(err, rpctypes.ErrAuthOldRevision), errors.Is(err, rpctypes.ErrInvalidAuthToken):
		return fmt.Errorf("%s: %w: etcd asks for a user name and a password", where, err)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("%s: %w: user %q needs a role that may read and write keys that begin with %s", where, err, r.o.Username, r.o.Prefix)
	case errors.Is(err, rpctypes.ErrNoSpace):
		return fmt.Errorf("%s: %w: compact and defragment it, then disarm its alarm (etcdctl)", where, err)
	}
	// The client of etcd says "context deadline exceeded" of each fault of a network.
	for _, endpoint := range r.o.Endpoints {
		if fault := probe(ctx, endpoint, r.tls()); fault != nil {
			return fmt.Errorf("etcd at %s cannot be reached: %w: check that etcd runs there, and that this node may connect", endpoint, fault)
		}
	}
	return fmt.Errorf("%s does not answer: %w: check that etcd is healthy (etcdctl endpoint health) and has a leader", where, err)
}

// probe connects to an endpoint, and returns what is in the way.
func probe(ctx context.Context, endpoint string, config *tls.Config) error {
	u, err := url.Parse(endpoint)
	if err != nil {
		return err
	}
	network, address := "tcp", u.Host
	if u.Scheme == "unix" {
		network, address = "unix", u.Host+u.Path
	}
	ctx, cancel := context.WithTimeout(ctx, probeIn)
	defer cancel()
	conn, err := (&net.Dialer{}).DialContext(ctx, network, address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if u.Scheme != "https" || config == nil {
		return nil
	}
	config = config.Clone()
	if config.ServerName == "" {
		config.ServerName = u.Hostname()
	}
	return tls.Client(conn, config).HandshakeContext(ctx)
}
