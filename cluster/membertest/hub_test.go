package membertest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/b6f6fdd7/troupe/cluster"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// hubWorld cuts by address, where a Hub cuts by id.
type hubWorld struct {
	Hub
	ids map[string]string
}

// noting notes the id of a member before it runs.
type noting struct {
	w       *hubWorld
	address string
}

func (n noting) Run(ctx context.Context, self func() cluster.Node, changed <-chan struct{}, news func(cluster.News)) {
	n.w.mu.Lock()
	n.w.ids[n.address] = self().ID
	n.w.mu.Unlock()
	n.w.Run(ctx, self, changed, news)
}

func (w *hubWorld) Membership(address string) cluster.Membership { return noting{w, address} }

func (w *hubWorld) id(address string) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ids[address]
}

func (w *hubWorld) Cut(address string)  { w.Hub.Cut(w.id(address)) }
func (w *hubWorld) Heal(address string) { w.Hub.Heal(w.id(address)) }

func TestHubConforms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { Conform(t, &hubWorld{ids: make(map[string]string)}) })
}

func TestCutMembersStayForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &Hub{Silent: time.Second}
		a, b := Join(t, h, "a", "a-1"), Join(t, h, "b", "b-1")
		defer a.Leave()
		defer b.Leave()
		a.awaitNodes(a, b)
		h.Cut("b-1")
		time.Sleep(time.Second - 1)
		synctest.Wait()
		a.awaitNodes(a, b)
		h.Heal("b-1")
		h.Cut("b-1") // from now on, anew
		time.Sleep(time.Second - 1)
		synctest.Wait()
		a.awaitNodes(a, b)
		h.Heal("b-1")
		time.Sleep(10 * time.Second)
		a.awaitNodes(a, b)
		h.Cut("b-1")
		time.Sleep(time.Second + 1)
		a.awaitNodes(a)
		h.Heal("b-1")
		a.awaitNodes(a, b)
	})
}
