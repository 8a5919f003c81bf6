package spec

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// want compares the JSON of v. For a wrong value, want is a part of the error.
func want(t *testing.T, written string, v any, err error, json_, part string) {
	t.Helper()
	if part != "" {
		if err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v, want an error with %q", written, err, part)
		}
		return
	}
	if got, _ := json.Marshal(v); err != nil || string(got) != json_ {
		t.Errorf("%q: %s, %v, want %s", written, got, err, json_)
	}
}

func TestRestart(t *testing.T) {
	for _, c := range []struct{ s, json, part string }{
		{"permanent", `{"policy":"permanent"}`, ""},
		{"always", `{"policy":"permanent"}`, ""},
		{"on-failure:5", `{"policy":"transient","intensity":{"restarts":5,"periodMs":0}}`, ""},
		{"transient:10/1m", `{"policy":"transient","intensity":{"restarts":10,"periodMs":60000}}`, ""},
		{"temporary", `{"policy":"temporary"}`, ""},
		{"sometimes", "", `"sometimes" is not a restart policy`},
		{"permanent:", "", "permanent:5"},
		{"permanent:-1", "", "permanent:5"},
		{"permanent:5/", "", "30s"},
		{"permanent:5/0s", "", "30s"},
	} {
		r, err := Restart(c.s)
		want(t, c.s, r, err, c.json, c.part)
	}
}

func TestLimit(t *testing.T) {
	for _, c := range []struct{ s, json, part string }{
		{"memory=512M", `{"memoryBytes":536870912}`, ""},
		{"memory=1.5GiB", `{"memoryBytes":1610612736}`, ""},
		{"memory=2kb", `{"memoryBytes":2048}`, ""},
		{"cpus=0.5", `{"cpus":0.5}`, ""},
		{"nofile=64", `{"nofile":64}`, ""},
		{"nice=-5", `{"nice":-5}`, ""},
		{"core=0", `{"coreBytes":0}`, ""},
		{"memory", "", "memory, cpus"},
		{"mem=1", "", "memory, cpus"},
		{"memory=lots", "", "512M"},
		{"memory=0", "", "1 to"},
		{"memory=99999999T", "", "512M"},
		{"cpus=many", "", "0.5"},
		{"nice=50", "", "-20 to 19"},
		{"pids=-1", "", `pids: "-1" is not a number`},
	} {
		var l protocol.ProcessLimits
		err := Limit(&l, c.s)
		want(t, c.s, l, err, c.json, c.part)
	}
	for _, name := range LimitNames() {
		var l protocol.ProcessLimits
		if err := Limit(&l, name+"=5"); err != nil || l == (protocol.ProcessLimits{}) {
			t.Errorf("%s=5: %v", name, err)
		}
	}
}

func TestReady(t *testing.T) {
	for _, c := range []struct{ s, dir, json, part string }{
		{"tcp:8080", "", `{"tcp":"127.0.0.1:8080"}`, ""},
		{"tcp:db:5432", "", `{"tcp":"db:5432"}`, ""},
		{"tcp:[::1]:5432", "", `{"tcp":"[::1]:5432"}`, ""},
		{"line:listening: on", "", `{"line":"listening: on"}`, ""},
		{"file:/run/up", "", `{"file":"file:///run/up"}`, ""},
		{"file:up", "/here", `{"file":"file:///here/up"}`, ""},
		{"unix:/run/s", "", `{"unix":"file:///run/s"}`, ""},
		{"delay:1500ms", "", `{"delayMs":1500}`, ""},
		{"exit", "", `{"exit":true}`, ""},
		{"file:up", "", "", "absolute"},
		{"tcp:x", "", "", "tcp:8080"},
		{"line:(", "", "", "regexp"},
		{"line:", "", "", "expected one of"},
		{"delay:soon", "", "", "delay:5s"},
		{"exit:1", "", "", `"1"`},
		{"http:80", "", "", "tcp:PORT"},
	} {
		r, err := Ready(c.s, c.dir)
		want(t, c.s, r, err, c.json, c.part)
	}
}

func TestEnvFile(t *testing.T) {
	lookup := func(k string) (string, bool) { return "from here", k == "HERE" }
	env, err := EnvFile("# comment\n\nA=1\nexport B = two words \nC=\"quoted # yes\"\nD='x'\nHERE\nE=\nF=\"\n", lookup)
	if got := []string{"A=1", "B=two words", "C=quoted # yes", "D=x", "HERE=from here", "E=", `F="`}; err != nil || !slices.Equal(env, got) {
		t.Errorf("%q, %v", env, err)
	}
	for text, part := range map[string]string{"A=1\nMISSING": "line 2: MISSING is not set", "A B=1": "line 1", "=x": "line 1: write it KEY=VALUE"} {
		if _, err := EnvFile(text, lookup); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPlacement(t *testing.T) {
	if p, err := Placement(nil, "", ""); p != nil || err != nil {
		t.Errorf("no wish: %+v, %v", p, err)
	}
	p, err := Placement([]string{"zone=a", "gpu=a=b", "zone=a"}, "n1", "k")
	if err != nil || len(p.Labels) != 2 || p.Labels["zone"] != "a" || p.Labels["gpu"] != "a=b" || p.Node != "n1" || p.Key != "k" {
		t.Errorf("%+v, %v", p, err)
	}
	for _, wrong := range []string{"zone", "=a", "zone=", ""} {
		if _, err := Placement([]string{wrong}, "", ""); err == nil || !strings.Contains(err.Error(), "write KEY=VALUE") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
	if _, err := Placement([]string{"zone=a", "zone=b"}, "", ""); err == nil || !strings.Contains(err.Error(), "both a and b") {
		t.Error(err)
	}
}
