package compose

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Explain describes the programs for a person, with the defaults of all values missing in the file.
func (p *Project) Explain(programs []*Program) string {
	var b strings.Builder
	total := 0
	for _, one := range programs {
		total += len(one.Units())
	}
	fmt.Fprintf(&b, "project %s, from %s\n%d processes, in start order (each stops after those that depend on it):\n", p.Name, p.File, total)
	for i, one := range programs {
		fmt.Fprintf(&b, "\n%d. %s\n", i+1, one.Name)
		for _, row := range p.explain(one) {
			fmt.Fprintf(&b, "   %-12s %s\n", row[0], row[1])
		}
	}
	for _, one := range p.Programs {
		if !slices.Contains(programs, one) {
			why := "not selected"
			if one.Disabled {
				why = "disabled: started by name only"
			}
			fmt.Fprintf(&b, "\nnot started: %s (%s)\n", one.Name, why)
		}
	}
	return b.String()
}

func (p *Project) explain(one *Program) (rows [][2]string) {
	row := func(name, format string, args ...any) {
		rows = append(rows, [2]string{name, fmt.Sprintf(format, args...)})
	}
	if one.Description != "" {
		row("about", "%s", one.Description)
	}
	if len(one.Argv) == 3 && one.Argv[0] == "sh" && one.Argv[1] == "-c" {
		row("runs", "%s   (with sh -c)", one.Argv[2])
	} else {
		row("runs", "%q", one.Argv)
	}
	if one.Replicas > 0 {
		var ids []string
		for _, u := range one.Units() {
			ids = append(ids, u.ID)
		}
		row("as", "%s", strings.Join(ids, ", "))
	}
	switch {
	case one.Dir == "":
		row("in", "the directory of the file; on another server, the directory of the server (default)")
	case strings.HasPrefix(one.Dir, "/"):
		row("in", "%s", one.Dir)
	default:
		row("in", "%s, below the directory of the file; on another server, below the directory of the server", one.Dir)
	}
	if names := slices.Sorted(maps.Keys(one.Env)); len(names) > 0 {
		row("variables", "%s", strings.Join(names, ", "))
	}
	for _, d := range one.DependsOn {
		how := map[string]string{Started: "has started", Healthy: "is ready", Completed: "has completed successfully"}[d.Condition]
		row("after", "%s %s", d.Name, how)
	}
	switch r := one.Ready; {
	case r == nil:
		row("ready", "when it has started (default)")
	case r.Exit:
		row("ready", "when it has ended with exit code 0, because others wait for that")
	case r.DelayMs != nil:
		row("ready", "%v after its start", ms(*r.DelayMs))
	default:
		row("ready", "when %s; restarted or given up after %v without", readyText(r), ms(*r.TimeoutMs))
	}
	if l := one.Liveness; l != nil {
		if l.SilenceMs > 0 {
			row("alive", "while it writes something every %v", ms(l.SilenceMs))
		}
		if l.Probe != nil {
			row("alive", "while %s succeeds, every %v; dead after %d failures, or %v without an answer", probeText(l.Probe), ms(cmp.Or(l.Probe.EveryMs, 10_000)), cmp.Or(l.Probe.Failures, 3), ms(cmp.Or(l.Probe.TimeoutMs, 5_000)))
		}
	}
	row("restart", "%s", restartText(one.Restart))
	row("stop", "%s, and SIGKILL after %v", one.StopSignal.Posix(), one.StopTimeout)
	if one.Timeout > 0 {
		row("timeout", "a run may take %v", one.Timeout)
	}
	if text := limitsText(one.Limits); text != "" {
		row("limits", "%s", text)
	}
	if one.User != "" {
		row("user", "%s", one.User)
	}
	if one.Umask != "" {
		row("umask", "%s", one.Umask)
	}
	if one.NoNewPrivs {
		row("privileges", "none beyond those at its start")
	}
	if one.Sandbox != "" {
		row("sandbox", "%s", one.Sandbox)
	}
	if one.TTY {
		row("terminal", "yes")
	}
	if one.Namespace != DefaultNamespace {
		row("namespace", "%s", one.Namespace)
	}
	return rows
}

func ms(n uint64) time.Duration { return time.Duration(n) * time.Millisecond }

func readyText(r *protocol.Ready) string {
	switch {
	case r.Probe != nil:
		return fmt.Sprintf("%s succeeds, tried every %v", probeText(r.Probe), ms(cmp.Or(r.Probe.EveryMs, 1000)))
	case r.Line != "":
		return fmt.Sprintf("it writes a line like %q", r.Line)
	case r.TCP != "":
		return r.TCP + " accepts connections"
	case r.Unix != "":
		return "the socket " + r.Unix + " accepts connections"
	}
	return "the file " + r.File + " exists"
}

func probeText(p *protocol.Probe) string {
	if p.HTTP != "" {
		return "GET " + p.HTTP
	}
	if len(p.Argv) == 3 && p.Argv[0] == "sh" && p.Argv[1] == "-c" {
		return fmt.Sprintf("%q", p.Argv[2])
	}
	return fmt.Sprintf("%q", strings.Join(p.Argv, " "))
}

func restartText(r protocol.Restart) string {
	when := map[string]string{"temporary": "never", "transient": "after a failure", "permanent": "always"}[r.Policy]
	if r.Policy == "temporary" {
		return when
	}
	switch b := r.Backoff; {
	case b == nil:
		when += ", after 100ms, doubled up to 30s"
	case b.Factor == 1:
		when += fmt.Sprintf(", after %v", ms(*b.InitialMs))
	default:
		when += fmt.Sprintf(", after %v, times %v up to %v", ms(*b.InitialMs), b.Factor, ms(*b.MaxMs))
	}
	if in := r.Intensity; *in.PeriodMs == 1 {
		when += ", without limit"
	} else {
		when += fmt.Sprintf("; given up after %d restarts in %v", *in.Restarts, ms(*in.PeriodMs))
	}
	if r.GiveUp != nil {
		when += fmt.Sprintf(", or exit code %v", r.GiveUp.ExitCodes)
	}
	return when
}

func limitsText(l *protocol.ProcessLimits) string {
	if l == nil {
		return ""
	}
	var all []string
	for _, f := range fieldsOf(reflect.ValueOf((*limits)(l)).Elem()) {
		if f.value.IsNil() || f.unit == "seconds" {
			continue
		}
		unit := map[string]string{"bytes": " bytes", "time": "s"}[f.unit]
		all = append(all, fmt.Sprintf("%s %v%s", f.keys[0], f.value.Elem(), unit))
	}
	return strings.Join(all, ", ")
}
