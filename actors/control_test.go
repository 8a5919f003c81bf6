package actors_test

import (
	"encoding/json"
	"fmt"
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
