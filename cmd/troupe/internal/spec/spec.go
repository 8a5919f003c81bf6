// Package spec reads what people write on a command line about the start of a program: restarts, limits,
// readiness, environment files, and the server in a cluster.
package spec

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Policies are the restart policies, by their names here and elsewhere.
var Policies = map[string]string{
	"permanent": protocol.RestartPermanent, "always": protocol.RestartPermanent, "unless-stopped": protocol.RestartPermanent, "unless_stopped": protocol.RestartPermanent,
	"transient": protocol.RestartTransient, "on-failure": protocol.RestartTransient, "on_failure": protocol.RestartTransient,
	"temporary": protocol.RestartTemporary, "never": protocol.RestartTemporary, "no": protocol.RestartTemporary, "false": protocol.RestartTemporary,
}

// Restart reads POLICY[:N[/PERIOD]], such as on-failure:5 or permanent:10/1m. N is how many restarts are allowed in the
// period, or in all without a period. Without N, the server allows 5 in a minute.
func Restart(s string) (*protocol.Restart, error) {
	word, rest, counted := strings.Cut(s, ":")
	policy, ok := Policies[word]
	if !ok {
		return nil, fmt.Errorf("%q is not a restart policy: write permanent (or always), transient (on-failure) or temporary (never), and how often if you like, such as on-failure:5 or permanent:10/1m", word)
	}
	r := &protocol.Restart{Policy: policy}
	if !counted {
		return r, nil
	}
	times, period, limited := strings.Cut(rest, "/")
	n, err := strconv.ParseUint(times, 10, 32)
	if err != nil {
		return nil, fmt.Errorf("%q is not a number of restarts: write %s:5, or %s:5/1m for 5 in a minute", times, word, word)
	}
	r.Intensity = &protocol.Intensity{Restarts: &n, PeriodMs: new(uint64(0))} // unlimited
	if limited {
		d, err := time.ParseDuration(period)
		if err != nil || d < time.Millisecond {
			return nil, fmt.Errorf("%q is not a period: write a duration such as 30s or 10m", period)
		}
		r.Intensity.PeriodMs = new(uint64(d.Milliseconds()))
	}
	return r, nil
}

// A limit is a member of the limits, with the name that a person writes.
type limit struct {
	name string
	at   any // **uint64, **int, **float64, or size
}

// A size is a limit in bytes.
type size struct{ at **uint64 }

func limitsOf(l *protocol.ProcessLimits) []limit {
	return []limit{
		{"memory", size{&l.MemoryBytes}}, {"cpus", &l.CPUs}, {"pids", &l.PIDs}, {"nofile", &l.NoFile}, {"cpu-seconds", &l.CPUSeconds},
		{"address-space", size{&l.AddressSpaceBytes}}, {"processes", &l.Processes}, {"core", size{&l.CoreBytes}}, {"file-size", size{&l.FileSizeBytes}},
		{"nice", &l.Nice}, {"oom-score-adj", &l.OOMScoreAdj},
	}
}

// LimitNames are the names that Limit takes.
func LimitNames() (names []string) {
	for _, l := range limitsOf(new(protocol.ProcessLimits)) {
		names = append(names, l.name)
	}
	return names
}

// Limit sets the limit in NAME=VALUE, such as memory=512M.
func Limit(l *protocol.ProcessLimits, s string) (err error) {
	name, value, ok := strings.Cut(s, "=")
	all := limitsOf(l)
	i := slices.IndexFunc(all, func(known limit) bool { return known.name == name })
	if !ok || i < 0 {
		return fmt.Errorf("%q is not a limit: write NAME=VALUE with one of %s", s, strings.Join(LimitNames(), ", "))
	}
	switch to := all[i].at.(type) {
	case size:
		*to.at = new(uint64)
		if **to.at, err = show.ParseBytes(value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	case **uint64:
		*to = new(uint64)
		**to, err = strconv.ParseUint(value, 10, 63)
	case **int:
		*to = new(int)
		**to, err = strconv.Atoi(value)
	case **float64:
		*to = new(float64)
		if **to, err = strconv.ParseFloat(value, 64); err != nil {
			return fmt.Errorf("%s: %q is not a number of CPUs: write 2 or 0.5", name, value)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %q is not a number", name, value)
	}
	return l.Validate()
}

// Ready reads when a program is ready: tcp:HOST:PORT or tcp:PORT, unix:PATH, file:PATH, line:REGEXP, delay:DURATION or
// exit. dir is the directory of a relative path; "": only absolute paths are allowed, because the directory is the
// server's.
func Ready(s, dir string) (*protocol.Ready, error) {
	kind, arg, _ := strings.Cut(s, ":")
	place := func() (string, error) {
		if !path.IsAbs(arg) {
			if arg == "" || dir == "" {
				return "", fmt.Errorf("%q is not an absolute path on the server", arg)
			}
			arg = path.Join(dir, arg)
		}
		return protocol.FileURI(arg), nil
	}
	r := new(protocol.Ready)
	var err error
	switch kind {
	case "tcp":
		r.TCP = arg
		if _, e := strconv.ParseUint(arg, 10, 16); e == nil {
			r.TCP = "127.0.0.1:" + arg
		} else if i := strings.LastIndexByte(arg, ':'); i < 1 || i == len(arg)-1 {
			err = fmt.Errorf("%q is not an address: write tcp:8080 or tcp:HOST:8080", arg)
		}
	case "unix":
		r.Unix, err = place()
	case "file":
		r.File, err = place()
	case "line":
		r.Line = arg
	case "delay":
		var d time.Duration
		if d, err = time.ParseDuration(arg); err != nil || d < 0 {
			err = fmt.Errorf("%q is not a duration: write delay:5s", arg)
		}
		r.DelayMs = new(uint64(d.Milliseconds()))
	case "exit":
		if r.Exit = true; arg != "" {
			err = fmt.Errorf("exit takes no %q", arg)
		}
	default:
		err = fmt.Errorf("%q is not a condition: write tcp:PORT, unix:PATH, file:PATH, line:REGEXP, delay:5s or exit", s)
	}
	if err == nil {
		err = r.Validate()
	}
	if err != nil {
		return nil, err
	}
	return r, nil
}

// Variable checks KEY=VALUE. For KEY alone, it returns the variable of the environment that lookup reads.
func Variable(s string, lookup func(string) (string, bool)) (kv string, err error) {
	k, _, ok := strings.Cut(s, "=")
	if k == "" || strings.ContainsAny(s, "\x00") {
		return "", errors.New("write it KEY=VALUE")
	}
	if ok {
		return s, nil
	}
	v, ok := lookup(k)
	if !ok {
		return "", fmt.Errorf("%s is not set here: write it KEY=VALUE", k)
	}
	return k + "=" + v, nil
}

// EnvLines calls set for each line NAME=VALUE of an environment file, without an export before it and without the spaces around name and
// value; without =, valued is false. Empty lines and lines that begin with # are left out. An error has the number of its line.
func EnvLines(text string, set func(name, value string, valued bool) error) error {
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, valued := strings.Cut(strings.TrimSpace(strings.TrimPrefix(line, "export ")), "=")
		name = strings.TrimSpace(name)
		err := set(name, strings.TrimSpace(value), valued)
		if strings.ContainsAny(name, " \t\"'") {
			err = fmt.Errorf("%q is not the name of a variable: write KEY=VALUE", name)
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	return nil
}

// EnvFile reads an environment file for troupe run, whose values are taken as they are, without quotes around them. KEY alone stands for
// the variable of the environment that lookup reads.
func EnvFile(text string, lookup func(string) (string, bool)) (env []string, err error) {
	return env, EnvLines(text, func(k, v string, valued bool) error {
		if n := len(v); n >= 2 && (v[0] == '"' || v[0] == '\'') && v[n-1] == v[0] {
			v = v[1 : n-1]
		}
		if valued {
			k += "=" + v
		}
		kv, err := Variable(k, lookup)
		env = append(env, kv)
		return err
	})
}

// Placement reads labels, each KEY=VALUE, and returns the wish for the server of a new session. nil: nothing is wished.
func Placement(labels []string, node, key string) (*protocol.Placement, error) {
	if len(labels) == 0 && node == "" && key == "" {
		return nil, nil
	}
	p := &protocol.Placement{Node: node, Key: key}
	for _, label := range labels {
		name, value, ok := strings.Cut(label, "=")
		if !ok || name == "" || value == "" {
			return nil, fmt.Errorf("%q is not a label: write KEY=VALUE, such as zone=a", label)
		}
		if old, twice := p.Labels[name]; twice && old != value {
			return nil, fmt.Errorf("the label %s is both %s and %s: no server has both", name, old, value)
		}
		if p.Labels == nil {
			p.Labels = make(map[string]string)
		}
		p.Labels[name] = value
	}
	return p, nil
}
