//go:build unix

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/protocol"
)

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
		err := d.Decode(l)
		if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
			return fmt.Errorf("%s is a %s: write a number", wrong.Field, wrong.Value)
		}
		if err != nil {
			return fmt.Errorf("%w: want JSON such as {\"nofile\":1024}; docs/protocol/supervision.md, section 14, has all members", err)
		}
		if _, err := d.Token(); err != io.EOF {
			return errors.New("more than one JSON object")
		}
		return l.Validate()
	}
}
