//go:build unix

package client_test

import (
	"testing"
	"time"

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
	begin(t, cmd)
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

// TestSessionOptions: a client says how its session lives, and changes that later.
func TestSessionOptions(t *testing.T) {
	h := newHost(t, actors.Config{})
	ctx := within(t)
	c := h.client(t, &client.Options{SessionName: "work", KeepRunning: true, DetachedTTL: time.Hour})
	if info, err := c.SessionInfo(ctx); err != nil || info.Name != "work" || !info.KeepRunning || info.DetachedTTLMs != 3_600_000 {
		t.Errorf("%+v, %v", info, err)
	}
	name, ttl, keep := "play", time.Minute, false
	if err := c.UpdateSession(ctx, client.SessionUpdate{Name: &name, DetachedTTL: &ttl, KeepRunning: &keep}); err != nil {
		t.Error(err)
	}
	if info, err := c.SessionInfo(ctx); err != nil || info.Name != "play" || info.KeepRunning || info.DetachedTTLMs != 60_000 {
		t.Errorf("%+v, %v", info, err)
	}
	ttl = 0
	if err := c.UpdateSession(ctx, client.SessionUpdate{DetachedTTL: &ttl}); err == nil {
		t.Error("a session without any time")
	}
	look := h.client(t, &client.Options{Ephemeral: true})
	if all, err := look.Sessions(ctx, ""); err != nil || len(all) != 1 || all[0].SessionID != c.SessionID() {
		t.Errorf("%+v, %v", all, err)
	}
}
