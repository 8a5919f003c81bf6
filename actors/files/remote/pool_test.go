package remote

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/protocol"
)

// fakeJail answers OpStat when the test says so.
type fakeJail struct {
	view   *View
	ended  chan struct{}
	closed bool
	answer chan struct{}
	broken bool // not intact
}

func (j *fakeJail) View() *View            { return j.view }
func (j *fakeJail) Intact() bool           { return !j.broken }
func (j *fakeJail) Ended() <-chan struct{} { return j.ended }
func (j *fakeJail) Close()                 { j.closed = true }
func (j *fakeJail) Do(ctx context.Context, c files.Call) (r files.Result, err error) {
	switch {
	case c.At.Path == "held":
		r.File = heldFile{}
		return r, nil
	case c.Op != files.OpStat:
		return files.Do(ctx, c)
	}
	select {
	case <-j.answer:
		return r, nil
	case <-j.ended:
		return r, ErrEnded
	case <-ctx.Done():
		return r, ctx.Err()
	}
}

// fakes starts fakeJails. Its fields belong to the bubble of the test.
type fakes struct {
	jails  []*fakeJail
	delay  time.Duration
	err    error
	gaveUp int
	shows  atomic.Value // string: the view of new jails; "": as asked
}

func (f *fakes) start(ctx context.Context, _ string, v *View) (Jail, error) {
	select {
	case <-time.After(f.delay):
	case <-ctx.Done():
		f.gaveUp++
		return nil, ctx.Err()
	}
	if f.err != nil {
		return nil, f.err
	}
	if other, _ := f.shows.Load().(string); other != "" {
		v = viewOf(other)
	}
	j := &fakeJail{view: v, ended: make(chan struct{}), answer: make(chan struct{}, 1000)}
	f.jails = append(f.jails, j)
	return j, nil
}

func viewOf(name string) *View { return &View{key: name} }

// quick makes a call that is answered at once.
func (f *fakes) quick(o *Owner, policy string) error {
	_, err := o.Under(viewOf(policy))(context.Background(), files.Call{Op: files.OpCanonicalize, At: files.Place{Path: "/"}})
	return err
}

// slow makes a call that waits for fakeJail.answer.
func (f *fakes) slow(ctx context.Context, o *Owner, policy string) chan error {
	done := make(chan error, 1)
	go func() {
		_, err := o.Under(viewOf(policy))(ctx, files.Call{Op: files.OpStat})
		done <- err
	}()
	return done
}

// inPool runs a test with a Pool in a bubble.
func inPool(t *testing.T, test func(t *testing.T, f *fakes, p *Pool)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f := &fakes{delay: time.Millisecond}
		test(t, f, NewPool(f.start))
	})
}

func (p *Pool) want(t *testing.T, jails int) {
	t.Helper()
	synctest.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.jails != jails || len(p.all) != jails {
		t.Errorf("%d jails, %d in use or idle, want %d", p.jails, len(p.all), jails)
	}
}

// Calls under one policy share a jail, which ends when it has been idle.
func TestIdleJailEnds(t *testing.T) {
	inPool(t, func(t *testing.T, f *fakes, p *Pool) {
		o := p.Owner("o")
		must(t, f.quick(o, "a"))
		time.Sleep(idleTime - time.Second)
		must(t, f.quick(o, "a"))
		call := f.slow(t.Context(), o, "a")
		time.Sleep(10 * idleTime)
		p.want(t, 1) // in use
		f.jails[0].answer <- struct{}{}
		must(t, <-call)
		time.Sleep(idleTime - 1)
		p.want(t, 1)
		time.Sleep(time.Nanosecond)
		p.want(t, 0)
		if len(f.jails) != 1 || !f.jails[0].closed {
			t.Errorf("%d jails", len(f.jails))
		}
		must(t, f.quick(o, "a"))
		must(t, f.quick(o, "b"))
		p.want(t, 2)
		o.Close()
		p.want(t, 0)
		if err := f.quick(o, "a"); !errors.Is(err, ErrEnded) {
			t.Errorf("after the end of the owner: %v", err)
		}
	})
}

// The death of a jail fails its calls, and the next call starts another.
func TestJailDies(t *testing.T) {
	inPool(t, func(t *testing.T, f *fakes, p *Pool) {
		o := p.Owner("o")
		must(t, f.quick(o, "a"))
		call := f.slow(t.Context(), o, "a")
		synctest.Wait()
		close(f.jails[0].ended)
		if err := <-call; !errors.Is(err, ErrEnded) {
			t.Error(err)
		}
		p.want(t, 0)
		must(t, f.quick(o, "a"))
		p.want(t, 1)
		o.Close()
		synctest.Wait()
	})
}

// A failed start fails the calls that wait for it, and no others. A start that nobody waits for is given up.
func TestStartFails(t *testing.T) {
	inPool(t, func(t *testing.T, f *fakes, p *Pool) {
		o := p.Owner("o")
		f.err = errors.New("no namespaces")
		a, b := f.slow(t.Context(), o, "a"), f.slow(t.Context(), o, "a")
		if err := <-a; !errors.Is(err, f.err) {
			t.Error(err)
		}
		if err := <-b; !errors.Is(err, f.err) {
			t.Error(err)
		}
		p.want(t, 0)
		f.err, f.delay = nil, time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		a, b = f.slow(ctx, o, "a"), f.slow(t.Context(), o, "a")
		synctest.Wait()
		cancel()
		if err := <-a; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		p.want(t, 1)
		time.Sleep(time.Hour)
		synctest.Wait()
		f.jails[0].answer <- struct{}{}
		must(t, <-b)

		ctx, cancel = context.WithCancel(t.Context())
		a = f.slow(ctx, o, "b")
		synctest.Wait()
		cancel()
		<-a
		p.want(t, 1)
		a = f.slow(t.Context(), o, "b")
		synctest.Wait()
		o.Close()
		<-a
		p.want(t, 0)
		if f.gaveUp != 2 {
			t.Errorf("%d starts were given up, want 2", f.gaveUp)
		}
	})
}

// An owner has few jails, and a Pool has some. One without a call makes room; if all have calls, the next is refused.
func TestJailsAreBounded(t *testing.T) {
	inPool(t, func(t *testing.T, f *fakes, p *Pool) {
		o := p.Owner("o")
		for i := range maxOwned {
			must(t, f.quick(o, fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		must(t, f.quick(o, "0")) // now 1 is idle the longest
		must(t, f.quick(o, "more"))
		p.want(t, maxOwned)
		if !f.jails[1].closed || f.jails[0].closed {
			t.Error("another jail than the one that was idle the longest has ended")
		}
		var calls []chan error
		for _, policy := range []string{"0", "2", "3", "more"} {
			calls = append(calls, f.slow(t.Context(), o, policy))
		}
		synctest.Wait()
		refused, ok := errors.AsType[*protocol.Error](f.quick(o, "one more"))
		if !ok || refused.Kind() != protocol.KindBusy {
			t.Errorf("beyond the bound: %v", refused)
		}
		for _, j := range f.jails {
			j.answer <- struct{}{}
		}
		for _, call := range calls {
			must(t, <-call)
		}
		var owners []*Owner
		for len(owners) < maxJails {
			owners = append(owners, p.Owner("o"))
			must(t, f.quick(owners[len(owners)-1], "x"))
		}
		p.want(t, maxJails)
		if len(o.members) != 0 {
			t.Errorf("the oldest have not made room: %d", len(o.members))
		}
		for _, o := range owners {
			f.slow(t.Context(), o, "x")
		}
		synctest.Wait()
		if err := f.quick(o, "y"); err == nil {
			t.Error("beyond the bound of the pool")
		}
		for _, o := range owners {
			o.Close()
		}
		p.want(t, 0)
	})
}

// A jail that is old, or has lost a mount, gets no new calls. It ends after its last call.
func TestJailRetires(t *testing.T) {
	inPool(t, func(t *testing.T, f *fakes, p *Pool) {
		o := p.Owner("o")
		for name, spoil := range map[string]func(){
			"old":    func() { time.Sleep(maxAge) },
			"broken": func() { f.jails[0].broken = true },
		} {
			f.jails = nil
			must(t, f.quick(o, "a"))
			call := f.slow(t.Context(), o, "a")
			synctest.Wait()
			spoil()
			must(t, f.quick(o, "a"))
			must(t, f.quick(o, "a"))
			p.want(t, 2)
			f.jails[0].answer <- struct{}{}
			must(t, <-call)
			p.want(t, 1)
			if len(f.jails) != 2 || !f.jails[0].closed || f.jails[1].closed {
				t.Errorf("%s: %d jails", name, len(f.jails))
			}
			f.jails[1].broken = true // and idle
			must(t, f.quick(o, "a"))
			p.want(t, 1)
			o.Close()
			p.want(t, 0)
			o = p.Owner("o")
		}
		// Jails that nobody may call any more make room.
		for i := range maxOwned {
			f.jails = nil
			must(t, f.quick(o, fmt.Sprint(i)))
			f.slow(t.Context(), o, fmt.Sprint(i))
			synctest.Wait()
			if i == 0 {
				f.jails[0].broken = true
				must(t, f.quick(o, "0"))
				f.slow(t.Context(), o, "0")
			}
		}
		p.want(t, maxOwned)
		o.Close()
		p.want(t, 0)
	})
}

// A jail whose files have changed during its start is for the call that has begun the start, and for calls with the new view.
func TestJailShowsAnotherView(t *testing.T) {
	inPool(t, func(t *testing.T, f *fakes, p *Pool) {
		o := p.Owner("o")
		f.shows.Store("b")
		must(t, f.quick(o, "a"))
		must(t, f.quick(o, "b"))
		p.want(t, 1)
		f.shows.Store("")
		must(t, f.quick(o, "a"))
		p.want(t, 2)
		// Two calls at the same time: the start may be older than the look of the second call.
		f.shows.Store("d")
		first, second := f.slow(t.Context(), o, "c"), f.slow(t.Context(), o, "c")
		synctest.Wait()
		time.Sleep(f.delay)
		synctest.Wait()
		f.shows.Store("")
		time.Sleep(f.delay)
		p.want(t, 4)
		for _, j := range f.jails[2:] {
			j.answer <- struct{}{}
		}
		must(t, <-first)
		must(t, <-second)
		o.Close()
		p.want(t, 0)
	})
}

// A new file keeps its jail until the file has its place.
func TestNewFileKeepsItsJail(t *testing.T) {
	inPool(t, func(t *testing.T, f *fakes, p *Pool) {
		dir := t.TempDir()
		for _, end := range []func(files.Opened){
			func(o files.Opened) { must(t, o.Commit(t.Context())) },
			func(o files.Opened) { o.Discard() },
		} {
			o := p.Owner("o")
			opened := open(t, o.Under(viewOf("a")), dir+"/f", protocol.FsReplace)
			time.Sleep(10 * idleTime)
			p.want(t, 1)
			end(opened)
			time.Sleep(idleTime)
			p.want(t, 0)
		}
	})
}

// The end of a new file, also if it comes twice, leaves the jail to another new file.
func TestFileEndsTwice(t *testing.T) {
	inPool(t, func(t *testing.T, f *fakes, p *Pool) {
		dir, by := t.TempDir(), p.Owner("o").Under(viewOf("a"))
		var opened []files.Opened
		for _, name := range []string{"/f", "/g"} {
			opened = append(opened, open(t, by, dir+name, protocol.FsReplace))
		}
		opened[0].Discard()
		opened[0].Discard()
		time.Sleep(10 * idleTime)
		p.want(t, 1)
		opened[1].Discard()
		time.Sleep(idleTime)
		p.want(t, 0)
	})
}

// A jail is not in use after a call that could not open its file.
func TestFailedOpenLeavesItsJail(t *testing.T) {
	inPool(t, func(t *testing.T, _ *fakes, p *Pool) {
		none := files.Call{Op: files.OpOpen, At: files.Place{Path: t.TempDir() + "/none"}}
		if o, err := p.Owner("o").Under(viewOf("a"))(t.Context(), none); err == nil {
			t.Errorf("opened %+v", o)
		}
		time.Sleep(idleTime)
		p.want(t, 0)
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// heldFile is a file that a fakeJail holds.
type heldFile struct{ *os.File }

func (heldFile) Commit(context.Context) error { return nil }
func (heldFile) Discard()                     {}
func (heldFile) Here() *os.File               { return nil }

// open opens a file.
func open(t testing.TB, by files.Caller, path string, mode protocol.FsMode) files.Opened {
	t.Helper()
	r, err := by(t.Context(), files.Call{Op: files.OpOpen, At: files.Place{Path: path}, Mode: mode})
	must(t, err)
	return r.File
}

// The jail of an open file that it holds stays until the file is closed.
func TestHeldFileKeepsItsJail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := new(fakes)
		p := NewPool(f.start)
		o := open(t, p.Owner("o").Under(AsUser(&User{Name: "u"})), "held", protocol.FsRead)
		time.Sleep(2 * idleTime)
		if p.Len() != 1 {
			t.Errorf("%d jails", p.Len())
		}
		must(t, o.Commit(t.Context()))
		time.Sleep(2 * idleTime)
		if p.Len() != 0 {
			t.Errorf("%d jails after the end of the file", p.Len())
		}
	})
}

// Calls of other users, and in other sandboxes, never share a jail.
func TestUsersShareNoJail(t *testing.T) {
	keys := make(map[string]bool)
	of := func(uid, gid uint32, groups ...uint32) *User {
		return &User{User: fork.User{UID: uid, GID: gid, Groups: groups}}
	}
	views := []*View{NewView(nil, new(sandbox.Policy), nil)}
	for _, u := range []*User{of(1, 1), of(2, 1), of(1, 2), of(1, 1, 3), of(1, 1, 3, 4)} {
		views = append(views, AsUser(u), NewView(nil, new(sandbox.Policy), u), NewView(nil, &sandbox.Policy{Files: true}, u))
	}
	for _, v := range views {
		if keys[v.key] {
			t.Errorf("two views share a jail: %+v", v.User)
		}
		keys[v.key] = true
	}
	if first, again := AsUser(of(1, 1)), AsUser(of(1, 1)); first.key != again.key {
		t.Error("the calls of a user have no common jail")
	}
}

// A jail without a sandbox has no mask that somebody could take away. So it gets calls as long as they come, and nobody cuts its open
// files off because it is old.
func TestJailOfAUserStays(t *testing.T) {
	inPool(t, func(t *testing.T, f *fakes, p *Pool) {
		o := p.Owner("o")
		defer o.Close()
		by := o.Under(AsUser(&User{Name: "u"}))
		opened := open(t, by, "held", protocol.FsRead)
		time.Sleep(2 * maxAge)
		_, err := by(t.Context(), files.Call{Op: files.OpCanonicalize, At: files.Place{Path: "/"}})
		must(t, err)
		p.want(t, 1)
		must(t, opened.Commit(t.Context()))
	})
}

// A user has a part of the jails only, also with those that do not end. An idle jail gives way.
func TestJailsOfAUserAreBounded(t *testing.T) {
	inPool(t, func(t *testing.T, f *fakes, p *Pool) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		of := func(uid uint32) *View { return AsUser(&User{User: fork.User{UID: uid}, Name: "u"}) }
		call := func(uid uint32) chan error {
			done := make(chan error, 1)
			go func() {
				o := p.Owner("o")
				_, err := o.Under(of(uid))(ctx, files.Call{Op: files.OpStat})
				done <- err
				<-ctx.Done()
				o.Close()
			}()
			time.Sleep(time.Second) // the jail starts
			synctest.Wait()
			return done
		}
		for range maxOfUser {
			call(1)
		}
		if err := <-call(1); err == nil || !strings.Contains(err.Error(), "as user \"u\", which is the most") {
			t.Errorf("one jail more of a user: %v", err)
		}
		other := call(2)
		f.jails[0].answer <- struct{}{} // this jail is idle, and its place goes to another
		synctest.Wait()
		more := call(1)
		if !f.jails[0].closed || len(more) > 0 {
			t.Error("an idle jail keeps its place")
		}
		f.jails[maxOfUser].answer <- struct{}{}
		if err := <-other; err != nil {
			t.Errorf("a call of another user: %v", err)
		}
	})
}
