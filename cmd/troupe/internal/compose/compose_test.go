package compose

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/b6f6fdd7/troupe/protocol"
)

// read reads a file with the content, in a directory with other files.
func read(t interface {
	Helper()
	Fatal(...any)
	TempDir() string
}, name, content string, others map[string]string, vars map[string]string) (*Project, error) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "shop")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, content := range others {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := Read(path, func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
	if err != nil {
		err = fmt.Errorf("%s", strings.ReplaceAll(err.Error(), path, name))
	}
	return p, err
}

func mustRead(t *testing.T, content string) *Project {
	t.Helper()
	p, err := read(t, "troupe.yaml", content, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every fault has its line, and tells the correction.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"", "troupe.yaml: the file is empty: write processes:, with a command for each"},
		{"processes: {}", "troupe.yaml:1:12: processes is empty: write a name and a command for each"},
		{"name: x", "troupe.yaml:1:1: processes is missing: write processes:, with a command for each"},
		{"services:\n  a: {}", `troupe.yaml:1:1: unknown key "services" in the file: write processes`},
		{"processes:\n  a:\n    comand: x", "troupe.yaml:3:5: unknown key \"comand\" in processes.a: did you mean command?\ntroupe.yaml:2:3: processes.a has no command"},
		{"processes:\n  a: {command: x, image: y}", `troupe.yaml:2:19: unknown key "image" in processes.a: troupe runs programs, not containers`},
		{"processes:\n  a: {command: x}\n  a: {command: y}", `troupe.yaml:3:3: "a" is there twice, also in line 2`},
		{"processes:\n\ta: x", "troupe.yaml:2: this is not YAML: the line begins with a tab, and YAML wants spaces"},
		{"processes:\n  a: {command: x, timeout: 5}", `troupe.yaml:2:28: processes.a.timeout is "5", which has no unit: write 5s, 5ms or 5m`},
		{"processes:\n  a: {command: x, limits: {memory: lots}}", `troupe.yaml:2:36: processes.a.limits.memory is "lots", expected a size such as 512MiB or 2GiB`},
		{"processes:\n  a: {command: x, replicas: 0}", `troupe.yaml:2:29: processes.a.replicas is "0", expected a whole number from 1 to 500`},
		{"processes:\n  a: {command: x, restart: sometimes}", `troupe.yaml:2:28: processes.a.restart is "sometimes", expected no, on_failure or always`},
		{"processes:\n  a: {command: x, shutdown: {signal: 99}}", `troupe.yaml:2:38: processes.a.shutdown.signal is "99", expected SIGTERM, SIGINT, SIGQUIT, SIGHUP, SIGUSR1, SIGUSR2 or SIGKILL`},
		{"processes:\n  a: {command: x, umask: 9}", `troupe.yaml:2:26: processes.a.umask is "9", expected octal digits such as "027"`},
		{"processes:\n  a: {command: x, sandbox: none}", `troupe.yaml:2:28: processes.a.sandbox is "none", expected read-only, read-only,net, workspace-write, workspace-write,net`},
		{"processes:\n  a: {command: 'x ${NONE}'}", "troupe.yaml:2:16: processes.a.command: the variable NONE is not set: set it, write ${NONE:-default}, or $${NONE} to leave it to the shell"},
		{"processes:\n  a: {command: 'x ${NONE:?give it}'}", "troupe.yaml:2:16: processes.a.command: the variable NONE is not set: give it"},
		{"processes:\n  a: {command: x, env_file: none.env}", "troupe.yaml:2:29: processes.a.env_file: open DIR/none.env: no such file or directory"},
		{"processes:\n  web: {command: x, depends_on: [bd]}\n  db: {command: y}", `troupe.yaml:2: web depends on "bd", which is not a process of this file: did you mean db?`},
		{"processes:\n  a: {command: x, depends_on: [b]}\n  b: {command: y, depends_on: [c]}\n  c: {command: y, depends_on: [b]}", "troupe.yaml:3: processes depend on each other in a circle: b → c → b"},
		{"processes:\n  a: {command: x, depends_on: {b: {condition: process_healthy}}}\n  b: {command: y}", "troupe.yaml:2: a waits until b is healthy, but b has no readiness_probe"},
		{"processes:\n  a: {command: x, depends_on: {b: {condition: process_completed_successfully}}}\n  b: {command: y, restart: always}", "troupe.yaml:2: a waits until b has completed, but b is always restarted: write restart: on_failure"},
		{"processes:\n  a: {command: x, depends_on: [b]}\n  b: {command: y, disabled: true}", "troupe.yaml:2: a depends on b, which is disabled: enable it, or remove the dependency"},
		{"processes:\n  a: {command: x, replicas: 2}\n  a-1: {command: y}", "troupe.yaml:3: the replica a-1 of a-1 has the name of a process in line 2: rename one"},
		{"processes:\n  a: {command: x, readiness_probe: {tcp: '80', file: x}}", "troupe.yaml:2:36: processes.a.readiness_probe has 2 conditions, expected one of exec, http_get, tcp, unix, file, log_line and delay"},
		{"processes:\n  a: {command: x, liveness_probe: {period: 1s}}", "troupe.yaml:2:35: processes.a.liveness_probe has nothing to look at: write exec, http_get or silence"},
		{"processes: &x\n  a: {command: y}\n  <<: *x", "troupe.yaml:1:12: << merges a mapping into itself"},
		{"processes:\n  a: {command: x, cwd: a, working_dir: b}", "troupe.yaml:2:27: working_dir and cwd mean the same: leave one out"},
	} {
		_, err := read(t, "troupe.yaml", c.in, nil, nil)
		if err == nil {
			t.Errorf("%q is accepted, want: %s", c.in, c.want)
			continue
		}
		got := err.Error()
		if i := strings.Index(got, "open /"); i >= 0 {
			j := strings.Index(got[i:], "/none.env")
			got = got[:i] + "open DIR" + got[i+j:]
		}
		for _, line := range strings.Split(c.want, "\n") {
			if !strings.Contains("\n"+got+"\n", "\n"+line+"\n") {
				t.Errorf("%q:\n got %s\nwant %s", c.in, got, line)
			}
		}
	}
}

// The spellings of other process runners mean the same.
func TestSpellings(t *testing.T) {
	p := mustRead(t, strings.ReplaceAll(spellings, "\t", "  "))
	web, db, job := p.Program("web"), p.Program("db"), p.Program("job")
	if fmt.Sprint(web.Argv) != "[./web --port 80]" || web.Dir != "sub" || web.Env["OWN"] != "mine" || web.Env["COMMON"] != "1" || web.Env["N"] != "5" {
		t.Errorf("web: %+v", web)
	}
	if r := web.Ready.Probe; r.HTTP != "http://localhost:8080/health" || r.EveryMs != 2000 || r.TimeoutMs != 1000 || *r.DelayMs != 3000 {
		t.Errorf("readiness of web: %+v", r)
	}
	if l := web.Liveness.Probe; fmt.Sprint(l.Argv) != "[sh -c true]" || l.EveryMs != 5000 || l.Failures != 2 {
		t.Errorf("liveness of web: %+v", l)
	}
	if web.Restart.Policy != "permanent" || web.StopSignal != protocol.SignalInterrupt || web.StopTimeout != 3*time.Second {
		t.Errorf("web: %+v", web)
	}
	if db.Ready.Line != "ready to (accept|serve)" || db.Restart.Policy != "transient" || *db.Restart.Backoff.InitialMs != 2000 || *db.Restart.Intensity.Restarts != 7 {
		t.Errorf("db: %+v", db)
	}
	if *db.Limits.MemoryBytes != 512<<20 || *db.Limits.CPUs != 0.5 || *db.Limits.PIDs != 10 {
		t.Errorf("limits of db: %+v", db.Limits)
	}
	if !job.Ready.Exit || job.Umask != "022" || len(job.Units()) != 2 || job.Units()[1].ID != "job-2" {
		t.Errorf("job: %+v", job)
	}
	if order := fmt.Sprint(namesOf(p.Order())); order != "[db job web]" {
		t.Errorf("the order is %s", order)
	}
	s := p.Params(web.Units()[0], Place{Dir: "/srv"})
	if s.Cwd != "file:///srv/sub" || fmt.Sprint(s.DependsOn) != "[db job-1 job-2]" || s.Env["TROUPE_PROCESS"] != "web" {
		t.Errorf("params of web: %+v", s)
	}
	if err := s.Validate(); err != nil {
		t.Errorf("params of web: %v", err)
	}
}

const spellings = `
name: names
version: "0.5"
environment: [COMMON=1, OWN=common]
x-base: &base
	restart: unless-stopped
processes:
	web:
		<<: *base
		command: [./web, --port, "80"]
		cwd: sub
		env: {OWN: mine, N: 5}
		depends_on: {db: {condition: service_healthy}, job: {condition: process_completed_successfully}}
		readiness_probe: {http_get: {host: localhost, port: 8080, path: /health}, period_seconds: 2, timeout_seconds: 1, initial_delay_seconds: 3}
		liveness_probe: {exec: {command: "true"}, interval: 5s, retries: 2}
		shutdown: {signal: 2, timeout_seconds: 3}
	db:
		command: ./db
		ready_log_line: "ready to (accept|serve)"
		availability: {restart: on_failure, backoff_seconds: 2, max_restarts: 7}
		limits: {memory: 512m, cpus: 0.5, pids: 10}
	job: {command: ./job, replicas: 2, umask: 022}
`

func TestProcfile(t *testing.T) {
	p, err := read(t, "Procfile", "# comment\nweb: ./web -p $PORT\n\nworker:  ./worker\n", map[string]string{".env": "A=1\nexport B='x y' \nC=\"l\\nm\" # not\nD=${A}2 # comment\n"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	web, worker := p.Program("web"), p.Program("worker")
	if p.Name != "shop" || fmt.Sprintf("%q", web.Argv) != `["sh" "-c" "./web -p $PORT"]` || web.Env["PORT"] != "5000" || worker.Env["PORT"] != "5100" {
		t.Errorf("%+v %+v", web, worker)
	}
	if e := web.Env; e["A"] != "1" || e["B"] != "x y" || e["C"] != "l\nm" || e["D"] != "12" {
		t.Errorf("the variables are %q", e)
	}
	if _, err := read(t, "Procfile", "web ./web\nweb: a\nweb: b", nil, nil); err == nil || err.Error() != "Procfile:1: \"web ./web\" is not NAME: COMMAND\nProcfile:3: web is there twice, also in line 2" {
		t.Errorf("a wrong Procfile: %v", err)
	}
}

func TestVariables(t *testing.T) {
	vars := map[string]string{"A": "1", "EMPTY": ""}
	for _, c := range []struct{ in, want string }{
		{"x", "x"}, {"${A}", "1"}, {"a${A}b${A}", "a1b1"}, {"$A", "$A"}, {"$${A}", "${A}"}, {"${B:-d}", "d"}, {"${B-d}", "d"}, {"${EMPTY-d}", ""}, {"${EMPTY:-d}", "d"}, {"${A:?no}", "1"},
		{"${EMPTY}", ""}, {"${B}", "!"}, {"${A", "!"}, {"${}", "!"}, {"${1}", "!"}, {"${A/x}", "!"}, {"${EMPTY:?no}", "!"},
	} {
		got, err := substitute(c.in, func(name string) (string, bool) { v, ok := vars[name]; return v, ok })
		if err != nil {
			got = "!"
		}
		if got != c.want {
			t.Errorf("%s gives %q, want %q (%v)", c.in, got, c.want, err)
		}
	}
}

// A variable of the environment counts more than the same variable of an earlier line.
func TestEnvFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), ".env")
	if err := os.WriteFile(path, []byte("A=file\nB=file\nC=${A} ${B}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env, err := readEnv(path, func(name string) (string, bool) { return "environment", name == "A" })
	if err != nil || env["C"] != "environment file" {
		t.Errorf("C is %q, want the A of the environment and the B of the file (%v)", env["C"], err)
	}
}

// A digest is the same in all versions of troupe: after an update, troupe up restarts no program of an unchanged file.
func TestDigest(t *testing.T) {
	want := map[string]string{
		"web":      "1120f427a0584a72f2636ef2d88026e0 159326cecaf10717f8c2e9aeb9caa7b6",
		"db":       "be3203bd5dcb70e1cfaba7a982acedd6 b0ec1477ba8b32e046616d89cfdaf296",
		"job-1":    "16daae3e0ecf70760a52d0656d08121a",
		"job-2":    "924d3223e13a298397080b5d118b02b9",
		"migrate":  "5b520fb9d9dfdac1b5639a6fe8a248c7",
		"worker-1": "3b5da42a01b1325c7a327cd839615d44",
		"worker-2": "3d61e60e1beb56792ade73a3cc7369ff",
		"worker-3": "b4e638e625e481cb7d248fd231e24bc5",
		"all":      "69c6e02b1c564a4ec619eb031057f553",
	}
	for _, content := range []string{strings.ReplaceAll(spellings, "\t", "  "), shop, `processes:
  all:
    command: run
    working_dir: sub
    environment: [A=1]
    readiness_probe: {http_get: {port: 8080, path: health}, initial_delay: 0s, failure_threshold: 4, start_timeout: 3s}
    liveness_probe: {exec: [look], initial_delay: 0s, timeout: 1s, silence: 5s}
    restart: {policy: always, backoff: {initial: 1s, max: 3s, factor: 3, jitter: 0.5}, give_up_on: [1, 2], max_restarts: unlimited}
    shutdown: {signal: SIGQUIT, timeout: 0s}
    limits: {memory: 1.5GiB, cpus: 0.5, nofile: 0x10, nice: -5, cpu_time: 10s, core: 0}
    user: ann
    umask: 022
    no_new_privileges: yes
    sandbox: read-only
    tty: true
    timeout: 1m
`} {
		p := mustRead(t, content)
		for _, one := range p.Programs {
			for _, u := range one.Units() {
				if got := p.Digest(u); !strings.Contains(want[u.ID], strings.TrimPrefix(got, digestPrefix)) {
					t.Errorf("%s has the digest %s, want one of %s", u.ID, got, want[u.ID])
				}
			}
		}
	}
}

// No content makes the reader panic, and accepted content makes valid params.
func TestReadAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"processes", "a", "b", "command", "depends_on", "x", "${A}", "replicas", "2", "restart", "always", "10s", "readiness_probe", "exec", "tcp", "{}", "[a]", "*x", "&x", "<<", "limits", "memory", "null", "- ", ": ", "\n", "\n  ", "\n    ", "\n      "})
		content := "processes:\n  a:\n    command: x\n" + strings.Join(rapid.SliceOf(word).Draw(t, "words"), "")
		r := &reader{file: "f", dir: "/", lookup: func(string) (string, bool) { return "1", true }}
		p := r.readYAML([]byte(content))
		if len(r.errs) == 0 {
			r.check(p)
		}
		if len(r.errs) > 0 {
			return
		}
		for _, one := range p.Order() {
			for _, u := range one.Units() {
				if err := p.Params(u, Place{Dir: "/"}).Validate(); err != nil {
					t.Fatalf("%s\n%v", content, err)
				}
			}
		}
	})
}

// planned is a plan as text: action and process.
func planned(steps []Step) (text string) {
	for _, s := range steps {
		text += fmt.Sprintf("%v %s; ", s.Action, s.ID)
	}
	return text
}

// running is the group on a server after troupe up with the file.
func running(p *Project) (all []protocol.GroupMember) {
	for _, one := range p.Order() {
		for _, u := range one.Units() {
			m := protocol.GroupMember{ProcessID: u.ID, State: "running", Run: 1, Ready: true, Label: p.label(u)}
			if p.completes(one) {
				m.State = "left"
			}
			all = append(all, m)
		}
	}
	return all
}

const shop = `
processes:
  db: {command: ./db, readiness_probe: {tcp: "5432"}}
  migrate: {command: ./migrate, depends_on: [db]}
  web: {command: ./web, depends_on: {migrate: {condition: process_completed_successfully}}}
  worker: {command: ./worker, replicas: 3, depends_on: [web], namespace: back}
`

func TestPlan(t *testing.T) {
	old := mustRead(t, shop)
	has := running(old)
	all := func(p *Project) []*Program { return p.Order() }
	for _, c := range []struct {
		name     string
		from, to string // the change in the file
		want     string
	}{
		{"nothing", "", "", "leave db; leave migrate; leave web; leave worker-1; leave worker-2; leave worker-3; "},
		{"a comment and a description", "./web,", "./web, description: x,", "leave db; leave migrate; leave web; leave worker-1; leave worker-2; leave worker-3; "},
		{"a command", "./web", "./web2", "leave db; leave migrate; restart web; leave worker-1; leave worker-2; leave worker-3; "},
		{"a job that has completed", "./migrate", "./migrate2", "leave db; start migrate; leave web; leave worker-1; leave worker-2; leave worker-3; "},
		{"fewer replicas", "replicas: 3", "replicas: 2", "leave db; leave migrate; leave web; leave worker-1; leave worker-2; stop worker-3; "},
		{"more replicas", "replicas: 3", "replicas: 4", "leave db; leave migrate; leave web; leave worker-1; leave worker-2; leave worker-3; start worker-4; "},
		{"a program goes", "  worker: {command: ./worker, replicas: 3, depends_on: [web], namespace: back}\n", "", "leave db; leave migrate; leave web; stop worker-1; stop worker-2; stop worker-3; "},
		{"a dependency", "replicas: 3, depends_on: [web]", "replicas: 3", "leave db; leave migrate; leave web; restart worker-1; restart worker-2; restart worker-3; "},
	} {
		p := mustRead(t, strings.Replace(shop, c.from, c.to, 1))
		if got := planned(p.Plan(all(p), has, true)); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
	}
	has[0].State = "left"
	if got := planned(old.Plan(all(old), has, true)); !strings.HasPrefix(got, "start db; leave migrate; leave web; ") {
		t.Errorf("db has ended: %s", got)
	}
	has[1].Ready = false
	if got := planned(old.Plan(all(old), has, true)); !strings.HasPrefix(got, "start db; start migrate; leave web; ") {
		t.Errorf("migrate has failed: %s", got)
	}
	if got := planned(old.Plan(all(old), nil, true)); strings.Count(got, "start") != 6 {
		t.Errorf("nothing runs: %s", got)
	}
	part, err := old.Select([]string{"migrate"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := planned(old.Plan(part, running(old), false)); got != "leave db; leave migrate; " {
		t.Errorf("a part: %s", got)
	}
}

func TestSelect(t *testing.T) {
	p := mustRead(t, shop+"  off: {command: x, disabled: true}\n")
	for _, c := range []struct {
		names, spaces []string
		want          string
	}{
		{nil, nil, "[db migrate web worker]"},
		{[]string{"migrate"}, nil, "[db migrate]"},
		{[]string{"off"}, nil, "[off]"},
		{nil, []string{"back"}, "[db migrate web worker]"},
		{nil, []string{"default"}, "[db migrate web]"},
		{[]string{"wep"}, nil, "error"},
		{nil, []string{"front"}, "error"},
	} {
		got := "error"
		if all, err := p.Select(c.names, c.spaces); err == nil {
			got = fmt.Sprint(namesOf(all))
		}
		if got != c.want {
			t.Errorf("Select(%v, %v) = %s, want %s", c.names, c.spaces, got, c.want)
		}
	}
}

// The workspace of a program in a sandbox has a path without links, if the caller knows that path. Others keep the path of the caller.
func TestSandboxHasARealDirectory(t *testing.T) {
	p := mustRead(t, `processes:
  in: {command: "true", sandbox: workspace-write, working_dir: sub}
  out: {command: "true", working_dir: sub}
`)
	at := Place{Dir: "/link", RealDir: "/real"}
	for name, want := range map[string]string{"in": "/real/sub", "out": "/link/sub"} {
		s := p.Params(p.Program(name).Units()[0], at)
		if got := s.Cwd; got != protocol.FileURI(want) {
			t.Errorf("%s runs in %s, want %s", name, got, want)
		}
	}
	if s := string(p.Params(p.Program("in").Units()[0], at).Sandbox); !strings.Contains(s, "file:///real/sub") || strings.Contains(s, "link") {
		t.Error(s)
	}
}
