//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/hold"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/logs"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testrelay"
)

// heldServer is the answer of a server with a holder to server/info.
func heldServer(change func(*protocol.ServerInfoResult)) *protocol.ServerInfoResult {
	s := new(protocol.ServerInfoResult)
	s.Server.Version = "v1"
	s.Holder = &protocol.HolderInfo{Available: true, Servers: 2, Replaced: &protocol.Replacement{Reason: protocol.ReplacedByUpgrade, GapMs: 40}}
	s.HolderProcess = &protocol.HolderProcess{PID: 7, StartTicks: 99, Refused: &protocol.RefusedUpgrade{AtMs: 5, Reason: "before"}}
	change(s)
	return s
}

// The answers of a server say how its upgrade has ended.
func TestUpgraded(t *testing.T) {
	before := heldServer(func(*protocol.ServerInfoResult) {})
	for _, c := range []struct {
		name       string
		change     func(*protocol.ServerInfoResult)
		text, fail string
	}{
		{"not yet", func(*protocol.ServerInfoResult) {}, "", ""},
		{"done", func(s *protocol.ServerInfoResult) { s.Holder.Servers, s.Server.Version = 3, "v2" }, "troupe v1 → v2, and nobody served for 40ms", ""},
		{"the new one has died", func(s *protocol.ServerInfoResult) { s.Holder.Servers, s.Holder.Replaced.Reason = 4, "exit code 2" }, "", "the new server has died (exit code 2), and troupe v1 serves"},
		{"refused", func(s *protocol.ServerInfoResult) {
			s.HolderProcess.Refused = &protocol.RefusedUpgrade{AtMs: 6, Reason: "a \x1b[2Jreason"}
		}, "", `no upgrade: a \x1b[2Jreason`},
		{"another holder", func(s *protocol.ServerInfoResult) { s.HolderProcess.StartTicks, s.Holder.Servers = 100, 3 }, "", "another troupe serve"},
		{"no holder any more", func(s *protocol.ServerInfoResult) { s.HolderProcess, s.Holder.Available = nil, false }, "", "another troupe serve"},
	} {
		text, err := upgraded(before, heldServer(c.change))
		if text != c.text || (err == nil) != (c.fail == "") || err != nil && !strings.Contains(err.Error(), c.fail) {
			t.Errorf("%s: %q, %v; want %q, %q", c.name, text, err, c.text, c.fail)
		}
	}
}

// A server that cannot be upgraded is told apart, and each error says what to do.
func TestUpgradable(t *testing.T) {
	for want, change := range map[string]func(*protocol.ServerInfoResult){
		"older than upgrades":  func(s *protocol.ServerInfoResult) { s.Holder = nil },
		"(a reason)":           func(s *protocol.ServerInfoResult) { s.Holder.Available, s.Holder.Why = false, "a reason" },
		"tells only operators": func(s *protocol.ServerInfoResult) { s.HolderProcess = nil },
	} {
		if err := upgradable(heldServer(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if err := upgradable(heldServer(func(*protocol.ServerInfoResult) {})); err != nil {
		t.Error(err)
	}
}

// Only the lines since the request are told of a log.
func TestNewsOfLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("old\nnew\x1b[2J\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, want := (logEnd{path, 4}).news(), "\nfrom the log "+path+":\nnew\\x1b[2J"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := (logEnd{}).news(); !strings.Contains(got, "the log of the server") {
		t.Errorf("without a log: %q", got)
	}
}

// What a server tells of its holder is what the holder has told.
func TestReplacementOfState(t *testing.T) {
	since := time.UnixMilli(1_795_275_525_000)
	got := replacement(hold.State{Last: "exit code 2", Gap: 52 * time.Millisecond, Since: since, Refused: holder.Refusal{}})
	if want := (protocol.Replacement{AtMs: since.UnixMilli(), Reason: "exit code 2", GapMs: 52}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := replacement(hold.State{Last: hold.Replaced}); got.Reason != protocol.ReplacedByUpgrade {
		t.Errorf("after an upgrade: %+v", got)
	}
	for want, o := range map[string]*serveOptions{"with --no-holder": {listen: "ws://127.0.0.1:0"}, "on stdio": {listen: "stdio"}} {
		if info, process := o.aboutHolder(nil)(); info.Available || !strings.Contains(info.Why, want) || process != nil {
			t.Errorf("%+v, %v; want %q", info, process, want)
		}
	}
}

// The end of the server is told for each process, and a replacement of the last minutes by ps.
func TestFate(t *testing.T) {
	now := time.Now()
	available := &protocol.HolderInfo{Available: true, Replaced: &protocol.Replacement{AtMs: now.Add(-time.Minute).UnixMilli(), Reason: "killed by SIGKILL", GapMs: 52}}
	for _, c := range []struct {
		ends   bool
		holder *protocol.HolderInfo
		want   string
	}{
		{false, available, "outlives it"},
		{true, available, "ends with it: its session is ephemeral"},
		{false, &protocol.HolderInfo{Why: "no holder"}, "ends with it: no holder"},
	} {
		p := &protocol.ProcessInfoResult{}
		p.EndsWithServer = c.ends
		if got := fate(p, c.holder); !strings.Contains(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
	if got, want := recentlyReplaced(available, now), "the server was replaced after its death (killed by SIGKILL) 1m ago; nobody served for 52ms"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, h := range []*protocol.HolderInfo{nil, {}, {Replaced: &protocol.Replacement{AtMs: now.Add(-time.Hour).UnixMilli()}}} {
		if got := recentlyReplaced(h, now); got != "" {
			t.Errorf("%+v: %q", h, got)
		}
	}
	if got, want := eventText(&protocol.ServerEvent{Kind: protocol.ServerReplaced, Reason: "upgrade", GapMs: 1500}), "replaced: upgrade; nobody served for 1.5s"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// troupe up says that the connection is lost after a second, and says nothing of a shorter cut.
func TestUpSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out, notes strings.Builder
		u := &upper{printer: &logs.Printer{Out: show.To(&out), Notes: &notes, News: true, Names: []string{ofTroupe}}}
		wants := func(n int) {
			t.Helper()
			synctest.Wait()
			if got := strings.Count(out.String()+notes.String(), "\n"); got != n {
				t.Errorf("%d lines, want %d: %q %q", got, n, &out, &notes)
			}
		}
		u.silent(1)
		time.Sleep(shortCut - 2)
		u.silent(0)
		time.Sleep(time.Hour)
		wants(0)
		u.silent(1)
		u.silent(shortCut)
		time.Sleep(shortCut)
		wants(1)
		u.silent(0)
		u.silent(0)
		wants(2)
		u.silent(2 * shortCut)
		wants(3)
	})
}

// A command that only looks outlasts the death of the server, whatever the server has answered before: a server that is killed has sent whole messages.
func TestLookOutlastsACut(t *testing.T) {
	url, _ := startServer(t)
	address := strings.TrimPrefix(url, "ws://")
	for cut := 0; ; cut++ { // so many pieces come
		var whole atomic.Bool
		whole.Store(true)
		came := 0
		relay := testrelay.New(t, "tcp", address, func(l *testrelay.Link, n int, toClient bool) (int, testrelay.How) {
			if !toClient || l.Number > 0 {
				return n, testrelay.Open
			}
			if came++; came <= cut {
				return n, testrelay.Open
			}
			whole.Store(false)
			return 0, testrelay.FIN
		})
		s, err := lookServer(t.Context(), &target.Flags{URL: "ws://" + relay.Addr()})
		relay.Close()
		if err != nil || s.holder == nil {
			t.Errorf("a cut after %d pieces: %v", cut, err)
		}
		if whole.Load() {
			if cut < 4 { // handshake, initialize, session/list, server/info
				t.Errorf("only %d pieces came", cut)
			}
			return
		}
	}
}
