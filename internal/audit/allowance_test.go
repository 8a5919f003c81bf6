package audit

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func who(identity string) Who { return Who{Identity: identity} }

// TestAllowance: whatever a client without rights does, its lines take the bytes of its allowance, and one line tells of those left out. The
// lines of others, and of programs that run and files that change, are all written.
func TestAllowance(t *testing.T) {
	for _, flood := range []Event{
		ConnectionRefused{Reason: "no"},
		ConnectionAccepted{Who: who("eve")},
		ConnectionEnded{Who: who("eve")},
		SessionAttached{Who: who("eve"), How: "opened"},
		SessionRefused{Who: who("eve")},
		SessionEnded{Who: who("eve")},
		ShareMade{Who: who("eve")},
		ShareEnded{Who: who("eve")},
		ProcessRefused{Process: Process{Who: who("eve")}, Argv: List{"x"}},
		Request{Who: who("eve"), Method: "session/update"},
		Request{Who: Who{Identity: "share:1", Account: "eve"}, Refused: "no"},
		FileChange{Who: who("eve"), Error: "no"},
		ProgramStart{Who: who("eve")},
	} {
		t.Run(fmt.Sprintf("%T", flood), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := new(memory)
				l, _ := newLog(m, true)
				const events = 20_000 // of more than 50 bytes each
				for range events {
					l.Put(flood)
				}
				l.Put(SessionEnded{Who: who("alice")})
				l.Start(ProcessStart{Process: Process{Who: who("eve")}}, func(error) {})
				l.Put(ProcessStarted{Process: Process{Who: who("eve")}})
				l.Put(ProcessRefused{Process: Process{Who: who("eve")}, Tried: true})
				l.Put(ProcessEnded{Process: Process{Who: who("eve")}})
				l.Put(FileChange{Who: who("eve")})
				l.Put(HTTPRequest{Who: who("eve")})
				time.Sleep(tellEvery + tick)
				l.Close()
				all := m.lines(t)
				written, after := all[:len(all)-8], all[len(all)-8:]
				if n := m.text.Len(); n > fullAllowance+2000 || n < fullAllowance-2000 {
					t.Errorf("%d bytes", n)
				}
				account := `,"identity":"eve"`
				if _, stranger := flood.(ConnectionRefused); stranger {
					account = ""
				}
				for i, part := range []string{"alice", "process.start", "process.started", "process.refused", "process.ended", "file.change", "http.request",
					fmt.Sprintf(`"byEvent":{"%s":%d},"event":"audit.leftOut"%s`, flood.kind().name, events-len(written), account)} {
					if !strings.Contains(after[i], part) {
						t.Errorf("%s, want %s", after[i], part)
					}
				}
			})
		})
	}
}

// TestAllowanceGrows: an allowance grows with time and with acts, up to what an account may cause at once. A full allowance takes no memory.
func TestAllowanceGrows(t *testing.T) {
	now := time.Now()
	all := make(allowances)
	takes := func(bytes int) bool { return all.admits(SessionEnded{Who: who("eve")}, bytes, now) }
	if !takes(fullAllowance) || takes(1) {
		t.Error("the allowance is not that of the beginning")
	}
	for range 1000 {
		now = now.Add(time.Millisecond)
		takes(fullAllowance)
	}
	if !takes(perSecond-1) || takes(2) {
		t.Error("the allowance has not grown with the time")
	}
	if all.admits(ProcessEnded{Process: Process{Who: who("eve")}}, 1, now); !takes(perAct) || takes(2) {
		t.Error("the allowance has not grown with the act")
	}
	now = now.Add(time.Hour)
	if told := all.tell(now, false); len(told) != 1 || told[0].Account != "eve" || told[0].ByEvent["session.ended"] != 1003 {
		t.Error(told)
	}
	if told := all.tell(now, true); told != nil || len(all) != 0 {
		t.Error(told, all)
	}
	if takes(fullAllowance + 1) {
		t.Error("the allowance has grown beyond its bound")
	}
}

// TestAllowancesAreBounded: of too many accounts, the last have one allowance together.
func TestAllowancesAreBounded(t *testing.T) {
	now := time.Now()
	all := make(allowances)
	for i := range 2 * maxAllowances {
		all.admits(SessionEnded{Who: who(fmt.Sprint(i))}, 1, now)
	}
	if n := len(all); n > maxAllowances+1 {
		t.Error(n)
	}
	const left = fullAllowance - maxAllowances
	if a := all[strangers]; a.Wait(rate, left, now) > 0 || a.Wait(rate, left+1, now) == 0 {
		t.Errorf("not %d bytes are left: %v until there are, and %v until there is one more", left, a.Wait(rate, left, now), a.Wait(rate, left+1, now))
	}
}
