package tests

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A refusal is how a limit of the server refuses alice.
type refusal struct {
	flags []string
	// use uses up the limit. Nil: the limit is on a single request.
	use func(s *server, alice *conn)
	// ask is a request beyond the limit. Nil: an upgrade to a websocket is refused.
	ask func(alice *conn) (method string, params obj)
	// text is the beginning of the message; value and used are what data says.
	text        string
	value, used float64
	// all: the limit is for all together, so bob is refused, too.
	all bool
}

// withoutRefusal are the flags of limits beyond which no request is refused, and what happens instead.
var withoutRefusal = map[string]string{
	"default-limits":       "sets what a start does not name; max-limits refuses",
	"max-starts-burst":     "is a part of max-starts-each",
	"max-session-age":      "warns, and ends the session: TestMaxAge",
	"retention":            "is what a start does not name",
	"closed-retention":     "is a time, after which a process is forgotten",
	"spool-budget":         "programs wait: TestSpoolFull",
	"max-output-rate-each": "programs wait: TestRatesOfOthers",
	"max-stdin-rate-each":  "writes wait: TestRatesOfOthers",
	"max-retained-each":    "programs wait: TestRoomOfOthers",
	"max-spooled-each":     "programs wait: TestRoomOfOthers",
}

// refusals are all other limits, by flag.
var refusals = map[string]refusal{
	"max-connections": {
		flags: []string{"--max-connections", "2"}, all: true, // bob has one
		text: "max-connections is 2 here, and the server has 2 connections",
	},
	"max-connections-each": {
		flags: []string{"--max-connections-each", "1"},
		text:  "max-connections-each is 1 here, and alice has 1 connections",
	},
	"max-connections-each-address": {
		flags: []string{"--max-connections-each-address", "2"}, all: true,
		text: "max-connections-each-address is 2 here, and 127.0.0.1 has 2 connections",
	},
	"max-sessions": {
		flags: []string{"--max-sessions", "2"}, all: true, value: 2, used: 2,
		text: "max-sessions is 2 here, and the server has 2 sessions",
	},
	"max-sessions-each": {
		flags: []string{"--max-sessions-each", "1"}, value: 1, used: 1,
		text: "max-sessions-each is 1 here, and alice has as many sessions",
	},
	"max-processes": {
		flags: []string{"--max-processes", "2"}, use: startSleeps(2), ask: anotherStart(nil), value: 2, used: 2,
		text: "max-processes is 2 here, and the session has 2",
	},
	"max-processes-each": {
		flags: []string{"--max-processes-each", "2"}, use: startSleeps(2), ask: anotherStart(nil), value: 2, used: 2,
		text: "max-processes-each is 2 here, alice runs 2, and this start needs 1 more",
	},
	"max-starts-each": {
		flags: []string{"--max-starts-each", "0.001", "--max-starts-burst", "2"}, use: startSleeps(2), ask: anotherStart(nil), value: 0.001, used: 2,
		text: "max-starts-each is 0.001 a second here, 2 at once, and alice has used them",
	},
	"max-run-time": {
		flags: []string{"--max-run-time", "1h"}, ask: anotherStart(obj{"timeoutMs": 3_600_001}), value: 3_600_000, used: 3_600_001,
		text: "timeoutMs is 3600001, this server allows 1 to 3600000 (max-run-time)",
	},
	"max-limits": {
		flags: []string{"--max-limits", `{"nofile":100}`}, ask: anotherStart(obj{"limits": obj{"nofile": 101}}), value: 100, used: 101,
		text: "limits.nofile is 101, this server allows at most 100 (max-limits)",
	},
	"spool-limit": {
		flags: []string{"--spool-limit", "100000"}, ask: anotherStart(obj{"retention": obj{"onFull": "spool", "spoolBytes": 100_001}}), value: 100_000, used: 100_001,
		text: "retention.spoolBytes is 100001, this server allows 100000 (spool-limit)",
	},
	"max-detached-ttl": {
		flags: []string{"--max-detached-ttl", "1h"}, value: 3_600_000, used: 3_600_001,
		ask:  func(*conn) (string, obj) { return "session/update", obj{"detachedTtlMs": 3_600_001} },
		text: "detachedTtlMs is 3600001, this server allows 1 to 3600000 (max-detached-ttl)",
	},
	"max-share-time": {
		flags: []string{"--max-share-time", "1h"}, value: 3_600_000, used: 3_600_001,
		ask:  func(*conn) (string, obj) { return "session/share", obj{"access": "read", "expiresInMs": 3_600_001} },
		text: "expiresInMs is 3600001, this server allows 1 to 3600000 (max-share-time)",
	},
	"memory-budget": {
		flags: []string{"--memory-budget", "2000000"}, // an eighth is for environments
		use: func(s *server, _ *conn) { // a single session may go beyond
			for i, c := 0, s.as("the-token-of-alice", nil); i < 2; i++ {
				c.start(fmt.Sprint("large", i), large())
			}
		},
		ask:  anotherStart(large()),
		text: "process another needs ",
	},
}

// large are params of a start that the server keeps some 200,000 bytes for.
func large() obj {
	return obj{"argv": []string{"sleep", "1000"}, "restart": obj{"policy": "permanent"},
		"env": obj{"PATH": "/usr/bin:/bin", "A": strings.Repeat("a", 100_000), "B": strings.Repeat("b", 100_000)}}
}

// startSleeps returns a function that starts n programs.
func startSleeps(n int) func(*server, *conn) {
	return func(_ *server, c *conn) {
		for i := range n {
			c.start(fmt.Sprint("sleeper", i), obj{"argv": []string{"sleep", "1000"}})
		}
	}
}

// anotherStart returns a function that asks for another start.
func anotherStart(params obj) func(*conn) (string, obj) {
	return func(*conn) (string, obj) {
		all := obj{"argv": []string{"sleep", "1000"}}
		maps.Copy(all, params)
		return "process/start", startParams("another", all)
	}
}

// TestEveryLimitSaysWhy: each limit that a flag of the server sets refuses with its name, its value and what is
// used. A refusal costs nothing, and others are not refused.
func TestEveryLimitSaysWhy(t *testing.T) {
	t.Parallel()
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	help, err := exec.Command(bin, "serve", "-h").CombinedOutput()
	if err != nil {
		t.Fatal(err)
	}
	var flags []string
	for _, m := range regexp.MustCompile(`(?m)^  --(\S+)`).FindAllStringSubmatch(string(help), -1) {
		if name := m[1]; strings.HasPrefix(name, "max-") || strings.HasSuffix(name, "limit") || strings.HasSuffix(name, "limits") ||
			strings.HasSuffix(name, "budget") || strings.HasSuffix(name, "retention") {
			flags = append(flags, name)
		}
	}
	for name := range refusals {
		if !slices.Contains(flags, name) {
			t.Errorf("there is no flag %s", name)
		}
	}
	for _, name := range flags {
		r, refuses := refusals[name]
		if _, waits := withoutRefusal[name]; waits == refuses {
			t.Errorf("the flag %s is in refusals: %v, in withoutRefusal: %v", name, refuses, waits)
		}
		if refuses {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r.test(t, name)
			})
		}
	}
}

func (r refusal) test(t *testing.T, name string) {
	s, bob, echo := twoIdentities(t, r.flags...)
	alice := s.as("the-token-of-alice", nil)
	if r.use != nil {
		r.use(s, alice)
	}
	counts := func() string {
		info := bob.call("server/info", obj{})
		return jsonText(obj{"sessions": info["sessions"], "children": info["children"], "connections": info["connections"],
			"processes": len(alice.call("process/list", obj{})["processes"].([]any)), "spooled": info["spooledBytes"]})
	}
	var before string
	eventually(t, "the server is at rest", func() bool { // processes of the harness may still end
		last := before
		before = counts()
		return before == last
	})
	for range 5 {
		var e obj
		switch {
		case r.ask != nil:
			method, params := r.ask(alice)
			e, _ = alice.reply(alice.request(method, params))["error"].(obj)
		case strings.HasPrefix(name, "max-connections"):
			_, status, body := dialAs(t, s.url, "Bearer the-token-of-alice", nil)
			if status != http.StatusServiceUnavailable || !strings.HasPrefix(body, r.text) {
				t.Fatalf("%d %s", status, body)
			}
			continue
		default: // a further session
			c, _, err := dialWS(t, s.url, http.Header{"Authorization": {"Bearer the-token-of-alice"}})
			if err != nil {
				t.Fatal(err)
			}
			e, _ = c.reply(c.request("initialize", obj{"clientName": "further"}))["error"].(obj)
			c.hangUp()
		}
		if e == nil || !strings.HasPrefix(fmt.Sprint(e["message"]), r.text) {
			t.Fatalf("%s, want %s", jsonText(e), r.text)
		}
		var data struct {
			Limit       string
			Value, Used *float64
		}
		if err := json.Unmarshal([]byte(jsonText(e["data"])), &data); err != nil || data.Limit != name || data.Value == nil || data.Used == nil {
			t.Fatalf("data %s does not name %s", jsonText(e["data"]), name)
		}
		if r.value != 0 && (*data.Value != r.value || *data.Used != r.used) {
			t.Errorf("data %s, want %v and %v", jsonText(e["data"]), r.value, r.used)
		}
	}
	eventually(t, "the counts are as before", func() bool { return counts() == before })
	echo("alice was refused")
	if !r.all {
		bob.start("other", obj{"argv": []string{"true"}}).awaitClosed()
	}
}
