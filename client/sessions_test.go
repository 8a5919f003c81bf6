package client_test

import (
	"testing"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// TestSessions: a client sees its sessions, and as much of their processes as it asks for. A controller starts a
// program in one of them.
func TestSessions(t *testing.T) {
	h := newHost(t, actors.Config{KillGrace: -1})
	one := h.client(t, nil)
	h.client(t, nil)
	ctx := within(t)
	controller := h.client(t, &client.Options{Session: one.SessionID(), Control: true})
	cmd := controller.Command("sleep", "1000")
	cmd.ID = "sleep"
	if err := cmd.Start(ctx); err != nil {
		t.Fatal(err)
	}
	for _, detail := range []protocol.Detail{"", protocol.DetailProcesses, protocol.DetailInfo} {
		all, err := controller.Sessions(ctx, detail)
		if err != nil || len(all) != 2 {
			t.Fatalf("%s: %+v, %v", detail, all, err)
		}
		var list []protocol.ProcessInfoResult
		for _, s := range all {
			if s.SessionID == one.SessionID() {
				list = s.List
			} else if len(s.List) > 0 || s.Processes > 0 {
				t.Errorf("%s: %+v", detail, s)
			}
		}
		switch {
		case detail == "":
			if list != nil {
				t.Errorf("%+v", list)
			}
		case len(list) != 1 || list[0].ProcessID != "sleep" || list[0].PID == 0 || (list[0].WaitsFor != nil) != (detail == protocol.DetailInfo):
			t.Errorf("%s: %+v", detail, list)
		}
	}
	if err := controller.CloseSession(ctx); err != nil {
		t.Error(err)
	}
}
