package jail

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/fork"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

func TestPlanKeepsEveryByte(t *testing.T) {
	mask := uint32(0o27)
	for _, p := range []*Plan{
		{Program: "/bin/\xff", Argv: []string{"", "\xfe\n"}, Env: []string{"A=\x01", "B=" + string([]byte{0x80})}, Dir: "/\xc3", Umask: &mask, TTY: true},
		{Policy: sandbox.Policy{Files: true, Root: sandbox.Read}, Argv: []string{"a"}, Env: []string{}, User: &fork.User{UID: 1, GID: 2, Groups: []uint32{3}}},
		{Serve: true, Argv: []string{}, Env: []string{}},
	} {
		text, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		got := new(Plan)
		err = json.Unmarshal(text, got)
		if err != nil || !reflect.DeepEqual(got, p) {
			t.Errorf("%q: %+v, %v; want %+v", text, got, err, p)
		}
	}
}

func TestPlanRefusesUnknownMembers(t *testing.T) {
	for _, text := range []string{
		`{"policy":{},"later":1}`, `{"policy":{"later":1}}`, `{"policy":{"paths":[{"path":"L2E=","later":1}]}}`,
		`{"policy":{"links":[{"path":"L2E=","later":1}]}}`, `{"policy":{},"user":{"later":1}}`, `{"policy":{},"limits":[{"later":1}]}`,
	} {
		if err := json.Unmarshal([]byte(text), new(Plan)); err == nil {
			t.Errorf("%s: no error", text)
		}
	}
}

// A Plan that has arrived in part is no Plan: a missing Policy would permit everything.
func TestPlanRefusesAPart(t *testing.T) {
	whole, err := json.Marshal(&Plan{Policy: sandbox.Policy{Files: true, Paths: []sandbox.Path{{Path: "/a"}}}, Program: "/bin/sh", Argv: []string{"a"}, Env: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range whole {
		if err := json.Unmarshal(whole[:n], new(Plan)); err == nil {
			t.Errorf("no error: %s", whole[:n])
		}
	}
	for _, text := range []string{`{"program":"L2Jpbi9zaA=="}`, `{"policy":null,"program":"L2Jpbi9zaA=="}`, `null`} {
		if err := json.Unmarshal([]byte(text), new(Plan)); err == nil {
			t.Errorf("no error: %s", text)
		}
	}
}
