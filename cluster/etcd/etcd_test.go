//go:build !noetcd

package etcd

import (
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/b6f6fdd7/troupe/cluster"
	"github.com/b6f6fdd7/troupe/cluster/membertest"
	"github.com/b6f6fdd7/troupe/tests/support/testbuf"
	"github.com/b6f6fdd7/troupe/tests/support/testca"
	"github.com/b6f6fdd7/troupe/tests/support/testetcd"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

func newMembership(t *testing.T, o Options) cluster.Membership {
	t.Helper()
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// client returns a client of the test.
func client(t *testing.T, s *testetcd.Server) *clientv3.Client {
	t.Helper()
	c, err := clientv3.New(clientv3.Config{Endpoints: []string{s.Endpoint}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func has(ids ...string) func(membertest.Known) bool {
	return func(k membertest.Known) bool {
		for _, id := range ids {
			if _, ok := k.Nodes[id]; !ok {
				return false
			}
		}
		return k.Err == nil && len(k.Nodes) == len(ids)
	}
}

func failed(k membertest.Known) bool { return k.Err != nil }

// failedWith may hear another error first: a slow etcd does not answer.
func failedWith(text string) func(membertest.Known) bool {
	return func(k membertest.Known) bool { return k.Err != nil && strings.Contains(k.Err.Error(), text) }
}

// count returns how often a log has a text.
func count(log *testbuf.Buffer, text string) int { return strings.Count(log.String(), text) }

// After etcd has lost its data, a node that is back first does not tell the others to be gone until they have had time to come back.
func TestOthersComeBackLater(t *testing.T) {
	s, settled := testetcd.Start(t), make(chan time.Time)
	defer func(was func() <-chan time.Time) { settle = was }(settle)
	settle = func() <-chan time.Time { return settled }
	c := client(t, s)
	put := func(ids ...string) {
		t.Helper()
		for _, id := range ids {
			for { // the client of the test has to find the new etcd, too
				if _, err := c.Put(t.Context(), Prefix+id, `{"id":"`+id+`"}`); err == nil {
					break
				} else if t.Context().Err() != nil {
					t.Fatal(err)
				}
			}
		}
	}
	put("b-1", "c-1")
	a := membertest.Join(t, newMembership(t, Options{Endpoints: []string{s.Endpoint}}), "a", "a-1")
	defer a.Leave()
	a.Await("all", has("a-1", "b-1", "c-1"))
	s.Kill()
	a.Await("an error", failed)
	s.Forget()
	s.Run()
	a.Await("etcd", func(k membertest.Known) bool { return k.Err == nil })
	put("b-1", "d-1", "e-1")
	a.Await("a node that joins", has("a-1", "b-1", "c-1", "d-1", "e-1"))
	if _, err := c.Delete(t.Context(), Prefix+"e-1"); err != nil {
		t.Fatal(err)
	}
	put("f-1")
	a.Await("a node that joins after another has left", has("a-1", "b-1", "c-1", "d-1", "e-1", "f-1"))
	close(settled)
	a.Await("who is there", has("a-1", "b-1", "d-1", "f-1"))
	a.Await("the losses", func(k membertest.Known) bool {
		slices.Sort(k.Lost)
		return slices.Equal(k.Lost, []string{"c-1", "e-1"})
	})
}

// A stopped process loses its lease, and registers again.
func TestLostLease(t *testing.T) {
	s, log := testetcd.Start(t), new(testbuf.Buffer)
	m := newMembership(t, Options{Endpoints: []string{s.Endpoint}, Log: slog.New(slog.NewTextHandler(log, nil))})
	a := membertest.Join(t, m, "a", "a-1")
	defer a.Leave()
	b := membertest.Join(t, newMembership(t, Options{Endpoints: []string{s.Endpoint}}), "b", "b-1")
	defer b.Leave()
	b.Await("both", has("a-1", "b-1"))
	time.Sleep(2 * answerIn) // the link has lasted
	c := client(t, s)
	kv, err := c.Get(t.Context(), Prefix+"a-1")
	if err != nil || len(kv.Kvs) != 1 {
		t.Fatal(kv, err)
	}
	if _, err := c.Revoke(t.Context(), clientv3.LeaseID(kv.Kvs[0].Lease)); err != nil {
		t.Fatal(err)
	}
	b.Await("a to be gone for a moment", func(k membertest.Known) bool { return slices.Contains(k.Lost, "a-1") })
	b.Await("both again", has("a-1", "b-1"))
	a.Await("both again, without an error", has("a-1", "b-1"))
	if n := count(log, "the lease of this node has ended"); n != 1 {
		t.Errorf("%d lines of the log", n)
	}
}

// A deleted key is put again.
func TestDeletedKey(t *testing.T) {
	s := testetcd.Start(t)
	a := membertest.Join(t, newMembership(t, Options{Endpoints: []string{s.Endpoint}}), "a", "a-1")
	defer a.Leave()
	a.Await("itself", has("a-1"))
	if _, err := client(t, s).Delete(t.Context(), Prefix+"a-1"); err != nil {
		t.Fatal(err)
	}
	a.Await("its loss", func(k membertest.Known) bool { return slices.Contains(k.Lost, "a-1") })
	a.Await("itself", has("a-1"))
}

// The node's key is deleted when Run returns, not at the end of the lease.
func TestGoodbye(t *testing.T) {
	s := testetcd.Start(t)
	a := membertest.Join(t, newMembership(t, Options{Endpoints: []string{s.Endpoint}, Prefix: "/other/nodes"}), "a", "a-1")
	a.Await("itself", has("a-1"))
	c := client(t, s)
	if kv, err := c.Get(t.Context(), "/other/nodes/a-1"); err != nil || len(kv.Kvs) != 1 {
		t.Fatal(kv, err)
	}
	a.Leave()
	if kv, err := c.Get(t.Context(), "/other/nodes/a-1"); err != nil || len(kv.Kvs) != 0 {
		t.Fatal(kv, err)
	}
	if leases, err := c.Leases(t.Context()); err != nil || len(leases.Leases) != 0 {
		t.Fatal(leases, err)
	}
}

// Run ends although etcd is silent.
func TestLeaveSilentEtcd(t *testing.T) {
	s := testetcd.Start(t)
	a := membertest.Join(t, newMembership(t, Options{Endpoints: []string{s.Endpoint}}), "a", "a-1")
	a.Await("itself", has("a-1"))
	s.Pause()
	defer s.Continue()
	a.Leave()
}

// However often a node changes, it puts at most twice a second, and the last change arrives.
func TestPutsAreFew(t *testing.T) {
	s := testetcd.Start(t)
	a := membertest.Join(t, newMembership(t, Options{Endpoints: []string{s.Endpoint}}), "a", "a-1")
	defer a.Leave()
	a.Await("itself", has("a-1"))
	puts, begun := s.Metrics()["etcd_mvcc_put_total"], time.Now()
	var last int64
	for ; time.Since(begun) < 3*putEvery; last++ {
		a.Set(last + 1)
		time.Sleep(time.Millisecond)
	}
	a.Await("the last change", func(k membertest.Known) bool { return k.Nodes["a-1"].Load.Sessions == last })
	most := 1 + float64(time.Since(begun)/putEvery)
	if n := s.Metrics()["etcd_mvcc_put_total"] - puts; n < 1 || n > most {
		t.Errorf("%v puts, want 1 to %v", n, most)
	}
	a.Set(last) // no change
	a.Set(last + 1)
	a.Await("a change", func(k membertest.Known) bool { return k.Nodes["a-1"].Load.Sessions == last+1 })
}

// etcd has no leases shorter than its --election-timeout permits.
func TestLongLeases(t *testing.T) {
	s, log := testetcd.Start(t, "--election-timeout=3000", "--heartbeat-interval=300"), new(testbuf.Buffer)
	a := membertest.Join(t, newMembership(t, Options{Endpoints: []string{s.Endpoint}, Log: slog.New(slog.NewTextHandler(log, nil))}), "a", "a-1")
	defer a.Leave()
	a.Await("itself", has("a-1"))
	if n := count(log, "leases are longer than asked for"); n != 1 {
		t.Errorf("%d lines of the log", n)
	}
}

func TestNoNodeInAKey(t *testing.T) {
	s, log := testetcd.Start(t), new(testbuf.Buffer)
	c := client(t, s)
	put := func(key, value string) {
		t.Helper()
		if _, err := c.Put(t.Context(), Prefix+key, value); err != nil {
			t.Fatal(err)
		}
	}
	put("before", "no JSON")
	a := membertest.Join(t, newMembership(t, Options{Endpoints: []string{s.Endpoint}, Log: slog.New(slog.NewTextHandler(log, nil))}), "a", "a-1")
	defer a.Leave()
	for range 3 {
		put("before", "still no JSON")
		put("x-1", `{"id":"y-1"}`)
	}
	put("z-1", `{"id":"z-1","name":"z"}`)
	a.Await("the node", has("a-1", "z-1"))
	put("z-1", `{"id":`)
	put("w-1", `{"id":"w-1"}`)
	a.Await("the node before the fault, and another", has("a-1", "z-1", "w-1"))
	for _, want := range []string{"key=" + Prefix + "before", "key=" + Prefix + "x-1", "key=" + Prefix + "z-1"} {
		if n := count(log, want); n != 1 {
			t.Errorf("%d lines with %s", n, want)
		}
	}
}

// A watch whose events have been compacted reads all nodes again.
func TestCompaction(t *testing.T) {
	s := testetcd.Start(t)
	c := client(t, s)
	var told []cluster.News
	l := &link{run: &run{o: Options{Prefix: Prefix}, news: func(n cluster.News) { told = append(told, n) }}, client: c, nodes: make(map[string]cluster.Node)}
	var revision int64
	for _, value := range []string{`{"id":"a-1"}`, `{"id":"a-1","name":"a"}`} {
		answer, err := c.Put(t.Context(), Prefix+"a-1", value)
		if err != nil {
			t.Fatal(err)
		}
		revision = answer.Header.Revision
	}
	if _, err := c.Compact(t.Context(), revision); err != nil {
		t.Fatal(err)
	}
	l.nodes[Prefix+"b-1"] = cluster.Node{ID: "b-1"} // has left, and the event is compacted
	l.watch = c.Watch(t.Context(), Prefix, clientv3.WithPrefix(), clientv3.WithRev(1))
	w, ok := <-l.watch
	if err := l.seen(t.Context(), w, ok); err != nil {
		t.Fatal(err)
	}
	if len(told) != 1 || !told[0].All || len(told[0].Nodes) != 1 || told[0].Nodes[0].Name != "a" {
		t.Fatalf("%+v", told)
	}
	if _, err := c.Put(t.Context(), Prefix+"c-1", `{"id":"c-1"}`); err != nil {
		t.Fatal(err)
	}
	w, ok = <-l.watch
	if err := l.seen(t.Context(), w, ok); err != nil || len(told) != 2 || len(told[1].Nodes) != 1 || told[1].Nodes[0].ID != "c-1" {
		t.Fatalf("%+v, %v", told, err)
	}
}

// Of one answer with several events of a key, the last counts.
func TestEventsOfOneKey(t *testing.T) {
	var told cluster.News
	l := &link{run: &run{o: Options{Prefix: Prefix}, news: func(n cluster.News) { told = n }}, nodes: map[string]cluster.Node{Prefix + "b-1": {ID: "b-1"}}}
	put := func(id string) *clientv3.Event {
		return &clientv3.Event{Type: clientv3.EventTypePut, Kv: &mvccpb.KeyValue{Key: []byte(Prefix + id), Value: []byte(`{"id":"` + id + `"}`)}}
	}
	remove := func(id string) *clientv3.Event {
		return &clientv3.Event{Type: clientv3.EventTypeDelete, Kv: &mvccpb.KeyValue{Key: []byte(Prefix + id)}}
	}
	events := []*clientv3.Event{put("a-1"), remove("a-1"), remove("b-1"), put("b-1"), remove("never-known")}
	if err := l.seen(t.Context(), clientv3.WatchResponse{Events: events}, true); err != nil {
		t.Fatal(err)
	}
	if len(told.Nodes) != 1 || told.Nodes[0].ID != "b-1" || !slices.Equal(told.Gone, []string{"a-1"}) {
		t.Errorf("%+v", told)
	}
}

func TestErrorsOfEtcd(t *testing.T) {
	s := testetcd.Start(t, "--bcrypt-cost=4") // a password costs 1 ms, not 60
	c := client(t, s)
	for _, f := range []func() error{
		func() error { _, err := c.RoleAdd(t.Context(), "root"); return err },
		func() error { _, err := c.UserAdd(t.Context(), "root", "secret"); return err },
		func() error { _, err := c.UserGrantRole(t.Context(), "root", "root"); return err },
		func() error { _, err := c.UserAdd(t.Context(), "reader", "secret"); return err },
		func() error { _, err := c.AuthEnable(t.Context()); return err },
	} {
		// A slow etcd says that a request has timed out, and carries it out.
		for err := f(); err != nil && !strings.Contains(err.Error(), "already"); err = f() {
			if t.Context().Err() != nil || !strings.Contains(err.Error(), "timed out") {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Endpoints: []string{s.Endpoint}, Username: "root", Password: "wrong"}, s.Endpoint + ": user root: etcdserver: authentication failed, invalid user ID or password: check the user name and the password"},
		{Options{Endpoints: []string{s.Endpoint}}, s.Endpoint + ": etcdserver: user name is empty: etcd asks for a user name and a password"},
		{Options{Endpoints: []string{s.Endpoint}, Username: "reader", Password: "secret"}, s.Endpoint + `: etcdserver: permission denied: user "reader" needs a role that may read and write keys that begin with /troupe/nodes/`},
		{Options{Endpoints: []string{"unix://" + t.TempDir() + "/nobody"}}, "/nobody cannot be reached: dial unix"},
	} {
		a := membertest.Join(t, newMembership(t, c.o), "a", "a-1")
		a.Await(c.want, failedWith(c.want))
		a.Leave()
	}
	a := membertest.Join(t, newMembership(t, Options{Endpoints: []string{s.Endpoint}, Username: "root", Password: "secret"}), "a", "a-1")
	defer a.Leave()
	a.Await("itself", has("a-1"))
}

func TestTLS(t *testing.T) {
	ca := testca.New(t)
	s := testetcd.StartTLS(t, ca)
	a := membertest.Join(t, newMembership(t, Options{Endpoints: []string{s.Endpoint}, TLS: ca.Client(t, &x509.Certificate{})}), "a", "a-1")
	a.Await("itself", has("a-1"))
	a.Leave()
	for want, config := range map[string]*tls.Config{
		s.Endpoint + " cannot be reached: tls: failed to verify certificate: x509: certificate signed by unknown authority": nil,
		s.Endpoint + " does not answer: ": ca.Client(t, nil), // etcd refuses the client after the handshake
	} {
		a := membertest.Join(t, newMembership(t, Options{Endpoints: []string{s.Endpoint}, TLS: config}), "a", "a-1")
		a.Await(want, failedWith(want))
		a.Leave()
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{}, "no endpoint of etcd is given, for example http://127.0.0.1:2379"},
		{Options{Endpoints: []string{"127.0.0.1:2379"}}, "endpoint of etcd 127.0.0.1:2379: must be http://HOST:PORT, https://HOST:PORT or unix:///PATH"},
		{Options{Endpoints: []string{"http://a:1"}, Username: "u"}, "etcd needs both a user name and a password, or neither"},
	} {
		if _, err := New(c.o); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
