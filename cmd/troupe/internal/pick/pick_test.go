package pick

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func process(ids ...string) (all []Process) {
	for _, id := range ids {
		name, ended := strings.CutPrefix(id, "†")
		all = append(all, Process{ID: name, Ended: ended})
	}
	return all
}

var some = []Session{
	{"01234567-aaaa", "build", process("web", "db", "old", "a/b")},
	{"01234567-bbbb", "deploy", process("web", "†old", "worker")},
	{"fedcba98-cccc", "", process("lone", "†job")},
	{"fedcba99-dddd", "twin", process("x")},
	{"abcdefab-eeee", "twin", process("y", "†job")},
	{"11111111-ffff", "dir/sub", process("z")},
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
	at := func(id string, ended bool, started int64) []Process { return []Process{{id, ended, started}} }
	all := []Session{{"aaaaaaaa1", "web", at("web", true, 5)}, {"bbbbbbbb1", "web", at("web", true, 9)}, {"cccccccc1", "web", at("web", true, 7)}}
	if got, err := FindProcess(all, "web"); err != nil || got.Session != "bbbbbbbb1" {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := FindProcess(all, "aaaaaaaa/web"); err != nil || got.Session != "aaaaaaaa1" {
		t.Errorf("%v, %v", got, err)
	}
	if got := Processes(all, ""); !slices.Equal(got, []string{"web", "aaaaaaaa/web", "cccccccc/web"}) {
		t.Errorf("%q", got)
	}
	all[0].Processes[0].Ended = false
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
		if got.ID != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %q, %v; want %q, %q", c.text, got.ID, err, c.want, c.err)
		}
	}
	// A name counts before an id. Both sessions stay reachable if the name of a session is the id of another.
	all := []Session{{ID: "abc1"}, {ID: "def2", Name: "abc1"}}
	if s, err := FindSession(all, "abc1"); err != nil || s.ID != "def2" {
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
		var all []Session
		for _, id := range rapid.SliceOfNDistinct(rapid.StringMatching(`[ab]{9,12}`), 0, 5, rapid.ID[string]).Draw(t, "ids") {
			s := Session{ID: id, Name: name.Draw(t, "name")}
			for _, p := range rapid.SliceOfNDistinct(rapid.StringMatching(`[ab]{1,2}`), 0, 3, rapid.ID[string]).Draw(t, "processes") {
				s.Processes = append(s.Processes, Process{p, rapid.Bool().Draw(t, "ended"), rapid.Int64Range(0, 2).Draw(t, "started")})
			}
			all = append(all, s)
		}
		for _, s := range all {
			if got, err := FindSession(all, Label(all, s.ID)); (err != nil || got.ID != s.ID) && !shadowed(all, s) {
				t.Fatalf("label %q of %q: %q, %v", Label(all, s.ID), s.ID, got.ID, err)
			}
		}
		for _, text := range Processes(all, "") {
			if _, err := FindProcess(all, text); errors.Is(err, ErrUnknown) {
				t.Fatalf("%q is offered: %v", text, err)
			}
		}
	})
}

// shadowed reports whether the whole id of s is a name, or the beginning of another id.
func shadowed(all []Session, s Session) bool {
	return slices.ContainsFunc(all, func(o Session) bool { return o.Name == s.ID })
}
