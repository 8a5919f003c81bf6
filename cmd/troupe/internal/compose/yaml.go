package compose

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/sig"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/yamlfile"
	"github.com/b6f6fdd7/troupe/internal/sandbox/mode"
	"github.com/b6f6fdd7/troupe/protocol"
)

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
	data, err := yamlfile.Read(path)
	if err != nil {
		return nil, err
	}
	dir := filepath.Dir(full)
	r := &reader{file: path, dir: dir, lookup: lookup}
	var p *Project
	if strings.HasPrefix(filepath.Base(full), "Procfile") {
		p = r.readProcfile(data)
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
		p = r.readYAML(data)
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

var programName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

func (r *reader) readYAML(data []byte) *Project {
	p := new(Project)
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		line, text := yamlfile.Fault(err)
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
	var d document
	if r.mapping(doc.Content[0], theFile, &d); d.Processes == nil {
		if len(r.errs) == 0 {
			r.fault(doc.Content[0], "processes is missing: write processes:, with a command for each")
		}
		return p
	}
	p.Name = d.Name
	for _, m := range r.members(d.Processes.Node, "processes") {
		if name := m.key.Value; !programName.MatchString(name) {
			r.fault(m.key, "%s is not the name of a process: use letters, digits, dots, dashes and underscores", quote(name))
		} else {
			p.Programs = append(p.Programs, r.program(m, &d))
		}
	}
	if len(p.Programs) == 0 && len(r.errs) == 0 {
		r.fault(d.Processes.Node, "processes is empty: write a name and a command for each")
	}
	return p
}

// theFile names the mapping with all others in faults.
const theFile = "the file"

// The structs below have the keys of a file. Their values replace the defaults that a struct has before.
type (
	document struct {
		Name        string     `keys:"name" is:"name"`
		Version     string     `keys:"version" is:"version"`
		EnvFile     envFiles   `keys:"env_file"`
		Environment variables  `keys:"environment"`
		Processes   *processes `keys:"processes"`
	}
	// An entry is a program, a member of processes.
	entry struct {
		Command      command      `keys:"command"`
		Environment  variables    `keys:"environment,env"`
		EnvFile      envFiles     `keys:"env_file"`
		DependsOn    dependencies `keys:"depends_on"`
		Readiness    *readiness   `keys:"readiness_probe,healthcheck"`
		ReadyLogLine *logLine     `keys:"ready_log_line"`
		Liveness     *liveness    `keys:"liveness_probe"`
		Restart      restart      `keys:"restart"`
		Availability availability `keys:"availability"`
		Shutdown     shutdown     `keys:"shutdown"`
		Limits       *limits      `keys:"limits"`
		*Program                  // has the keys whose values are taken as they are
		*restarts                 // below restart and availability, too
	}
	shutdown struct {
		Signal  protocol.Signal `keys:"signal" is:"stop signal"`
		Timeout time.Duration   `keys:"timeout"`
	}
	// limits are protocol.ProcessLimits, with the keys of a file.
	limits struct {
		NoFile            *uint64  `keys:"nofile" range:"0"`
		CPUSeconds        *uint64  `keys:"cpu_time" unit:"time"`
		AddressSpaceBytes *uint64  `keys:"address_space" unit:"bytes"`
		Processes         *uint64  `keys:"processes,nproc" range:"0"`
		CoreBytes         *uint64  `keys:"core" unit:"bytes"`
		FileSizeBytes     *uint64  `keys:"file_size,fsize" unit:"bytes"`
		Nice              *int     `keys:"nice" range:"-20,19"`
		OOMScoreAdj       *int     `keys:"oom_score_adj" range:"-1000,1000"`
		MemoryBytes       *uint64  `keys:"memory,mem" unit:"bytes"`
		PIDs              *uint64  `keys:"pids" range:"1"`
		CPUs              *float64 `keys:"cpus,cpu" range:"0.01,100000"`
	}
)

// words are the kinds of text that a file may have, by the tag is of a field: what a fault says is expected, and the function that checks
// a text and returns what it stands for.
var words = map[string]struct {
	expected string
	parse    func(string) (string, bool)
}{
	"name":      {"letters, digits, dots, dashes and underscores", func(s string) (string, bool) { return s, s == "" || programName.MatchString(s) }},
	"version":   {"1, the only version that this troupe knows", func(s string) (string, bool) { return s, s == "1" || strings.HasPrefix(s, "0.") }},
	"condition": {"process_started, process_healthy or process_completed_successfully (troupe waits for a success only)", func(s string) (string, bool) { return conditions[s], conditions[s] != "" }},
	"restarts": {"a whole number from 1 to 1000, or unlimited", func(s string) (string, bool) {
		v, err := strconv.Atoi(s)
		return s, s == "unlimited" || err == nil && 1 <= v && v <= 1000
	}},
	"scheme": {"http or https", func(s string) (string, bool) {
		s = strings.ToLower(s)
		return s, s == "http" || s == "https"
	}},
	"URL": {"a URL such as http://127.0.0.1:8080/health", func(s string) (string, bool) {
		u, err := url.Parse(s)
		return s, err == nil && u.Host != "" && (u.Scheme == "http" || u.Scheme == "https")
	}},
	"address": {"HOST:PORT", func(s string) (string, bool) {
		if _, err := strconv.Atoi(s); err == nil {
			s = "127.0.0.1:" + s
		}
		_, port, err := net.SplitHostPort(s)
		return s, err == nil && port != ""
	}},
	"stop signal": {"SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2 or SIGKILL", func(s string) (string, bool) {
		signal, err := sig.Parse(s)
		return string(signal), err == nil && slices.Contains(stopSignals, signal)
	}},
	"umask": {`octal digits such as "027"`, func(s string) (string, bool) {
		mask, err := strconv.ParseUint(strings.TrimPrefix(s, "0o"), 8, 32)
		return fmt.Sprintf("%03o", mask), err == nil && mask <= 0o777
	}},
	"sandbox": {strings.Join(mode.Names, ", "), func(s string) (string, bool) {
		m, err := mode.Parse(s)
		return m.String(), err == nil
	}},
}

// stopSignals are the signals for the end of a program.
var stopSignals = []protocol.Signal{
	protocol.SignalTerminate, protocol.SignalInterrupt, protocol.SignalQuit, protocol.SignalHangup, protocol.SignalUsr1, protocol.SignalUsr2, protocol.SignalKill,
}

var conditions = map[string]string{
	"process_started": Started, "service_started": Started, "started": Started,
	"process_healthy": Healthy, "service_healthy": Healthy, "process_ready": Healthy, "healthy": Healthy, "ready": Healthy, "process_log_ready": Healthy,
	"process_completed_successfully": Completed, "service_completed_successfully": Completed, "completed_successfully": Completed,
}

// hints are the advice for unknown keys, by the struct without the key.
var hints = map[reflect.Type]map[string]string{
	reflect.TypeFor[document](): {
		"services": "write processes", "procs": "write processes", "programs": "write processes",
		"volumes": "troupe runs programs, not containers", "networks": "troupe runs programs, not containers",
		"log_location": "troupe logs NAME shows output; the server keeps it",
	},
	reflect.TypeFor[entry](): {
		"image": "troupe runs programs, not containers", "build": "troupe runs programs, not containers", "ports": "a program opens its ports itself; wait for one with readiness_probe: {tcp: HOST:PORT}",
		"volumes": "troupe runs programs, not containers", "cmd": "write command", "entrypoint": "write command", "scale": "write replicas", "deploy": "write replicas", "stop_signal": "write shutdown: {signal: …}",
		"stop_grace_period": "write shutdown: {timeout: …}", "mem_limit": "write limits: {memory: …}", "pids_limit": "write limits: {pids: …}", "ulimits": "write limits",
		"log_location": "troupe logs NAME shows output; the server keeps it", "is_daemon": "run the program in the foreground", "vars": "write environment", "profiles": "write namespace",
	},
	reflect.TypeFor[availability](): {"exit_on_failure": "run troupe up --abort-on-exit", "exit_on_end": "run troupe up --abort-on-exit"},
	reflect.TypeFor[shutdown]():     {"command": "a program is stopped by a signal", "parent_only": "the signal goes to the process group of the program"},
	reflect.TypeFor[exec]():         {"working_dir": "a probe runs in the directory of the program"},
	reflect.TypeFor[httpGet]():      {"headers": "a probe sends no headers", "status_code": "a probe takes the status 200 to 399 for a success"},
	reflect.TypeFor[liveness]():     {"tcp": "write exec or http_get", "log_line": "write silence: TIME, for a program that always writes"},
}

// program reads a member of the processes of d.
func (r *reader) program(m member, d *document) *Program {
	p := newProgram(m.key.Value, m.key.Line)
	what := "processes." + p.Name
	k := new(restarts)
	e := entry{
		Program: p, restarts: k, Restart: newRestart(k), Availability: availability{k, newRestart(k)},
		Shutdown: shutdown{p.StopSignal, p.StopTimeout},
	}
	r.mapping(m.value, what, &e)
	switch {
	case len(e.Command) == 0:
		r.fault(m.key, "%s has no command", what)
	case e.Readiness != nil && e.ReadyLogLine != nil:
		r.fault(m.key, "%s has readiness_probe and ready_log_line: leave one out", what)
	case e.ReadyLogLine != nil:
		e.Readiness = &readiness{Line: *e.ReadyLogLine}
	}
	p.Argv, p.DependsOn = e.Command, e.DependsOn
	for _, env := range []map[string]string{d.EnvFile, d.Environment, e.EnvFile, e.Environment} {
		maps.Copy(p.Env, env)
	}
	if e.Readiness != nil {
		p.Ready = e.Readiness.ready()
	}
	if e.Liveness != nil {
		p.Liveness = e.Liveness.liveness()
	}
	p.Restart = e.policy()
	p.StopSignal, p.StopTimeout = e.Shutdown.Signal, e.Shutdown.Timeout
	p.Limits = (*protocol.ProcessLimits)(e.Limits)
	return p
}

// Types with a form of their own.
type (
	processes    struct{ *yaml.Node }
	command      []string // a text as a command becomes sh -c
	variables    map[string]string
	envFiles     map[string]string
	dependencies []Dependency
)

func (p *processes) read(_ *reader, n *yaml.Node, _ string) { p.Node = n }

// read reads a text for a shell, or a list: a program and its arguments.
func (c *command) read(r *reader, n *yaml.Node, what string) {
	*c = command{""} // the key is there, whatever its fault
	if n.Kind == yaml.ScalarNode && !yamlfile.IsNull(n) {
		if s, ok := r.scalar(n, what); ok && strings.TrimSpace(s) == "" {
			r.fault(n, "%s is empty", what)
		} else if ok {
			*c = command{"sh", "-c", s}
		}
		return
	}
	argv, ok := r.list(n, what, false)
	if ok && (len(argv) == 0 || argv[0] == "") {
		r.fault(n, "%s has no program", what)
	} else if ok {
		*c = argv
	}
}

// read reads a mapping of names to values, or a list of NAME=VALUE. A name without a value has the value of the caller's variable.
func (v *variables) read(r *reader, n *yaml.Node, what string) {
	*v = make(variables)
	set := func(at *yaml.Node, name, value string, valued bool) {
		if !valued {
			if value, valued = r.lookup(name); !valued {
				r.fault(at, "%s: %s has no value here, and is not set where troupe runs", what, name)
				return
			}
		}
		if name == "" || strings.ContainsAny(name, "=\x00") {
			r.fault(at, "%s has %s, which is not the name of a variable", what, quote(name))
			return
		}
		(*v)[name] = value
	}
	if n.Kind == yaml.SequenceNode {
		for _, one := range n.Content {
			if s, ok := r.scalar(one, what); ok {
				name, value, valued := strings.Cut(s, "=")
				set(one, name, value, valued)
			}
		}
		return
	}
	for _, m := range r.members(n, what) {
		if yamlfile.IsNull(yamlfile.Target(m.value)) {
			set(m.key, m.key.Value, "", false)
		} else if s, ok := r.scalar(m.value, what+"."+m.key.Value); ok {
			set(m.key, m.key.Value, s, true)
		}
	}
}

func (v *envFiles) read(r *reader, n *yaml.Node, what string) {
	*v = make(envFiles)
	paths, _ := r.list(n, what, true)
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			path = filepath.Join(r.dir, path)
		}
		env, err := readEnv(path, r.lookup)
		if err != nil {
			r.fault(n, "%s: %v", what, err)
		}
		maps.Copy(*v, env)
	}
}

// read reads a list of names, or a mapping of names to conditions. Function check chooses the conditions missing in the file.
func (d *dependencies) read(r *reader, n *yaml.Node, what string) {
	if n.Kind != yaml.MappingNode {
		names, _ := r.list(n, what, true)
		for i, name := range names {
			at := n
			if n.Kind == yaml.SequenceNode {
				at = n.Content[i]
			}
			*d = append(*d, Dependency{Name: name, Line: at.Line})
		}
		return
	}
	for _, m := range r.members(n, what) {
		var one struct {
			Condition string `keys:"condition" is:"condition"`
		}
		r.mapping(m.value, what+"."+m.key.Value, &one)
		*d = append(*d, Dependency{m.key.Value, one.Condition, m.key.Line})
	}
}

func (s *shutdown) read(r *reader, n *yaml.Node, what string) {
	if r.mapping(n, what, s); s.Timeout > time.Hour {
		r.fault(n, "%s.timeout is %v, the limit is 1h", what, s.Timeout)
	}
}

func millis(d time.Duration) *uint64 {
	return new(uint64((d + time.Millisecond - 1) / time.Millisecond))
}
