package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/protocol"
)

// This file has the flags about the limits of clients.

func (o *serveOptions) registerLimits(f *flag.FlagSet) {
	f.DurationVar(&o.config.DetachedTTL, "detached-ttl", 5*time.Minute, "how long a session lives without a connection; negative: forever")
	f.DurationVar(&o.config.MaxDetachedTTL, "max-detached-ttl", 24*time.Hour, "the longest time that a client may ask for in place of --detached-ttl; troupe run asks for a day; negative: no limit")
	f.DurationVar(&o.config.IdleTimeout, "idle-timeout", 0, "how long a session lives without a connection and without output; 0: only --detached-ttl counts")
	f.DurationVar(&o.config.MaxAge, "max-session-age", 0, "how long a session lives, connected or not; 0: forever")
	f.BoolVar(&o.config.EvictForMemory, "evict-for-memory", false, "when --memory-budget is used up, end the session that has been without a connection the longest; default: programs wait")
	f.IntVar(&o.config.MaxConnections, "max-connections", 10_000, "how many connections may have a session; a limit on connections never keeps a client from resuming because of its own dead connections")
	f.IntVar(&o.maxConnectionsEach, "max-connections-each", 0, "how many connections an identity may have, or without credentials an address; 0: no limit of its own")
	f.IntVar(&o.maxConnectionsEachAddress, "max-connections-each-address", 0, "how many connections an address, or a user of a unix socket, may have; 0: no limit of its own")
	f.IntVar(&o.config.MaxSessions, "max-sessions", 10_000, "how many sessions there may be")
	f.IntVar(&o.config.MaxSessionsEach, "max-sessions-each", 0, "how many sessions an identity may have, or without credentials an address; 0: only --max-sessions counts")
	f.IntVar(&o.config.MaxProcesses, "max-processes", 10_000, "how many processes a session may have, including ended processes whose output can still be read")
	f.IntVar(&o.config.MaxProcessesEach, "max-processes-each", 0, "how many processes an identity may run in all its sessions, or without credentials an address; 0: no limit")
	f.Float64Var(&o.config.MaxStartsEach, "max-starts-each", 0, "how many processes an identity may start in a second, or without credentials an address. A restart counts, and waits. 0: no limit")
	f.IntVar(&o.config.StartsBurst, "max-starts-burst", 10, "how many starts of --max-starts-each may come at once")
	f.Int64Var(&o.config.MaxOutputRateEach, "max-output-rate-each", 0, "how many `bytes` the programs of an identity, or without credentials of an address, may write in a second, all together; beyond it they wait; 0: no limit")
	f.Int64Var(&o.config.MaxStdinRateEach, "max-stdin-rate-each", 0, "how many `bytes` of stdin the programs of an identity, or without credentials of an address, may get in a second, all together; beyond it writes to stdin wait; 0: no limit")
	f.DurationVar(&o.config.MaxRunTime, "max-run-time", 0, "how long a run of a program may take, also if its client names no timeout; 0: no limit")
	f.Func("default-limits", "limits of programs whose client names none, as `JSON`, such as {\"nofile\":1024}", limitsInto(&o.config.DefaultLimits))
	f.Func("max-limits", "the largest limits that a client may name, as `JSON`; nice and oomScoreAdj: the smallest. They also hold where --default-limits names none", limitsInto(&o.config.MaxLimits))
	f.DurationVar(&o.config.ClosedRetention, "closed-retention", 80*time.Second, "how long the output of a process can be read after its end")
	f.DurationVar(&o.config.DrainTimeout, "drain-timeout", 30*time.Second, "how long clients that go on reading may take for the output of a session that ends, after its programs have ended")
	f.DurationVar(&o.config.KillGrace, "kill-grace", 2*time.Second, "time between SIGTERM and SIGKILL for programs that do not say another; when the server stops, the longest such time")
	f.Int64Var(&o.config.Retention, "retention", 1<<20, "`bytes` of the newest output that the server keeps of each process, whoever has read them; a process waits when its owner has not read so much")
	f.Int64Var(&o.config.Budget, "memory-budget", 1<<30, "`bytes` that clients may make the server hold; negative: no bound. Half is for output (without the first 64 KiB of each process), a quarter for messages, requests and answers (without the first 64 KiB of each connection), an eighth for output that clients get only at a program's end (without the first 64 KiB of each program), an eighth for arguments and environments of processes (without the first 64 KiB of each session)")
	f.Int64Var(&o.config.SpoolLimit, "spool-limit", 1<<30, "`bytes` that a program may spool; there is room for at least 140,000 pieces; 0: no spool")
	f.Int64Var(&o.config.SpoolBudget, "spool-budget", 10<<30, "`bytes` that all programs together may spool")
	f.Int64Var(&o.config.MaxRetainedEach, "max-retained-each", 0, "`bytes` of output that the server holds in memory for the programs of an identity, or without credentials of an address, all together, without the first 64 KiB of each; beyond it they wait; 0: only --memory-budget counts")
	f.Int64Var(&o.config.MaxSpooledEach, "max-spooled-each", 0, "`bytes` that the programs of an identity, or without credentials of an address, may spool, all together; 0: only --spool-budget counts")
}

// checkLimits refuses wrong flags, and completes the configuration.
func (o *serveOptions) checkLimits() error {
	switch {
	case o.config.DetachedTTL == 0:
		return errors.New("--detached-ttl 0 would end every session at its first cut: choose a longer time, or a negative time for no end")
	case o.config.MaxDetachedTTL == 0:
		return errors.New("--max-detached-ttl 0 would allow clients no time: choose a longer time, or a negative time for no limit")
	case o.config.Retention < config.MinRetention:
		return fmt.Errorf("--retention %d: at least %d bytes are needed", o.config.Retention, config.MinRetention)
	case o.config.Budget == 0:
		return errors.New("--memory-budget 0 would let no program write more than 64 KiB: choose a number of bytes, or a negative number for no bound")
	case o.config.SpoolLimit < 0 || o.config.SpoolBudget < 1:
		return fmt.Errorf("--spool-limit %d, --spool-budget %d: choose a limit of 0 (no spool) or more, and a budget of 1 or more", o.config.SpoolLimit, o.config.SpoolBudget)
	case o.config.MaxConnections < 1 || o.maxConnectionsEach < 0 || o.maxConnectionsEachAddress < 0:
		return fmt.Errorf("--max-connections %d, --max-connections-each %d, --max-connections-each-address %d: the first is at least 1, and 0 means no limit for the others",
			o.config.MaxConnections, o.maxConnectionsEach, o.maxConnectionsEachAddress)
	case o.config.MaxSessions < 1 || o.config.MaxProcesses < 1:
		return fmt.Errorf("--max-sessions %d, --max-processes %d: at least 1 is needed", o.config.MaxSessions, o.config.MaxProcesses)
	case o.config.MaxSessionsEach < 0:
		return fmt.Errorf("--max-sessions-each %d cannot be negative; with 0 only --max-sessions counts", o.config.MaxSessionsEach)
	case o.config.MaxProcessesEach < 0 || !(o.config.MaxStartsEach >= 0 && o.config.MaxStartsEach <= 1e6) || o.config.StartsBurst < 1:
		return fmt.Errorf("--max-processes-each %d, --max-starts-each %v, --max-starts-burst %d: 0 means no limit for the first two, the second is at most 1000000, and the third is at least 1",
			o.config.MaxProcessesEach, o.config.MaxStartsEach, o.config.StartsBurst)
	case o.config.MaxOutputRateEach != 0 && o.config.MaxOutputRateEach < config.MinRate || o.config.MaxStdinRateEach != 0 && o.config.MaxStdinRateEach < config.MinRate:
		return fmt.Errorf("--max-output-rate-each %d, --max-stdin-rate-each %d: choose at least %d bytes a second, or 0 for no limit",
			o.config.MaxOutputRateEach, o.config.MaxStdinRateEach, config.MinRate)
	case o.config.MaxRetainedEach < 0 || o.config.MaxSpooledEach < 0:
		return fmt.Errorf("--max-retained-each %d, --max-spooled-each %d cannot be negative; 0 means no limit", o.config.MaxRetainedEach, o.config.MaxSpooledEach)
	case o.config.MaxRunTime < 0 || o.config.MaxRunTime > 0 && o.config.MaxRunTime < time.Millisecond:
		return fmt.Errorf("--max-run-time %v: choose 1ms or more, or 0 for no limit", o.config.MaxRunTime)
	case o.config.IdleTimeout < 0 || o.config.MaxAge < 0:
		return errors.New("--idle-timeout and --max-session-age cannot be negative; 0 means no limit")
	case o.config.KillGrace < 0 || o.config.DrainTimeout < 0 || o.config.ClosedRetention < 0:
		return errors.New("--kill-grace, --drain-timeout and --closed-retention cannot be negative; 0 means no time at all")
	}
	// In a Config 0 means the default; in a flag 0 means zero.
	for _, d := range []*time.Duration{&o.config.KillGrace, &o.config.DrainTimeout, &o.config.ClosedRetention} {
		if *d == 0 {
			*d = -1
		}
	}
	if o.config.SpoolLimit == 0 {
		o.config.SpoolLimit = -1
	}
	return nil
}

// limitsInto returns a function that parses limits of processes.
func limitsInto(l *protocol.ProcessLimits) func(string) error {
	return func(s string) error {
		d := json.NewDecoder(strings.NewReader(s))
		d.DisallowUnknownFields()
		if err := d.Decode(l); err != nil {
			return fmt.Errorf("%w: want JSON such as {\"nofile\":1024}; docs/protocol/supervision.md, section 14, has all members", err)
		}
		if _, err := d.Token(); err != io.EOF {
			return errors.New("more than one JSON object")
		}
		return l.Validate()
	}
}
