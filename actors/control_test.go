package actors_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
)

// controller joins a session beside its owner.
func controller(t *testing.T, troupe *actors.Troupe, session, more string) *peer {
	t.Helper()
	c := connect(t, troupe)
	c.open(fmt.Sprintf(`,"role":"controller","resumeSessionId":%q%s`, session, more))
	return c
}

// A controller starts programs, writes to them and ends them. Everybody attached gets their output, and the
// owner is not disturbed.
func TestControllerCommands(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{})
	owner := connect(t, troupe)
	id := owner.open("")
	one, two := controller(t, troupe, id, ""), controller(t, troupe, id, "")
	one.start("a", `,"pipeStdin":true`, "cat")
	owner.start("b", "", "sleep", "1000")
	for _, c := range []*peer{owner, one, two} { // each of them knows both processes
		for m := c.call("process/list", `{}`); len(listed(t, m)) < 2; m = c.call("process/list", `{}`) {
		}
	}
	if m := two.call("process/write", `{"processId":"a","chunk":"aGVsbG8=","writeId":"two-1"}`); string(m.Result) != `{"status":"accepted"}` {
		t.Errorf("%s, %+v", m.Result, m.Error)
	}
	if m := owner.call("process/closeStdin", `{"processId":"a"}`); m.Error != nil {
		t.Error(m.Error)
	}
	for who, c := range map[string]*peer{"owner": owner, "one": one, "two": two} {
		if m := c.call("process/read", `{"processId":"a","afterSeq":0,"waitMs":60000}`); m.Error != nil {
			t.Errorf("%s: %+v", who, m.Error)
		}
		if m := c.call("process/wait", `{"processId":"a"}`); m.Error != nil {
			t.Errorf("%s: %+v", who, m.Error)
		}
	}
	if m := one.call("process/terminate", `{"processId":"b","graceMs":0,"tree":true}`); m.Error != nil {
		t.Error(m.Error)
	}
	if m := owner.call("process/wait", `{"processId":"b"}`); m.Error != nil {
		t.Error(m.Error)
	}
	if m := one.call("session/close", `{}`); m.Error != nil {
		t.Error(m.Error)
	}
	for _, c := range []*peer{owner, one, two} { // the session ends for everybody
		for _, open := c.next(); open; _, open = c.next() {
		}
	}
}

// The output of a program of a controller comes live to everybody attached, from its first byte.
func TestOutputForAll(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{})
	owner := connect(t, troupe)
	id := owner.open("")
	one, two := controller(t, troupe, id, ""), controller(t, troupe, id, "")
	one.start("a", "", "echo", "hello")
	for who, c := range map[string]*peer{"owner": owner, "one": one, "two": two} {
		if out, _ := c.untilClosed("a", 0); out != "hello\n" {
			t.Errorf("%s got %q", who, out)
		}
	}
}

// A controller acknowledges nothing: neither by Pongs, nor by session/ack, process/read or resumeFrom. The
// owner gets everything later.
func TestControllerAcknowledgesNothing(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{})
	owner := connect(t, troupe)
	id := owner.open("")
	owner.close()
	for _, more := range []string{"", `,"capabilities":{"ack":true}`} {
		c := controller(t, troupe, id, more)
		if c.call("process/list", `{}`); more == "" {
			c.start("a", "", "echo", "hello")
			c.untilClosed("a", 0)
		}
		c.send(`{"method":"session/ack","params":{"processes":{"a":3}}}`)
		c.call("process/read", `{"processId":"a","afterSeq":3}`)
		c.close()
	}
	c := controller(t, troupe, id, `,"resumeFrom":{"a":3}`)
	if all := listed(t, c.call("process/list", `{}`)); len(all) != 1 || all[0].Unacked == 0 {
		t.Errorf("%+v", all)
	}
	again := connect(t, troupe)
	again.open(fmt.Sprintf(`,"resumeSessionId":%q,"resumeFrom":{"a":0}`, id))
	if out, _ := again.untilClosed("a", 0); out != "hello\n" {
		t.Errorf("the owner got %q", out)
	}
}

// A repeat is recognized by its id, whichever client of the session sends it. A request of a controller
// that ends its connection is forgotten, like a request of the owner after a cut.
func TestRepeatsOfControllers(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{})
	owner := connect(t, troupe)
	id := owner.open("")
	one := controller(t, troupe, id, "")
	one.start("a", `,"pipeStdin":true,"startToken":"random"`, "cat")
	one.call("process/write", `{"processId":"a","chunk":"aGk=","writeId":"random-1"}`)
	one.send(`{"id":77,"method":"process/wait","params":{"processId":"a"}}`)
	one.close()
	again := controller(t, troupe, id, "")
	again.start("a", `,"pipeStdin":true,"startToken":"random"`, "cat")
	again.call("process/write", `{"processId":"a","chunk":"aGk=","writeId":"random-1"}`)
	again.call("process/closeStdin", `{"processId":"a"}`)
	again.call("process/wait", `{"processId":"a"}`)
	if m := again.call("process/read", `{"processId":"a","afterSeq":0}`); strings.Count(string(m.Result), `"chunk":"aGk="`) != 1 {
		t.Errorf("%s, %+v", m.Result, m.Error)
	}
}

func listed(t *testing.T, m message) []protocol.ProcessInfo {
	t.Helper()
	var list protocol.ProcessListResult
	if m.Error != nil || json.Unmarshal(m.Result, &list) != nil {
		t.Fatalf("%+v", m)
	}
	return list.Processes
}

// A client beside the owner that asks for named processes only gets nothing of the others, answers all its
// requests, and gets the processes that it starts.
func TestOnlyNamed(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{})
	owner := connect(t, troupe)
	id := owner.open("")
	owner.start("early", "", "sh", "-c", "echo early; sleep 1000")
	owner.start("named", "", "sh", "-c", "echo named; sleep 1000")
	c := controller(t, troupe, id, `,"resumeFrom":{"named":0},"capabilities":{"onlyNamed":true}`)
	seen := make(map[string]string) // process → methods
	until := func(id string) (m message, open bool) {
		for m, open = c.next(); open && (id == "" || string(m.ID) != id); m, open = c.next() {
			if m.Params.ProcessID != "" {
				seen[m.Params.ProcessID] += " " + strings.TrimPrefix(m.Method, "process/")
			}
		}
		return m, open
	}
	calls := 1000
	call := func(method, params string) message {
		calls++
		c.send(fmt.Sprintf(`{"id":%d,"method":%q,"params":%s}`, calls, method, params))
		m, _ := until(fmt.Sprint(calls))
		if m.Error != nil {
			t.Errorf("%s %s: %+v", method, params, m.Error)
		}
		return m
	}
	owner.start("late", "", "sh", "-c", "echo late")
	call("process/start", `{"processId":"own","argv":["echo","own"],"cwd":"file:///","env":{"PATH":"/usr/bin:/bin"},"tty":false}`)
	for m := call("process/list", `{}`); len(listed(t, m)) < 4; m = call("process/list", `{}`) {
	}
	for _, process := range []string{"early", "late"} {
		if m := call("process/read", fmt.Sprintf(`{"processId":%q,"afterSeq":0,"waitMs":60000}`, process)); !strings.Contains(string(m.Result), `"chunk"`) {
			t.Errorf("%s: %s", process, m.Result)
		}
	}
	for _, process := range []string{"early", "named"} {
		call("process/terminate", fmt.Sprintf(`{"processId":%q,"graceMs":0,"tree":true}`, process))
	}
	if m := owner.call("session/close", `{}`); m.Error != nil {
		t.Error(m.Error)
	}
	until("")
	if want := map[string]string{"named": " output exited closed", "own": " output exited closed"}; !maps.Equal(seen, want) {
		t.Errorf("notifications %v, want %v", seen, want)
	}
}

// process/info names the role of each viewer.
func TestViewersHaveRoles(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{})
	owner := connect(t, troupe)
	id := owner.open("")
	owner.start("a", "", "sleep", "1000")
	control := controller(t, troupe, id, "")
	observer := connect(t, troupe)
	observer.open(fmt.Sprintf(`,"role":"observer","resumeSessionId":%q`, id))
	var roles []string
	waitFor(t, "three viewers", func() bool { // a Subscribe may be under way
		var info protocol.ProcessInfoResult
		if err := json.Unmarshal(control.call("process/info", `{"processId":"a"}`).Result, &info); err != nil {
			t.Fatal(err)
		}
		roles = nil
		for _, v := range info.Viewers {
			roles = append(roles, string(v.Role))
		}
		return len(roles) == 3
	})
	slices.Sort(roles)
	if want := []string{"controller", "observer", "owner"}; !slices.Equal(roles, want) {
		t.Errorf("roles %q, want %q", roles, want)
	}
}
