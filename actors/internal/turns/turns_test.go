package turns

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// While calls hang, a connection without a call still gets a turn, as long as there is any. A waiting
// connection is told of a free turn, and is refused when all calls hang.
func TestFileTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(9)
		end := make(chan struct{})
		told := 0
		w := &Waiter{func() { told++ }}
		hang := func(under int) {
			t.Helper()
			if ok, err := turns.Take(under, w); !ok || err != nil {
				t.Fatalf("call %d: %v, %v", under, ok, err)
			}
			go turns.Run(func(*Turn) { <-end })
		}
		for i := range 6 {
			hang(i)
		}
		if ok, err := turns.Take(6, w); ok || err != nil || told > 0 {
			t.Errorf("%v, %v: it does not wait", ok, err)
		}
		hang(0)
		end <- struct{}{}
		synctest.Wait()
		if told != 1 || turns.threads.running != 6 || turns.Hanging() != 0 {
			t.Errorf("told %d times, %d run", told, turns.threads.running)
		}
		if ok, err := turns.Take(6, w); ok || err != nil {
			t.Errorf("%v, %v: it does not wait", ok, err)
		}
		time.Sleep(hangTime + 1)
		synctest.Wait()
		if told != 2 || turns.Hanging() != 6 {
			t.Errorf("told %d times, %d hang", told, turns.Hanging())
		}
		if ok, err := turns.Take(6, w); ok || err == nil {
			t.Errorf("%v, %v: it is not refused", ok, err)
		}
		for range 3 {
			hang(0)
		}
		if ok, err := turns.Take(0, w); ok || err != nil {
			t.Errorf("%v, %v: it does not wait", ok, err)
		}
		turns.Forget(w)
		close(end)
		synctest.Wait()
		if told != 2 || turns.Hanging() != 0 || turns.threads.running != 0 {
			t.Errorf("told %d times, %d run, %d hang", told, turns.threads.running, turns.Hanging())
		}
	})
}

// visits are calls. Each enters filesystems, and hangs there until end is closed.
type visits struct {
	t       *testing.T
	pool    *Pool
	end     chan struct{}
	results chan error // of Enter
}

// enter makes n calls, each about the filesystems.
func (v *visits) enter(n int, filesystem ...string) {
	v.t.Helper()
	for range n {
		if ok, err := v.pool.Take(0, nil); !ok || err != nil {
			v.t.Fatalf("no turn: %v", err)
		}
		go v.pool.Run(func(turn *Turn) {
			for _, name := range filesystem {
				if err := turn.Enter(v.t.Context(), name); err != nil {
					v.results <- err
					return
				}
			}
			v.results <- nil
			<-v.end
		})
		synctest.Wait()
	}
}

// want checks how many calls run, at a filesystem, and wait to go there; and the results of Enter so far, nil or not.
func (v *visits) want(running, at, waiting int, refused ...bool) {
	v.t.Helper()
	synctest.Wait()
	var got []bool
	for len(v.results) > 0 {
		got = append(got, <-v.results != nil)
	}
	v.pool.mu.Lock()
	defer v.pool.mu.Unlock()
	r := room{}
	if v.pool.at["a"] != nil {
		r = *v.pool.at["a"]
	}
	if v.pool.threads.running != running || r.running != at || len(r.waiting) != waiting || !slices.Equal(got, refused) {
		v.t.Errorf("%d calls run, %d there, %d wait, refused %v; want %d, %d, %d, %v", v.pool.threads.running, r.running, len(r.waiting), got, running, at, waiting, refused)
	}
}

// A hung filesystem has half of the turns. Further calls wait without a turn, until the calls there count as hanging; then all are
// refused. Calls about another filesystem go on. A call about both filesystems gets both places or none.
func TestFilesystemsHaveShares(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &visits{t, New(12), make(chan struct{}), make(chan error, 100)} // 8 for all, 4 a filesystem
		v.enter(4, "a", "a")
		v.want(4, 4, 0, false, false, false, false)
		v.enter(3, "a")
		v.want(4, 4, 3)
		v.enter(2, "b")
		v.want(6, 4, 3, false, false)
		v.enter(1, "b", "a")
		v.want(6, 4, 4)
		time.Sleep(hangTime + 1)
		v.want(6, 4, 0, true, true, true, true)
		v.enter(1, "a")
		v.want(6, 4, 0, true)
		if n := v.pool.Hanging(); n != 6 {
			t.Errorf("%d hang", n)
		}
		close(v.end)
		v.want(0, 0, 0)
		if len(v.pool.at) != 0 || v.pool.Hanging() != 0 {
			t.Errorf("left: %v, %d hang", v.pool.at, v.pool.Hanging())
		}
	})
}

// A waiting call goes on when another call has left the filesystem. The time of the wait does not count as hanging.
func TestFilesystemsAreWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &visits{t, New(12), make(chan struct{}), make(chan error, 100)}
		v.enter(4, "a")
		time.Sleep(hangTime / 2)
		v.enter(2, "a")
		v.want(4, 4, 2, false, false, false, false)
		v.end <- struct{}{}
		v.want(4, 4, 1, false)
		time.Sleep(hangTime - 1)
		v.want(4, 4, 1)
		if n := v.pool.Hanging(); n != 3 {
			t.Errorf("%d hang", n)
		}
		v.pool.mu.Lock()
		v.pool.threads.running += 9 // no thread is left
		v.pool.mu.Unlock()
		v.end <- struct{}{}
		v.want(12, 3, 0)
		v.pool.mu.Lock()
		v.pool.threads.running -= 9
		v.pool.threads.tell(1)
		v.pool.mu.Unlock()
		v.want(4, 4, 0, false)
		close(v.end)
		v.want(0, 0, 0)
	})
}

// The end of its connection ends the wait of a call. If the call has just been told of a place, another call gets the place.
func TestWaitForFilesystemEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := &visits{t, New(12), make(chan struct{}), make(chan error, 100)}
		v.enter(4, "a")
		v.want(4, 4, 0, false, false, false, false)
		v.pool.Take(0, nil)
		ctx, cancel := context.WithCancel(t.Context())
		go v.pool.Run(func(turn *Turn) { v.results <- turn.Enter(ctx, "a") })
		synctest.Wait()
		v.enter(1, "a")
		v.want(4, 4, 2)
		v.pool.mu.Lock()
		cancel()
		v.pool.at["a"].running -= 1 // a place is free, and the first is told
		v.pool.tell(v.pool.at["a"], v.pool.half)
		v.pool.mu.Unlock()
		v.want(5, 4, 0, true, false)
		v.pool.mu.Lock()
		v.pool.at["a"].running += 1
		v.pool.mu.Unlock()
		close(v.end)
		v.want(0, 0, 0)
	})
}

// A call that waits for another process holds no turn and no place at a filesystem, and hangs for nobody.
func TestLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := New(3)
		end := make(chan struct{})
		for range 2 * turns.most {
			if ok, err := turns.Take(0, nil); !ok || err != nil {
				t.Fatal(ok, err)
			}
			go turns.Run(func(turn *Turn) {
				if err := turn.Enter(t.Context(), "fs"); err != nil {
					t.Error(err)
				}
				turn.Leave()
				<-end
			})
			synctest.Wait()
		}
		time.Sleep(2 * hangTime)
		if turns.Hanging() != 0 || turns.threads.running != 0 || len(turns.at) != 0 {
			t.Errorf("%d hang, %d run, %d places", turns.Hanging(), turns.threads.running, len(turns.at))
		}
		close(end)
		synctest.Wait()
		if turns.threads.running != 0 {
			t.Errorf("%d run", turns.threads.running)
		}
	})
}

// A turn that has ended enters nothing: a watch looks on after its call.
func TestTurnsEnd(t *testing.T) {
	p := New(12)
	p.Take(0, nil)
	var kept *Turn
	p.Run(func(turn *Turn) { kept = turn })
	if err := kept.Enter(t.Context(), "a"); err != nil || len(p.at) != 0 || p.threads.running != 0 {
		t.Errorf("%v, %v, %d run", err, p.at, p.threads.running)
	}
}
