//go:build unix

package main

import (
	"cmp"
	"fmt"
	"strconv"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/hold"
	"github.com/b6f6fdd7/troupe/internal/kernel"
	"github.com/b6f6fdd7/troupe/protocol"
)

// aboutHolder returns what actors.Config.AboutHolder tells.
func (o *serveOptions) aboutHolder(held *hold.Server) func() (protocol.HolderInfo, *protocol.HolderProcess) {
	if held == nil {
		info := protocol.HolderInfo{Why: o.noHolder()}
		return func() (protocol.HolderInfo, *protocol.HolderProcess) { return info, nil }
	}
	ticks, _ := startTicks(held.State().PID) // 0: nobody can tell the holder from another process
	return func() (protocol.HolderInfo, *protocol.HolderProcess) {
		s := held.State()
		info, process := protocol.HolderInfo{Available: true, Servers: s.Number}, &protocol.HolderProcess{PID: s.PID, StartTicks: ticks}
		if s.Last != "" {
			r := replacement(s)
			info.Replaced = &r
		}
		if !s.Refused.At.IsZero() {
			process.Refused = &protocol.RefusedUpgrade{AtMs: s.Refused.At.UnixMilli(), Reason: cmp.Or(s.Refused.Why, hangsUp)}
		}
		return info, process
	}
}

// hangsUp is why a holder takes no SIGHUP for an upgrade.
const hangsUp = "the server was started in a terminal, or by nohup, and takes SIGHUP for the end of the terminal: start it as a service, or with setsid"

// noHolder says why programs end with a server that has no holder, and what helps.
func (o *serveOptions) noHolder() string {
	switch lacks := hold.Lacks(); {
	case o.stdio():
		return "a server on stdio has no holder: nobody can resume a session there"
	case lacks != nil:
		return lacks.Error()
	}
	return fmt.Sprintf("the server was started with --%s", hold.Flag)
}

// replacement says on the wire how a server came.
func replacement(s hold.State) protocol.Replacement {
	r := protocol.Replacement{AtMs: s.Since.UnixMilli(), Reason: s.Last, GapMs: uint64(max(s.Gap.Milliseconds(), 0))}
	if s.Last == hold.Replaced {
		r.Reason = protocol.ReplacedByUpgrade
	}
	return r
}

// startTicks returns when a process has started, as in proc_pid_stat(5).
func startTicks(pid int) (uint64, error) {
	field, err := kernel.Stat(pid)
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(field(22), 10, 64)
}
