// Package spec reads what people write on a command line about the start of a program: restarts, limits,
// readiness and environment files.
package spec

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// policies are the restart policies, and the names that people know from elsewhere.
var policies = map[string]string{
	"permanent": "permanent", "always": "permanent",
	"transient": "transient", "on-failure": "transient",
	"temporary": "temporary", "never": "temporary", "no": "temporary",
}

// Restart reads POLICY[:N[/PERIOD]], such as on-failure:5 or permanent:10/1m. N is how many restarts are allowed in the
// period, or in all without a period. Without N, the server allows 5 in a minute.
func Restart(s string) (*protocol.Restart, error) {
	word, rest, counted := strings.Cut(s, ":")
	policy, ok := policies[word]
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

// A limit sets a member of the limits to what a person wrote.
type limit struct {
	name string
	set  func(*protocol.ProcessLimits, string) error
}

var limits = []limit{
	{"memory", sized(func(l *protocol.ProcessLimits) **uint64 { return &l.MemoryBytes })},
	{"cpus", func(l *protocol.ProcessLimits, s string) error {
		n, err := strconv.ParseFloat(s, 64)
		if err != nil {
			return fmt.Errorf("%q is not a number of CPUs: write 2 or 0.5", s)
		}
		l.CPUs = &n
		return nil
	}},
	{"pids", counted(func(l *protocol.ProcessLimits) **uint64 { return &l.PIDs })},
	{"nofile", counted(func(l *protocol.ProcessLimits) **uint64 { return &l.NoFile })},
	{"cpu-seconds", counted(func(l *protocol.ProcessLimits) **uint64 { return &l.CPUSeconds })},
	{"address-space", sized(func(l *protocol.ProcessLimits) **uint64 { return &l.AddressSpaceBytes })},
	{"processes", counted(func(l *protocol.ProcessLimits) **uint64 { return &l.Processes })},
	{"core", sized(func(l *protocol.ProcessLimits) **uint64 { return &l.CoreBytes })},
	{"file-size", sized(func(l *protocol.ProcessLimits) **uint64 { return &l.FileSizeBytes })},
	{"nice", signed(func(l *protocol.ProcessLimits) **int { return &l.Nice })},
	{"oom-score-adj", signed(func(l *protocol.ProcessLimits) **int { return &l.OOMScoreAdj })},
}

func sized(at func(*protocol.ProcessLimits) **uint64) func(*protocol.ProcessLimits, string) error {
	return func(l *protocol.ProcessLimits, s string) error {
		n, err := show.ParseBytes(s)
		*at(l) = &n
		return err
	}
}

func counted(at func(*protocol.ProcessLimits) **uint64) func(*protocol.ProcessLimits, string) error {
	return func(l *protocol.ProcessLimits, s string) error {
		n, err := strconv.ParseUint(s, 10, 63)
		if err != nil {
			return fmt.Errorf("%q is not a number", s)
		}
		*at(l) = &n
		return nil
	}
}

func signed(at func(*protocol.ProcessLimits) **int) func(*protocol.ProcessLimits, string) error {
	return func(l *protocol.ProcessLimits, s string) error {
		n, err := strconv.Atoi(s)
		if err != nil {
			return fmt.Errorf("%q is not a number", s)
		}
		*at(l) = &n
		return nil
	}
}

// LimitNames are the names that Limit takes.
func LimitNames() []string {
	var names []string
	for _, l := range limits {
		names = append(names, l.name)
	}
	return names
}

// Limit sets the limit in NAME=VALUE, such as memory=512M.
func Limit(l *protocol.ProcessLimits, s string) error {
	name, value, ok := strings.Cut(s, "=")
	i := slices.IndexFunc(limits, func(known limit) bool { return known.name == name })
	if !ok || i < 0 {
		return fmt.Errorf("%q is not a limit: write NAME=VALUE with one of %s", s, strings.Join(LimitNames(), ", "))
	}
	if err := limits[i].set(l, value); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return l.Validate()
}

// Ready reads when a program is ready: tcp:HOST:PORT or tcp:PORT, unix:PATH, file:PATH, line:REGEXP, delay:DURATION or
// exit. dir is the directory of a relative path; "": only absolute paths are allowed, because the directory is the
// server's.
func Ready(s, dir string) (*protocol.Ready, error) {
	kind, arg, _ := strings.Cut(s, ":")
	path := func() (string, error) {
		if !filepath.IsAbs(arg) {
			if arg == "" || dir == "" {
				return "", fmt.Errorf("%q is not an absolute path on the server", arg)
			}
			arg = filepath.Join(dir, arg)
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
		} else if host, port, ok := cutLast(arg, ":"); !ok || host == "" || port == "" {
			err = fmt.Errorf("%q is not an address: write tcp:8080 or tcp:HOST:8080", arg)
		}
	case "unix":
		r.Unix, err = path()
	case "file":
		r.File, err = path()
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

func cutLast(s, sep string) (before, after string, ok bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
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

// EnvFile reads the lines of an environment file: KEY=VALUE, KEY for the variable of the environment that lookup reads,
// # comments and empty lines. An export before and quotes around the value are left out.
func EnvFile(text string, lookup func(string) (string, bool)) ([]string, error) {
	var env []string
	number := 0
	for line := range strings.Lines(text) {
		number++
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		line = strings.TrimSpace(strings.TrimPrefix(line, "export "))
		if k, v, ok := strings.Cut(line, "="); ok {
			k = strings.TrimSpace(k)
			if strings.ContainsAny(k, " \t\"'") {
				return nil, fmt.Errorf("line %d: %q is not the name of a variable: write KEY=VALUE", number, k)
			}
			v = strings.TrimSpace(v)
			if n := len(v); n >= 2 && (v[0] == '"' || v[0] == '\'') && v[n-1] == v[0] {
				v = v[1 : n-1]
			}
			line = k + "=" + v
		}
		kv, err := Variable(line, lookup)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		env = append(env, kv)
	}
	return env, nil
}
