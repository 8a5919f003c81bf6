package client

import (
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Dial refuses options that contradict each other, and names them.
func TestRolesAreChecked(t *testing.T) {
	for want, o := range map[string]Options{
		"Observe without Session": {Observe: true},
		"Control without Session": {Control: true},
		"Observe and Control":     {Observe: true, Control: true, Session: "s1"},
		"Control and Takeover":    {Control: true, Takeover: true, Session: "s1"},
		"are for a new session":   {Session: "s1", SessionName: "x"},
		"Placement are for a new": {Session: "s1", Placement: new(protocol.Placement)},
		"Ephemeral contradicts":   {Ephemeral: true, KeepRunning: true},
	} {
		o.Dialer = newFake(programs).dial
		if _, err := Dial(t.Context(), "", &o); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// The wish for a server goes with the first initialize: a client comes back to the server of its session.
func TestPlacement(t *testing.T) {
	f := newFake(programs)
	resumed := make(chan bool, 1)
	connect(t, f, &Options{Placement: &protocol.Placement{Labels: map[string]string{"zone": "a"}, Node: "n1", Key: "k"}, Resumed: func() { resumed <- true }})
	f.lock(func() { f.conn.Close(1006, "cut") })
	<-resumed
	f.lock(func() {
		first, second := f.hellos[0].Placement, f.hellos[1].Placement
		if first == nil || first.Labels["zone"] != "a" || first.Node != "n1" || first.Key != "k" || second != nil {
			t.Errorf("placements %+v and %+v", first, second)
		}
	})
}

// A controller joins the session again after a cut: it takes the session from nobody.
func TestControllerComesBack(t *testing.T) {
	f := newFake(programs)
	connect(t, f, nil)
	resumed := make(chan bool, 1)
	c := connect(t, f, &Options{Session: "s1", Control: true, Resumed: func() { resumed <- true }})
	cmd := c.Command("wait") // a controller starts programs
	begin(t, cmd)
	if !cmd.process.lossy {
		t.Error("the client takes the output of a controller for complete")
	}
	f.lock(func() { f.conn.Close(1006, "cut") })
	<-resumed
	f.lock(func() {
		for _, hello := range f.hellos[1:] {
			if hello.Role != protocol.RoleController || hello.Takeover || *hello.ResumeSessionID != "s1" {
				t.Errorf("%+v", hello)
			}
		}
		if len(f.hellos) != 3 {
			t.Errorf("%d connections", len(f.hellos))
		}
	})
}
