package compose

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/sig"
	"github.com/b6f6fdd7/troupe/internal/sandbox/mode"
	"github.com/b6f6fdd7/troupe/protocol"
)

// maxFile is how large a file may be, in bytes.
const maxFile = 1 << 20

// Read reads and checks a file. lookup finds the variables for ${VAR}; nil: the variables of this process. All faults
// of the file come as Errors.
func Read(path string, lookup func(string) (string, bool)) (*Project, error) {
	if lookup == nil {
		lookup = os.LookupEnv
	}
	full, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(full)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory: name a file in it", path)
	case info.Size() > maxFile:
		return nil, fmt.Errorf("%s has %d bytes, the limit is %d", path, info.Size(), maxFile)
	}
	data, err := os.ReadFile(full)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(full)
	r := &reader{file: path, lookup: lookup}
	var p *Project
	if strings.HasPrefix(filepath.Base(full), "Procfile") {
		p = r.readProcfile(data, dir)
	} else {
		// The .env beside the file has variables for ${VAR}. Variables of the caller go first.
		if env, err := readEnv(filepath.Join(dir, ".env"), lookup); err == nil {
			r.lookup = func(name string) (string, bool) {
				if v, ok := lookup(name); ok {
					return v, true
				}
				v, ok := env[name]
				return v, ok
			}
		} else if !errors.Is(err, os.ErrNotExist) {
			r.fault(nil, "%v", err)
		}
		p = r.readYAML(data, dir)
	}
	p.File, p.Dir = full, dir
	if p.Named = p.Name != ""; !p.Named {
		p.Name = projectName(filepath.Base(dir))
	}
	if len(r.errs) == 0 {
		r.check(p)
	}
	if err := r.sorted(); err != nil {
		return nil, err
	}
	return p, nil
}

// projectName makes the name of a project from the name of a directory.
func projectName(dir string) string {
	name := strings.Trim(regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(dir, "-"), "-.")
	if name == "" {
		return "project"
	}
	return name
}

var (
	programName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	yamlLine    = regexp.MustCompile(`^yaml: (?:unmarshal errors:\n)?\s*line (\d+): `)
)

func (r *reader) readYAML(data []byte, dir string) *Project {
	p := new(Project)
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		text, line := err.Error(), 0
		if m := yamlLine.FindStringSubmatch(text); m != nil {
			line, _ = strconv.Atoi(m[1])
			text = text[len(m[0]):]
		}
		text = strings.TrimPrefix(text, "yaml: ")
		if lines := bytes.Split(data, []byte{'\n'}); line > 0 && line <= len(lines) && bytes.HasPrefix(bytes.TrimLeft(lines[line-1], " "), []byte{'\t'}) {
			text = "the line begins with a tab, and YAML wants spaces"
		}
		r.faultAt(line, "this is not YAML: %s", text)
		return p
	}
	if len(doc.Content) == 0 {
		r.fault(nil, "the file is empty: write processes:, with a command for each")
		return p
	}
	common := make(map[string]string) // environment of all programs
	var programs *yaml.Node
	r.mapping(doc.Content[0], "the file", []key{
		{[]string{"name"}, func(n *yaml.Node) {
			if r.text(&p.Name, "name")(n); p.Name != "" && !programName.MatchString(p.Name) {
				r.fault(n, "name is %s, expected letters, digits, dots, dashes and underscores", quote(p.Name))
			}
		}},
		{[]string{"version"}, func(n *yaml.Node) {
			if v, ok := r.scalar(n, "version"); ok && v != "1" && !strings.HasPrefix(v, "0.") {
				r.fault(n, "version is %s, and this troupe knows version 1 only", quote(v))
			}
		}},
		{[]string{"env_file"}, func(n *yaml.Node) { r.envFiles(n, "env_file", dir, common) }},
		{[]string{"environment"}, func(n *yaml.Node) { r.environment(n, "environment", common) }},
		{[]string{"processes"}, func(n *yaml.Node) { programs = n }},
	}, map[string]string{
		"services": "write processes", "procs": "write processes", "programs": "write processes",
		"volumes": "troupe runs programs, not containers", "networks": "troupe runs programs, not containers",
		"log_location": "troupe logs NAME shows output; the server keeps it",
	})
	if programs == nil {
		if len(r.errs) == 0 {
			r.fault(doc.Content[0], "processes is missing: write processes:, with a command for each")
		}
		return p
	}
	for _, f := range r.fields(programs, "processes") {
		name := f.key.Value
		if !programName.MatchString(name) {
			r.fault(f.key, "%s is not the name of a process: use letters, digits, dots, dashes and underscores", quote(name))
			continue
		}
		p.Programs = append(p.Programs, r.program(f, dir, common))
	}
	if len(p.Programs) == 0 && len(r.errs) == 0 {
		r.fault(programs, "processes is empty: write a name and a command for each")
	}
	return p
}

// program reads an entry of processes.
func (r *reader) program(f field, dir string, common map[string]string) *Program {
	p := newProgram(f.key.Value, f.key.Line)
	what := "processes." + p.Name
	own, files := make(map[string]string), make(map[string]string)
	restarts := new(restarts)
	at := func(name string) string { return what + "." + name }
	keys := []key{
		{[]string{"command"}, func(n *yaml.Node) { p.Argv = r.command(n, at("command")) }},
		{[]string{"description"}, r.text(&p.Description, at("description"))},
		{[]string{"working_dir", "cwd"}, r.text(&p.Dir, at("working_dir"))},
		{[]string{"environment", "env"}, func(n *yaml.Node) { r.environment(n, at("environment"), own) }},
		{[]string{"env_file"}, func(n *yaml.Node) { r.envFiles(n, at("env_file"), dir, files) }},
		{[]string{"depends_on"}, func(n *yaml.Node) { p.DependsOn = r.dependencies(n, at("depends_on")) }},
		{[]string{"readiness_probe", "healthcheck"}, func(n *yaml.Node) { r.readiness(n, at("readiness_probe"), p) }},
		{[]string{"ready_log_line"}, func(n *yaml.Node) {
			r.readiness(&yaml.Node{Kind: yaml.MappingNode, Line: n.Line, Column: n.Column, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "log_line", Line: n.Line}, n}}, at("ready_log_line"), p)
		}},
		{[]string{"liveness_probe"}, func(n *yaml.Node) { r.liveness(n, at("liveness_probe"), p) }},
		{[]string{"restart"}, func(n *yaml.Node) { r.restart(n, at("restart"), restarts) }},
		{[]string{"availability"}, func(n *yaml.Node) {
			r.mapping(n, at("availability"), append(r.restartKeys(at("availability"), restarts), key{[]string{"restart"}, func(n *yaml.Node) { r.restart(n, at("availability.restart"), restarts) }}), map[string]string{
				"exit_on_failure": "run troupe up --abort-on-exit", "exit_on_end": "run troupe up --abort-on-exit",
			})
		}},
		{[]string{"shutdown"}, func(n *yaml.Node) { r.shutdown(n, at("shutdown"), p) }},
		{[]string{"limits"}, func(n *yaml.Node) { r.limits(n, at("limits"), p) }},
		{[]string{"user"}, r.text(&p.User, at("user"))},
		{[]string{"umask"}, func(n *yaml.Node) {
			s, ok := alias(n).Value, true
			if alias(n).Kind != yaml.ScalarNode || strings.Contains(s, "${") {
				s, ok = r.scalar(n, at("umask"))
			}
			mask, err := strconv.ParseUint(strings.TrimPrefix(s, "0o"), 8, 32)
			if ok && (err != nil || mask > 0o777) {
				r.fault(n, "%s is %s, expected octal digits such as \"027\"", at("umask"), quote(s))
			}
			p.Umask = fmt.Sprintf("%03o", mask)
		}},
		{[]string{"no_new_privileges"}, r.boolean(&p.NoNewPrivs, at("no_new_privileges"))},
		{[]string{"sandbox"}, func(n *yaml.Node) {
			s, ok := r.scalar(n, at("sandbox"))
			m, err := mode.Parse(s)
			if ok && err != nil {
				r.fault(n, "%s is %s, expected %s", at("sandbox"), quote(s), strings.Join(mode.Names, ", "))
			}
			p.Sandbox = m.String()
		}},
		{[]string{"replicas"}, func(n *yaml.Node) {
			if v, ok := r.number(n, at("replicas"), 1, 500); ok {
				p.Replicas = int(v)
			}
		}},
		{[]string{"namespace"}, func(n *yaml.Node) { r.text(&p.Namespace, at("namespace"))(n) }},
		{[]string{"tty", "is_tty"}, r.boolean(&p.TTY, at("tty"))},
		{[]string{"disabled"}, r.boolean(&p.Disabled, at("disabled"))},
	}
	keys = append(keys, r.restartKeys(what, restarts)...)
	keys = append(keys, r.durationKeys(&p.Timeout, what, "timeout")...)
	r.mapping(f.value, what, keys, map[string]string{
		"image": "troupe runs programs, not containers", "build": "troupe runs programs, not containers", "ports": "a program opens its ports itself; wait for one with readiness_probe: {tcp: HOST:PORT}",
		"volumes": "troupe runs programs, not containers", "cmd": "write command", "entrypoint": "write command", "scale": "write replicas", "deploy": "write replicas", "stop_signal": "write shutdown: {signal: …}",
		"stop_grace_period": "write shutdown: {timeout: …}", "mem_limit": "write limits: {memory: …}", "pids_limit": "write limits: {pids: …}", "ulimits": "write limits",
		"log_location": "troupe logs NAME shows output; the server keeps it", "is_daemon": "run the program in the foreground", "vars": "write environment", "profiles": "write namespace",
	})
	maps.Copy(p.Env, common)
	maps.Copy(p.Env, files)
	maps.Copy(p.Env, own)
	if len(p.Argv) == 0 {
		r.fault(f.key, "%s has no command", what)
	}
	p.Restart = restarts.policy()
	return p
}

// command reads a text for a shell, or a list: a program and its arguments.
func (r *reader) command(n *yaml.Node, what string) []string {
	n = alias(n)
	if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
		if s, ok := r.scalar(n, what); ok && strings.TrimSpace(s) == "" {
			r.fault(n, "%s is empty", what)
		} else if ok {
			return []string{"sh", "-c", s}
		}
		return []string{""}
	}
	argv, ok := r.list(n, what, false)
	if ok && (len(argv) == 0 || argv[0] == "") {
		r.fault(n, "%s has no program", what)
	}
	if len(argv) == 0 {
		argv = []string{""} // said already
	}
	return argv
}

// environment reads a mapping of names to values, or a list of NAME=VALUE. A name without a value has the value of
// the caller's variable.
func (r *reader) environment(n *yaml.Node, what string, to map[string]string) {
	set := func(at *yaml.Node, name, value string) {
		if name == "" || strings.ContainsAny(name, "=\x00") {
			r.fault(at, "%s has %s, which is not the name of a variable", what, quote(name))
			return
		}
		to[name] = value
	}
	inherit := func(at *yaml.Node, name string) {
		if v, ok := r.lookup(name); ok {
			set(at, name, v)
		} else {
			r.fault(at, "%s: %s has no value here, and is not set where troupe runs", what, name)
		}
	}
	if alias(n).Kind == yaml.SequenceNode {
		for _, one := range alias(n).Content {
			if s, ok := r.scalar(one, what); ok {
				if name, value, is := strings.Cut(s, "="); is {
					set(one, name, value)
				} else {
					inherit(one, s)
				}
			}
		}
		return
	}
	for _, f := range r.fields(n, what) {
		if v := alias(f.value); v.Kind == yaml.ScalarNode && v.Tag == "!!null" {
			inherit(f.key, f.key.Value)
		} else if s, ok := r.scalar(v, what+"."+f.key.Value); ok {
			set(f.key, f.key.Value, s)
		}
	}
}

func (r *reader) envFiles(n *yaml.Node, what, dir string, to map[string]string) {
	paths, ok := r.list(n, what, true)
	if !ok {
		return
	}
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(dir, path)
		}
		env, err := readEnv(path, r.lookup)
		if err != nil {
			r.fault(n, "%s: %v", what, err)
			continue
		}
		maps.Copy(to, env)
	}
}

var conditions = map[string]string{
	"process_started": Started, "service_started": Started, "started": Started,
	"process_healthy": Healthy, "service_healthy": Healthy, "process_ready": Healthy, "healthy": Healthy, "ready": Healthy, "process_log_ready": Healthy,
	"process_completed_successfully": Completed, "service_completed_successfully": Completed, "completed_successfully": Completed,
}

// dependencies reads a list of names, or a mapping of names to conditions.
func (r *reader) dependencies(n *yaml.Node, what string) (all []Dependency) {
	n = alias(n)
	if n.Kind != yaml.MappingNode {
		names, _ := r.list(n, what, true)
		for i, name := range names {
			line := n.Line
			if n.Kind == yaml.SequenceNode {
				line = n.Content[i].Line
			}
			all = append(all, Dependency{Name: name, Line: line}) // check chooses the condition
		}
		return all
	}
	for _, f := range r.fields(n, what) {
		d := Dependency{Name: f.key.Value, Line: f.key.Line}
		at := what + "." + d.Name
		r.mapping(f.value, at, []key{{[]string{"condition"}, func(n *yaml.Node) {
			s, ok := r.scalar(n, at+".condition")
			if d.Condition = conditions[s]; ok && d.Condition == "" {
				hint := ""
				if s == "process_completed" {
					hint = ": troupe waits for a success only"
				}
				r.fault(n, "%s.condition is %s, expected %s, %s or %s%s", at, quote(s), Started, Healthy, Completed, hint)
			}
		}}}, nil)
		all = append(all, d)
	}
	return all
}

func millis(d time.Duration) *uint64 {
	ms := uint64((d + time.Millisecond - 1) / time.Millisecond)
	return &ms
}

// stopSignals are the signals for the end of a program.
var stopSignals = []protocol.Signal{
	protocol.SignalTerminate, protocol.SignalInterrupt, protocol.SignalQuit, protocol.SignalHangup, protocol.SignalUsr1, protocol.SignalUsr2, protocol.SignalKill,
}

func (r *reader) shutdown(n *yaml.Node, what string, p *Program) {
	keys := append(r.durationKeys(&p.StopTimeout, what, "timeout"), key{[]string{"signal"}, func(n *yaml.Node) {
		s, ok := r.scalar(n, what+".signal")
		signal, err := sig.Parse(s)
		if ok && (err != nil || !slices.Contains(stopSignals, signal)) {
			r.fault(n, "%s.signal is %s, expected SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2 or SIGKILL", what, quote(s))
		}
		p.StopSignal = signal
	}})
	r.mapping(n, what, keys, map[string]string{"command": "a program is stopped by a signal", "parent_only": "the signal goes to the process group of the program"})
	if p.StopTimeout > time.Hour {
		r.fault(n, "%s.timeout is %v, the limit is 1h", what, p.StopTimeout)
	}
}

func (r *reader) limits(n *yaml.Node, what string, p *Program) {
	l := new(protocol.ProcessLimits)
	count := func(to **uint64, name string, least int64) func(*yaml.Node) {
		return func(n *yaml.Node) {
			if v, ok := r.number(n, what+"."+name, least, math.MaxInt64); ok {
				u := uint64(v)
				*to = &u
			}
		}
	}
	whole := func(to **int, name string, least, most int64) func(*yaml.Node) {
		return func(n *yaml.Node) {
			if v, ok := r.number(n, what+"."+name, least, most); ok {
				i := int(v)
				*to = &i
			}
		}
	}
	cpu := unsetTime
	keys := []key{
		{[]string{"memory", "mem"}, r.size(&l.MemoryBytes, what+".memory")},
		{[]string{"cpus", "cpu"}, func(n *yaml.Node) {
			s, ok := r.scalar(n, what+".cpus")
			v, err := strconv.ParseFloat(s, 64)
			if ok && (err != nil || v < 0.01 || v > 100_000) {
				r.fault(n, "%s.cpus is %s, expected a number of CPUs such as 0.5", what, quote(s))
			} else if ok {
				l.CPUs = &v
			}
		}},
		{[]string{"pids"}, count(&l.PIDs, "pids", 1)},
		{[]string{"nofile"}, count(&l.NoFile, "nofile", 0)},
		{[]string{"processes", "nproc"}, count(&l.Processes, "processes", 0)},
		{[]string{"address_space"}, r.size(&l.AddressSpaceBytes, what+".address_space")},
		{[]string{"core"}, r.size(&l.CoreBytes, what+".core")},
		{[]string{"file_size", "fsize"}, r.size(&l.FileSizeBytes, what+".file_size")},
		{[]string{"nice"}, whole(&l.Nice, "nice", -20, 19)},
		{[]string{"oom_score_adj"}, whole(&l.OOMScoreAdj, "oom_score_adj", -1000, 1000)},
	}
	r.mapping(n, what, append(keys, r.durationKeys(&cpu, what, "cpu_time")...), nil)
	if cpu >= 0 {
		s := max(uint64(cpu/time.Second), 1)
		l.CPUSeconds = &s
	}
	p.Limits = l
}
