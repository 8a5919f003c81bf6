package actors_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/internal/identity"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/hunt"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/b6f6fdd7/troupe/transport"
)

// TestResets is like TestResets of package tests, within a single program. So it can check more: only the actors
// of an empty troupe are left, and no goroutine at the end (TestMain).
func TestResets(t *testing.T) {
	t.Parallel()
	v := &vandal{recent: make(map[string][]time.Time)}
	resets(t, v, 100)
	if n := v.fired.Load(); n > 0 {
		t.Errorf("%d panics of ours", n)
	}
}

// The same while actors fail: actors stop instead of a restart, and the other way round.
func TestResetsAmongFailures(t *testing.T) {
	t.Parallel()
	v := &vandal{recent: make(map[string][]time.Time), pause: 10 * time.Millisecond}
	v.armed.Store(true)
	resets(t, v, 100)
	t.Logf("%d panics", v.fired.Load())
}

// resets has clients connect n times in all.
func resets(t *testing.T, v *vandal, n int) {
	if !testroot.Confined(t) { // the requests are random
		return
	}
	const most = 20 // processes of an identity
	slow := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "a beginning")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	}))
	defer slow.Close()
	seed := rand.Uint64()
	t.Logf("the seed is %d", seed)
	token := fmt.Sprintf("100000.%d%d", os.Getpid(), seed%1e9)
	troupe := start(t, actors.WithFaults(actors.Config{AllowHTTP: true, DetachedTTL: 50 * time.Millisecond, KillGrace: -1, MaxProcessesEach: most}, v.message, nil))
	dir := t.TempDir()

	who := [2]identity.Identity{{Name: "alice"}, {Name: "bob"}}
	var newest [len(who)]atomic.Pointer[string]
	const hunters = 4
	var all sync.WaitGroup
	for i := range hunters {
		h := hunt.New(seed, uint64(i), token, dir, slow.URL)
		all.Go(func() {
			for range n / hunters {
				reset(troupe, h, who[i%len(who)], &newest[i%len(who)])
			}
		})
	}
	all.Wait()
	v.armed.Store(false)

	waitFor(t, "only the actors of an empty troupe", func() bool {
		ids := actorsOf(troupe)
		slices.Sort(ids)
		return slices.Equal(ids, []string{"troupe", "troupe/connections", "troupe/registry", "troupe/sessions", "troupe/watch"})
	})
	if t.Failed() {
		t.Logf("there are %v", actorsOf(troupe))
	}
	waitFor(t, "no process", func() bool { return len(withArgument(token)) == 0 })
	for _, id := range who { // no place is lost, and none is won
		p := connectAs(t, troupe, id)
		p.open("")
		for i := range most {
			p.start(fmt.Sprint(i), "", "sleep", "1000")
		}
		if m := p.call("process/start", `{"processId":"x","argv":["true"],"cwd":"file:///","env":{},"tty":false}`); m.Error == nil || !strings.Contains(m.Error.Message, "max-processes-each") {
			t.Errorf("one process too many: %s, %+v", m.Result, m.Error)
		}
		p.call("session/close", "{}")
		p.close()
	}
	p := connect(t, troupe)
	p.open("")
	waitFor(t, "no child, and no output that is held", func() bool {
		var info protocol.ServerInfoResult
		if err := json.Unmarshal(p.call("server/info", "{}").Result, &info); err != nil {
			t.Fatal(err)
		}
		if info.Panics > 0 && v.fired.Load() == 0 {
			t.Fatalf("%d panics", info.Panics)
		}
		return info.Sessions == 1 && info.Connections == 1 && info.Children == 0 && info.HeldBytes == 0 && info.SpooledBytes == 0
	})
}

// reset connects, sends some of a batch, and closes at a random moment.
func reset(troupe *actors.Troupe, h *hunt.Hunt, id identity.Identity, newest *atomic.Pointer[string]) {
	ours, theirs := transport.Pipe("")
	troupe.Accept(theirs, actors.About{Identity: id})
	var reader sync.WaitGroup
	defer reader.Wait()
	reads := h.IntN(4) > 0
	if reads {
		reader.Go(func() {
			for {
				frame, err := ours.ReadMessage()
				if err != nil {
					return
				}
				var m struct{ Result struct{ SessionID string } }
				if json.Unmarshal(frame, &m); m.Result.SessionID != "" {
					newest.Store(&m.Result.SessionID)
				}
			}
		})
	}
	resume := ""
	if id := newest.Load(); id != nil && h.IntN(2) == 0 {
		resume = *id
	}
	frames := append(h.Handshake(resume), h.Batch()...)
	if h.IntN(4) == 0 {
		frames = frames[:h.IntN(len(frames))]
	}
	// Without a reader the server reads until what it has written fills its window.
	closed := time.AfterFunc(time.Duration(h.IntN(30))*time.Millisecond, func() { ours.Close(transport.CloseGoingAway, "cut") })
	for _, frame := range frames {
		if ours.WriteMessage([]byte(frame), false) != nil {
			break
		}
	}
	if h.IntN(2) == 0 && closed.Stop() {
		ours.Close(transport.CloseGoingAway, "cut") // at once
	}
}
