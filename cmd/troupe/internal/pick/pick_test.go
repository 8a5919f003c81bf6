package pick

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/b6f6fdd7/troupe/protocol"
)

// session is a session with processes. One whose id begins with † has ended.
func session(id, name string, processes ...string) (s protocol.SessionDetails) {
	s.SessionID, s.Name = id, name
	for _, id := range processes {
		process, ended := strings.CutPrefix(id, "†")
		s.List = append(s.List, info(process, ended, 0))
	}
	return s
}

func info(id string, ended bool, started int64) (p protocol.ProcessInfoResult) {
	p.ProcessID, p.State, p.StartedAtMs = id, string(protocol.StateRunning), started
	if ended {
		p.State = string(protocol.StateClosed)
	}
	return p
}

var some = []protocol.SessionDetails{
	session("01234567-aaaa", "build", "web", "db", "old", "a/b"),
	session("01234567-bbbb", "deploy", "web", "†old", "worker"),
	session("fedcba98-cccc", "", "lone", "†job"),
	session("fedcba99-dddd", "twin", "x"),
	session("abcdefab-eeee", "twin", "y", "†job"),
	session("11111111-ffff", "dir/sub", "z"),
}

func TestFindProcess(t *testing.T) {
	for _, c := range []struct {
		text string
		want Ref
		err  string
	}{
		{"lone", Ref{"fedcba98-cccc", "lone"}, ""},
		{"build/web", Ref{"01234567-aaaa", "web"}, ""},
		{"01234567-b/web", Ref{"01234567-bbbb", "web"}, ""},
		{"fe/lone", Ref{"fedcba98-cccc", "lone"}, ""},
		{"a/b", Ref{"01234567-aaaa", "a/b"}, ""},
		{"build/a/b", Ref{"01234567-aaaa", "a/b"}, ""},
		{"dir/sub/z", Ref{"11111111-ffff", "z"}, ""},
		{"old", Ref{"01234567-aaaa", "old"}, ""}, // the other web has ended
		{"deploy/old", Ref{"01234567-bbbb", "old"}, ""},
		{"twin/x", Ref{"fedcba99-dddd", "x"}, ""}, // the second twin has no such process
		{"web", Ref{}, `"web" names several processes: write one of build/web, deploy/web`},
		{"job", Ref{}, `"job" names several processes: write one of fedcba98/job, abcdefab/job`},
		{"wrker", Ref{}, `no process "wrker": did you mean worker?`},
		{"build/nothing-of-this", Ref{}, `no process "build/nothing-of-this": there are db, lone, old, worker, x, y, z, a/b and 5 more; see troupe ps --all`},
		{"/web", Ref{}, "there are"},
		{"", Ref{}, "there are"},
		{"\x1b[2J", Ref{}, `no process "\x1b[2J"`},
	} {
		got, err := FindProcess(some, c.text)
		if got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, %v; want %v, %q", c.text, got, err, c.want, c.err)
		}
	}
	if _, err := FindProcess(nil, "web"); !errors.Is(err, ErrUnknown) || err.Error() != `no process "web": there is none` {
		t.Error(err)
	}
}

// Of ended processes with a name, the newest is meant. One that is alive counts before.
func TestFindNewest(t *testing.T) {
	all := []protocol.SessionDetails{session("aaaaaaaa1", "web"), session("bbbbbbbb1", "web"), session("cccccccc1", "web")}
	for i, started := range []int64{5, 9, 7} {
		all[i].List = append(all[i].List, info("web", true, started))
	}
	if got, err := FindProcess(all, "web"); err != nil || got.Session != "bbbbbbbb1" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := FindProcess(all, "aaaaaaaa/web"); err != nil || got.Session != "aaaaaaaa1" {
		t.Errorf("%v, %v", got, err)
	}
	if got := Processes(all, ""); !slices.Equal(got, []string{"web", "aaaaaaaa/web", "cccccccc/web"}) {
		t.Errorf("%q", got)
	}
	all[0].List[0] = info("web", false, 5)
	if got, err := FindProcess(all, "web"); err != nil || got.Session != "aaaaaaaa1" {
		t.Errorf("one is alive: %v, %v", got, err)
	}
}

func TestFindProcesses(t *testing.T) {
	for text, want := range map[string]string{
		"lone":       "lone",
		"w*":         "build/web deploy/web worker",
		"deploy/*":   "deploy/web worker", // what has ended is left out
		"jo?":        "fedcba98/job abcdefab/job",
		"[xy]":       "x y",
		"dir/sub/*":  "z",
		"web":        `"web" names several processes: write one of build/web, deploy/web`,
		"nobody*":    `no process "nobody*": there are`,
		"[":          `"[" is not a pattern: * stands for characters`,
		"build/a/b?": `no process "build/a/b?"`,
	} {
		found, err := FindProcesses(some, text)
		var names []string
		for _, r := range found {
			names = append(names, Name(some, r))
		}
		if got := strings.Join(names, " "); err == nil && got != want || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: %q, %v; want %q", text, got, err, want)
		}
	}
}

func TestFindSession(t *testing.T) {
	for _, c := range []struct{ text, want, err string }{
		{"build", "01234567-aaaa", ""},
		{"01234567-bbbb", "01234567-bbbb", ""},
		{"11", "11111111-ffff", ""},
		{"twin", "", `"twin" names several sessions: write one of fedcba99, abcdefab`},
		{"0123", "", `write one of 01234567-a, 01234567-b`},
		{"biuld", "", "did you mean build?"},
		{"", "", "there are"},
	} {
		got, err := FindSession(some, c.text)
		if (got == nil) != (c.want == "") || got != nil && got.SessionID != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, %v; want %q, %q", c.text, got, err, c.want, c.err)
		}
	}
	// A name counts before an id. Both sessions stay reachable if the name of a session is the id of another.
	all := []protocol.SessionDetails{session("abc1", ""), session("def2", "abc1")}
	if s, err := FindSession(all, "abc1"); err != nil || s.SessionID != "def2" {
		t.Errorf("%v, %v", s, err)
	}
}

func TestCompletion(t *testing.T) {
	for _, c := range []struct {
		begin string
		want  []string
	}{
		{"w", []string{"worker"}},
		{"build/", []string{"build/a/b", "build/db", "build/old", "build/web"}},
		{"o", []string{"old"}},
		{"de", []string{"deploy/old", "deploy/web"}},
		{"deploy/wo", []string{"deploy/worker"}},
		{"fedcba98/", []string{"fedcba98/job", "fedcba98/lone"}},
		{"nothing", nil},
	} {
		got := Processes(some, c.begin)
		slices.Sort(got)
		if !slices.Equal(got, c.want) {
			t.Errorf("processes %q: %q, want %q", c.begin, got, c.want)
		}
	}
	for _, c := range []struct {
		begin string
		want  []string
	}{
		{"", []string{"abcdefab", "build", "deploy", "dir/sub", "fedcba98", "fedcba99"}},
		{"d", []string{"deploy", "dir/sub"}},
		{"012", []string{"01234567-aaaa", "01234567-bbbb"}},
	} {
		if got := Sessions(some, c.begin); !slices.Equal(got, c.want) {
			t.Errorf("sessions %q: %q, want %q", c.begin, got, c.want)
		}
	}
}

// Every offered text finds its own session or process.
func TestOffersAreUnderstood(t *testing.T) {
	name := rapid.StringMatching(`[ab/]{0,3}`)
	rapid.Check(t, func(t *rapid.T) {
		var all []protocol.SessionDetails
		for _, id := range rapid.SliceOfNDistinct(rapid.StringMatching(`[ab]{9,12}`), 0, 5, rapid.ID[string]).Draw(t, "ids") {
			s := session(id, name.Draw(t, "name"))
			for _, p := range rapid.SliceOfNDistinct(rapid.StringMatching(`[ab]{1,2}`), 0, 3, rapid.ID[string]).Draw(t, "processes") {
				s.List = append(s.List, info(p, rapid.Bool().Draw(t, "ended"), rapid.Int64Range(0, 2).Draw(t, "started")))
			}
			all = append(all, s)
		}
		for _, s := range all {
			if got, err := FindSession(all, Label(all, s.SessionID)); (err != nil || got.SessionID != s.SessionID) && !shadowed(all, s.SessionID) {
				t.Fatalf("label %q of %q: %v, %v", Label(all, s.SessionID), s.SessionID, got, err)
			}
		}
		for _, text := range Processes(all, "") {
			if _, err := FindProcess(all, text); errors.Is(err, ErrUnknown) {
				t.Fatalf("%q is offered: %v", text, err)
			}
		}
	})
}

// shadowed reports whether an id is the name of a session.
func shadowed(all []protocol.SessionDetails, id string) bool {
	return slices.ContainsFunc(all, func(o protocol.SessionDetails) bool { return o.Name == id })
}
