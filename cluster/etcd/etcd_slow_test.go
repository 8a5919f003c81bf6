//go:build slow && !noetcd

package etcd

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cluster"
	"github.com/b6f6fdd7/troupe/cluster/membertest"
	"github.com/b6f6fdd7/troupe/tests/support/testetcd"
	"github.com/b6f6fdd7/troupe/tests/support/testrelay"
)

// world has a network for each address between the member and etcd.
type world struct {
	t      *testing.T
	server *testetcd.Server
	relays map[string]*testrelay.Relay
	silent map[string]*atomic.Bool
}

func (w *world) Membership(address string) cluster.Membership {
	if w.relays[address] == nil {
		silent := &atomic.Bool{}
		w.silent[address] = silent
		w.relays[address] = testrelay.New(w.t, "unix", w.server.Socket, func(_ *testrelay.Link, n int, _ bool) (int, testrelay.How) {
			if silent.Load() {
				return 0, testrelay.Silence
			}
			return n, testrelay.Open
		})
	}
	return newMembership(w.t, Options{Endpoints: []string{"unix://" + w.relays[address].Addr()}})
}

func (w *world) Cut(address string)  { w.silent[address].Store(true) }
func (w *world) Heal(address string) { w.silent[address].Store(false) }

func TestEtcdConforms(t *testing.T) {
	membertest.Conform(t, &world{t, testetcd.Start(t), make(map[string]*testrelay.Relay), make(map[string]*atomic.Bool)})
}

// While etcd is away, nobody is told to be gone. Nor is anybody after etcd is back, even if it has lost its data.
func TestEtcdIsAway(t *testing.T) {
	for what, away := range map[string]struct{ leave, back func(*testetcd.Server) }{
		"killed":       {(*testetcd.Server).Kill, (*testetcd.Server).Run},
		"without data": {(*testetcd.Server).Kill, func(s *testetcd.Server) { s.Forget(); s.Run() }},
		"stopped":      {(*testetcd.Server).Pause, (*testetcd.Server).Continue},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := testetcd.Start(t)
			m := newMembership(t, Options{Endpoints: []string{s.Endpoint}})
			var all []*membertest.Member
			for _, name := range []string{"a", "b", "c"} {
				j := membertest.Join(t, m, name, name+"-1")
				defer j.Leave()
				all = append(all, j)
			}
			for _, j := range all {
				j.Await("all", has("a-1", "b-1", "c-1"))
			}
			away.leave(s)
			for _, j := range all {
				j.Await("an error", failed)
			}
			time.Sleep(2 * cluster.Gone) // a running etcd would end all leases
			away.back(s)
			for _, j := range all {
				j.Await("the news of all nodes", func(k membertest.Known) bool {
					if len(k.Lost) > 0 {
						t.Fatalf("%s was told that these are gone: %v", j.Node().ID, k.Lost)
					}
					return has("a-1", "b-1", "c-1")(k) && k.All >= 2
				})
			}
			all[2].Leave() // and who leaves now is missed
			all[0].Await("the others", has("a-1", "b-1"))
		})
	}
}
