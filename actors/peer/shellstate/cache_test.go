package shellstate

import (
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// settle ends a Capture as the session and the goroutine of Begin do.
func (c *Capture) settle(s *State) {
	if s == nil {
		c.fail()
		return
	}
	c.state.Store(s)
	close(c.done)
}

func key(scope string) Key { return KeyOf(&protocol.ShellSnapshot{ScopeID: scope}, "", child.Spec{}) }

// Starts share a state only if the startup files would see the same. Variables of the start's own env do
// not count.
func TestKeys(t *testing.T) {
	of := func(scope, name, path, dir string, p *protocol.EnvPolicy, own ...string) Key {
		s := &protocol.ShellSnapshot{ScopeID: scope, Shell: protocol.Shell{Name: name, Path: path}}
		s.SetEnv(p, own)
		return KeyOf(s, "", child.Spec{Dir: dir})
	}
	policy := protocol.EnvPolicy{Inherit: "all", Set: map[string]string{"A": "1", "B": "2"}}
	as := func(user string, spec child.Spec) Key {
		s := &protocol.ShellSnapshot{ScopeID: "s", Shell: protocol.Shell{Name: "bash", Path: "/bin/bash"}}
		s.SetEnv(&policy, nil)
		spec.Dir = "/d"
		return KeyOf(s, user, spec)
	}
	mask, files := uint32(0o22), uint64(9)
	same := policy
	same.Set = map[string]string{"B": "2", "A": "1"}
	first := of("s", "bash", "/bin/bash", "/d", &policy, "A")
	if of("s", "bash", "/bin/bash", "/d", &same) != first {
		t.Error("the order of a map, or the variables of a start, count")
	}
	excludes := policy
	excludes.Exclude = []string{"A"}
	all := []Key{
		first,
		of("t", "bash", "/bin/bash", "/d", &policy),
		of("s", "sh", "/bin/bash", "/d", &policy),
		of("s", "bash", "/bin/sh", "/d", &policy),
		of("s", "bash", "/bin/bash", "/e", &policy),
		of("s", "bash", "/bin/bash", "/d", nil),
		of("s", "bash", "/bin/bash", "/d", &excludes),
		as("nobody", child.Spec{}),
		as("", child.Spec{Umask: &mask}),
		as("", child.Spec{NoNewPrivs: true}),
		as("", child.Spec{Limits: protocol.ProcessLimits{NoFile: &files}}),
		as("", child.Spec{Sandbox: protocol.ReadOnlySandbox("/d")}),
		as("", child.Spec{Sandbox: protocol.WorkspaceSandbox("/d")}),
	}
	for i, k := range all {
		if slices.Contains(all[:i], k) {
			t.Errorf("%d is no other key", i)
		}
	}
}

// A failed capture is repeated twice, not sooner than after a second. Then the key stays without a state.
func TestFailuresAreRepeated(t *testing.T) {
	var c Cache
	now := time.Now()
	var attempts []*Capture
	for range 10 {
		is := c.Look(now, key("s"), nil)
		if !slices.Contains(attempts, is) {
			attempts = append(attempts, is)
			if again := c.Look(now, key("s"), nil); again != is {
				t.Error("a pending capture is not shared")
			}
			is.settle(nil)
			is.failed = now
		}
		if soon := c.Look(now.Add(retryAfter-1), key("s"), nil); soon != is {
			t.Error("repeated too soon")
		}
		now = now.Add(retryAfter)
	}
	if len(attempts) != maxAttempts {
		t.Errorf("%d attempts", len(attempts))
	}
	is := c.Look(now, key("good"), nil)
	is.settle(new(State))
	if c.Look(now.Add(time.Hour), key("good"), nil) != is {
		t.Error("a good capture is repeated")
	}
}

// A session keeps the last captures. Captures under way are never dropped: a further start runs as it is.
func TestCacheIsBounded(t *testing.T) {
	var c Cache
	var all []*Capture
	for i := range maxCached {
		all = append(all, c.Look(time.Now(), key(string(rune('a'+i))), nil))
	}
	if c.Look(time.Now(), key("more"), nil) != nil {
		t.Error("17 captures are under way")
	}
	all[0].settle(new(State))
	all[1].settle(new(State))
	if c.Look(time.Now(), key("a"), nil) != all[0] { // now b is the longest unused
		t.Error("another capture")
	}
	if c.Look(time.Now(), key("more"), nil) == nil {
		t.Error("b does not give way")
	}
	all[1].Release() // its process
	select {
	case <-all[1].unused:
	default:
		t.Error("a capture that gave way is used")
	}
	if c.Look(time.Now(), key("a"), nil) != all[0] || c.Look(time.Now(), key("b"), nil) == all[1] {
		t.Error("a gave way")
	}
	if len(c.entries) > maxCached {
		t.Errorf("%d entries", len(c.entries))
	}
}

// A process that is given up before its start leaves no place taken.
func TestUnusedCapturesGiveWay(t *testing.T) {
	var c Cache
	for i := range 2 * maxCached {
		is := c.Look(time.Now(), key(string(rune('a'+i))), nil)
		if is == nil {
			t.Fatalf("no place after %d", i)
		}
		is.Release()
	}
}

// A capture is charged as long as the cache or a process uses it.
func TestCapturesAreCharged(t *testing.T) {
	pool := budget.New(1 << 20)
	var c Cache
	is := c.Look(time.Now(), key("s"), pool.Account())
	if !is.charge(512<<10) || !is.charge(300<<10) || pool.Used() == 0 {
		t.Error("not charged")
	}
	is.Release()
	if pool.Used() == 0 {
		t.Error("the cache has the capture still")
	}
	is.Release()
	if is.charge(1 << 10); pool.Used() != 0 {
		t.Errorf("%d bytes of an unused capture", pool.Used())
	}
}

// A start never gets the state of another user, although its client asks for the same: the policy may have changed.
func TestStateOfAnotherUser(t *testing.T) {
	u := func(uid, gid uint32, groups ...uint32) *child.User {
		return &child.User{Name: "u", UID: uid, GID: gid, Groups: groups}
	}
	of := u(1, 2, 3)
	c := newCapture(new(Cache), nil)
	c.user = of
	c.settle(&State{})
	for _, tt := range []struct {
		user *child.User
		same bool
	}{{u(1, 2, 3), true}, {nil, false}, {u(2, 2, 3), false}, {u(1, 1, 3), false}, {u(1, 2), false}, {u(1, 2, 4), false}} {
		spec := child.Spec{Argv: []string{"/bin/bash", "-lc", "true"}, User: tt.user}
		got, err := Start{Capture: c, Shell: "bash"}.Wait(spec)
		if err != nil || slices.Equal(got.Argv, spec.Argv) == tt.same {
			t.Errorf("%+v gets %q, %v", tt.user, got.Argv, err)
		}
	}
	c = newCapture(new(Cache), nil)
	c.settle(&State{})
	if got, _ := (Start{Capture: c, Shell: "bash"}).Wait(child.Spec{Argv: []string{"/bin/bash", "-lc", "true"}, User: of}); len(got.Argv) != 3 {
		t.Errorf("a user gets the state of the server: %q", got.Argv)
	}
}
