//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testca"
)

func TestLoadWorkersPlan(t *testing.T) {
	p, err := loadPlan(t, strings.Fields("--url ws://a:1 --workers 3 --workers-at ws://b:1 --workers-label gpu=yes --label zone=a --label disk=ssd --node n1")...)
	if err != nil || p.Workers != 3 || strings.Join(p.Labels, " ") != "zone=a disk=ssd" || p.Node != "n1" {
		t.Errorf("%+v, %v", p, err)
	}
	for line, want := range map[string]string{
		"--workers-at ws://b:1":                    "say with --workers how many",
		"--workers-label a=b":                      "say with --workers how many",
		"--workers 2 --url ws://a:1 --also ws://b": "--also and --workers exclude each other",
		"--workers 2 --server-pid 77":              "--server-pid and --workers exclude each other",
		"--workers 2 --findings x":                 "--findings and --workers exclude each other",
		"--workers 2 --workers-at ws://b:1":        "--workers-at needs --url",
		"--workers 2 --workers-label gpu":          `--workers-label: "gpu" is not a label`,
		"--workers many":                           "--workers is \"many\"",
	} {
		if _, err := loadPlan(t, strings.Fields(line)...); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "invalid argument \"many\" for \"--workers\"", `--workers is "many"`), want) {
			t.Errorf("troupe load %s: %v, want %s", line, err, want)
		}
	}
}

// The token of a worker is in its environment, and nothing of the job in its arguments.
func TestLoadWorkerCommand(t *testing.T) {
	w := &loadWorker{n: 2, client: new(client.Client), program: "/usr/bin/troupe", errs: new(prefixed)}
	cmd := w.command("secret")
	if cmd.Path != "/usr/bin/troupe" || strings.Join(cmd.Args, " ") != "/usr/bin/troupe load-worker" || len(cmd.Env) != 1 || cmd.Env[0] != "TROUPE_TOKEN=secret" || cmd.EnvPolicy == nil {
		t.Errorf("%+v", cmd)
	}
	if cmd := w.command(""); len(cmd.Env) != 0 {
		t.Errorf("%q", cmd.Env)
	}
}

// A worker takes one whole job, and says so; then it waits for the begin.
func TestLoadWorkerJob(t *testing.T) {
	p := plan.Plan{Servers: []string{"ws://127.0.0.1:1"}, Sessions: 1, Processes: 1, Phases: []plan.Phase{{Duration: plan.Duration(time.Second), Mix: []plan.Part{{Profile: plan.Idle, Weight: 1}}}}}
	text, err := json.Marshal(workerJob{Plan: p, Quiet: true})
	if err != nil {
		t.Fatal(err)
	}
	o := new(loadFlags)
	got, err := o.takeJob(bufio.NewReader(strings.NewReader(string(text) + "\n")))
	if err != nil || got.Sessions != 1 || !o.quiet || o.servers["ws://127.0.0.1:1"] == nil {
		t.Errorf("%+v, %v", got, err)
	}
	two := p
	two.Servers = append(two.Servers, "ws://127.0.0.1:2")
	several, err := json.Marshal(workerJob{Plan: two})
	if err != nil {
		t.Fatal(err)
	}
	for job, want := range map[string]string{
		"":                     "the job did not come: EOF",
		string(text):           "the job did not come: EOF", // without its end
		"run\n":                "the job: invalid character",
		"{}\n":                 "the job: sessions is 0",
		string(several) + "\n": "more than one server",
	} {
		if _, err := new(loadFlags).takeJob(bufio.NewReader(strings.NewReader(job))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the job %q: %v, want %s", job, err, want)
		}
	}

	var out bytes.Buffer
	if err := awaitBegin(t.Context(), bufio.NewReader(strings.NewReader("\n")), &out); err != nil {
		t.Error(err)
	}
	var ready workerReady
	if err := json.Unmarshal(out.Bytes(), &ready); err != nil || ready.Version != version() || time.Since(ready.Now) > time.Minute || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("%q, %v", out.String(), err)
	}
	if err := awaitBegin(t.Context(), bufio.NewReader(strings.NewReader("")), io.Discard); err == nil || err.Error() != "the begin did not come: EOF" {
		t.Error(err)
	}
	r, _ := io.Pipe()
	defer r.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := awaitBegin(ctx, bufio.NewReader(r), io.Discard); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The sum has what the workers have, and each lost one is a problem; without any result there is no sum.
func TestSumOfWorkers(t *testing.T) {
	p := plan.Plan{Servers: []string{"ws://a"}, Sessions: 3, Workers: 2}
	var workers []*loadWorker
	for i, part := range p.Deal() {
		workers = append(workers, &loadWorker{n: i + 1, plan: part, node: []string{"a-1", "b-1"}[i], started: time.Unix(1000, 0)})
	}
	r := &result.Result{Began: time.Unix(1000, 0), Took: time.Second, Plan: workers[1].plan, Counts: map[string]int64{result.CheckedBytes: 5}, Hosts: []result.Host{{Name: "h"}}}
	killed := errors.New("signal: killed")
	sum, err := sumOfWorkers(p, workers, []*result.Result{nil, r}, []error{killed, nil})
	if err != nil || sum.Right() || len(sum.Problems) != 1 || sum.Problems[0] != "worker 1 on a-1 was lost, with its part of the figures: signal: killed" || sum.Plan.Sessions != 3 || sum.Counts[result.CheckedBytes] != 5 {
		t.Errorf("%+v, %v", sum, err)
	}
	if len(sum.Runs) != 2 || sum.Runs[0].Node != "b-1" || !sum.Runs[0].Right || sum.Runs[1].File != "worker 1" || sum.Runs[1].Right || sum.Runs[1].Sessions != 1 {
		t.Errorf("%+v", sum.Runs)
	}
	if sum, err := sumOfWorkers(p, workers, make([]*result.Result, 2), []error{killed, io.EOF}); sum != nil || !errors.Is(err, killed) || !errors.Is(err, io.EOF) {
		t.Errorf("%+v, %v", sum, err)
	}
	if got := nodesOf(append(workers, workers[0])); got != "a-1 (2), b-1" {
		t.Errorf("%q", got)
	}
	if got := nodesOf([]*loadWorker{workers[0], {}}); got != "" {
		t.Errorf("%q", got)
	}
}

// Workers come to all nodes, and a server without a cluster is left as it is.
func TestSpread(t *testing.T) {
	for _, c := range []struct {
		workers int
		nodes   []string // of the sessions with a key, in turn
		want    string
		ended   int
	}{
		{3, []string{"a", "b", "b", "c"}, "b, c, a", 4},
		{2, []string{"a"}, "a, a", maxMoves},
		{5, []string{"a", "b"}, "a, a, a, b, b", maxMoves},
		{2, nil, ", ", 0},
	} {
		var workers []*loadWorker
		for i := range c.workers {
			w := &loadWorker{n: i + 1, client: new(client.Client)}
			if c.nodes != nil {
				w.node = "a"
			}
			workers = append(workers, w)
		}
		opened, ended := 0, map[*client.Client]bool{}
		spread(workers, func(w *loadWorker, key string) (loadWorker, error) {
			opened++
			return loadWorker{n: w.n, client: new(client.Client), node: c.nodes[(opened-1)%len(c.nodes)]}, nil
		}, func(w *loadWorker) { ended[w.client] = true })
		var nodes []string
		for _, w := range workers {
			nodes = append(nodes, w.node)
			if ended[w.client] {
				t.Errorf("%+v: the session of %v was ended", c, w)
			}
		}
		slices.Sort(nodes)
		want := strings.Split(c.want, ", ")
		slices.Sort(want)
		if !slices.Equal(nodes, want) || len(ended) != c.ended {
			t.Errorf("%+v: nodes %q, %d ended", c, nodes, len(ended))
		}
	}
	two := []*loadWorker{{n: 1, node: "a"}, {n: 2, node: "a"}}
	spread(two, func(*loadWorker, string) (loadWorker, error) { return loadWorker{}, errors.New("full") }, nil)
	if two[0].node != "a" || two[1].node != "a" {
		t.Errorf("%+v", two)
	}
}

// Lines of a worker come whole, harmless and bounded.
func TestPrefixed(t *testing.T) {
	var out bytes.Buffer
	p := &prefixed{to: &out, prefix: "worker 1: "}
	for _, text := range []string{"on", "e\r\ntwo\n", "\n", "\x1b[2Jred\n", strings.Repeat("x", 2*maxWorkerLine), "\nlast"} {
		if n, err := p.Write([]byte(text)); n != len(text) || err != nil {
			t.Errorf("%d, %v", n, err)
		}
	}
	last := p.last()
	p.flush()
	lines := strings.Split(out.String(), "\n")
	if len(lines) != 7 || lines[0] != "worker 1: one" || lines[1] != "worker 1: two" || lines[2] != "worker 1: " || strings.Contains(lines[3], "\x1b") || len(lines[4]) != len("worker 1: ")+maxWorkerLine ||
		lines[5] != "worker 1: last" || last != "last" {
		t.Errorf("%q, last %q", lines, last)
	}
}

// sessionsOn returns the sessions of a server, with their processes.
func sessionsOn(t *testing.T, url string) []protocol.SessionDetails {
	t.Helper()
	c, err := client.Dial(t.Context(), url, &client.Options{Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	list, err := c.Sessions(t.Context(), protocol.DetailProcesses)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// processOfWorker waits until a worker runs on a server, and returns its pid.
func processOfWorker(t *testing.T, url string, name string) (pid int) {
	t.Helper()
	await(t, func() (bool, any) {
		list := sessionsOn(t, url)
		for _, s := range list {
			if s.Name == name && len(s.List) == 1 {
				pid = s.List[0].PID
			}
		}
		return pid != 0, list
	})
	return pid
}

// awaitLoad waits until programs of a load run on a server.
func awaitLoad(t *testing.T, url string, programs int) {
	t.Helper()
	await(t, func() (bool, any) {
		n, list := 0, sessionsOn(t, url)
		for _, s := range list {
			if strings.HasPrefix(s.Name, "load ") && strings.HasSuffix(s.Name, " s0") {
				n += s.Processes
			}
		}
		return n >= programs, list
	})
}

// wantNoSessions fails the test if a server has sessions.
func wantNoSessions(t *testing.T, url string) {
	t.Helper()
	if list := sessionsOn(t, url); len(list) > 0 {
		t.Errorf("the server has the sessions %+v", list)
	}
}

// Two workers, started by the server under load, do the load of one: each has its part, and the report has the sum. Nothing is left.
func TestLoadWorkers(t *testing.T) {
	t.Parallel()
	begun := time.Now()
	url, _ := startServer(t)
	for _, how := range []string{"", "--upload"} {
		args := strings.Fields("--url " + url + " --workers 2 --sessions 3 --processes 2 --profile echo --rate 30 --arrival even --may-miss 100% --duration 1s --seed 7 --json - " + how)
		code, out, errs := loads(t, args...)
		var r result.Result
		if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || !r.Right() {
			t.Fatalf("exit code %d, %v, problems %q, findings %+v, stderr %q", code, err, r.Problems, r.Findings, errs)
		}
		n := r.Counts
		if n[result.Sessions] != 3 || n[result.Starts] != 6 || n[result.Ends] != 6 || r.Latency[result.Start].Count() != 6 || n[result.Due] < 25 || n[result.Due] > 31 || n[result.CheckedBytes] == 0 {
			t.Errorf("counts %v", n)
		}
		if len(r.Runs) != 2 || r.Runs[0].Sessions+r.Runs[1].Sessions != 3 || r.Runs[0].Seed == r.Runs[1].Seed || r.Plan.Sessions != 3 || r.Plan.Workers != 2 || r.Plan.Seed != 7 || len(r.Hosts) != 2 {
			t.Errorf("runs %+v, plan %+v", r.Runs, r.Plan)
		}
		if !strings.Contains(errs, "Workers\n") || !strings.Contains(errs, "2 workers · ") {
			t.Errorf("the report is %q", errs)
		}
	}
	wantNoSessions(t, url)
	// Other tests copy binaries to such places, too, and remove them.
	await(t, func() (bool, any) {
		left, _ := filepath.Glob("/tmp/troupe-load-*/troupe")
		left = slices.DeleteFunc(left, func(path string) bool {
			info, err := os.Stat(path)
			return err != nil || !info.Mode().IsRegular() || info.ModTime().Before(begun)
		})
		return len(left) == 0, left
	})
}

// A worker that is killed is a problem of the report, with what the other one has counted. ^C ends the workers, and the report comes.
func TestLoadWorkersEnd(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(load *os.Process, worker int)
		code int
		want string
	}{
		"a worker is killed": {func(_ *os.Process, worker int) { syscall.Kill(worker, syscall.SIGKILL) }, 1, "worker 1 was lost, with its part of the figures: signal: SIGKILL"},
		"interrupted":        {func(load *os.Process, _ int) { load.Signal(syscall.SIGINT) }, 130, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, _ := startServer(t)
			duration := "1000s"
			if c.code == 1 {
				duration = "3s"
			}
			cmd := troupe(t, "load", "--url", url, "--workers", "2", "--sessions", "2", "--processes", "1", "--profile", "lines", "--duration", duration, "--json", "-", "-q")
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			worker := processOfWorker(t, url, "load worker 1")
			awaitLoad(t, url, 2)
			c.end(cmd.Process, worker)
			code := exitCode(t, cmd.Wait())
			var r result.Result
			if err := json.Unmarshal(out.Bytes(), &r); err != nil || code != c.code {
				t.Fatalf("exit code %d, %v, stdout %q, stderr %q", code, err, out.String(), errs.String())
			}
			if r.Right() != (c.want == "") || c.want != "" && (len(r.Problems) != 1 || r.Problems[0] != c.want) || len(r.Runs) != 2 || r.Counts[result.Starts] == 0 {
				t.Errorf("problems %q, runs %+v, counts %v", r.Problems, r.Runs, r.Counts)
			}
			if c.code == 130 {
				wantNoSessions(t, url)
			}
		})
	}
}

// A load that no worker can begin could not be done, and says why.
func TestLoadWorkersCannot(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	for line, want := range map[string]string{
		"--url " + url + " --workers 2 --program /bin/echo":           "worker",
		"--url ws://127.0.0.1:1 --workers 2 --workers-at " + url:      "ws://127.0.0.1:1",
		"--url " + url + " --workers 2 --workers-at ws://127.0.0.1:1": "no session on ws://127.0.0.1:1",
		"--url " + url + " --workers 2 --workers-at ws://10.1.2.3:1":  "the server ws://10.1.2.3:1 may be on another machine",
		"--url " + url + " --workers 2 --workers-label a=b":           "placement is for a cluster",
		"--workers 11":                     "workers is 11, and there are 10 sessions",
		"--workers 2 --chaos stop=1":       "chaos.stop and chaos.kill-server end the workers",
		"--workers 2 --sessions 2 -- true": "workers are for a load without a command",
	} {
		if code, out, errs := loads(t, strings.Fields("-q "+line)...); code != exitFailed || out != "" || !strings.Contains(errs, want) {
			t.Errorf("troupe load %s: exit code %d, stdout %q, stderr %q; want %s", line, code, out, errs, want)
		}
	}
	wantNoSessions(t, url)
}

// If a worker ends before the begin, the others do not begin, and leave nothing.
func TestLoadWorkersDismissed(t *testing.T) {
	t.Parallel()
	url, _ := startServer(t)
	dir := t.TempDir()
	program := filepath.Join(dir, "program")
	// The first worker ends when the second one uses its server.
	script := "#!/bin/sh\nif [ $1 != load-worker ]; then : >" + dir + "/used\nelif mkdir " + dir + "/first 2>/dev/null; then\nuntil [ -e " + dir +
		"/used ]; do sleep 0.01; done\necho no room >&2; exit 3\nfi\nexec " + os.Args[0] + ` "$@"` + "\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	code, out, errs := loads(t, "--url", url, "--workers", "2", "--program", program, "--duration", "1000s")
	if code != exitFailed || out != "" || !strings.Contains(errs, "load-worker: exit status 3: no room") || !strings.Contains(errs, ": no room\n") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	wantNoSessions(t, url)
}

// Workers reach a server that wants a token and a certificate of its client, and their arguments have neither.
func TestLoadWorkersCredentials(t *testing.T) {
	ca := testca.New(t)
	cert, key := ca.Server(t, "server")
	mine, myKey := ca.Server(t, "me")
	const token = "a-token-of-the-test-with-32-letters"
	url, _ := startServer(t, "--listen", "wss://127.0.0.1:0", "--tls-cert", testca.File(t, "cert", cert), "--tls-key", testca.File(t, "key", key),
		"--tls-client-ca", testca.File(t, "clients", ca.PEM), "--auth-token-file", testca.File(t, "tokens", "me "+token+"\n"))
	t.Setenv("TROUPE_TOKEN", token)
	list := filepath.Join(t.TempDir(), "list")
	program := filepath.Join(t.TempDir(), "program")
	script := "#!/bin/sh\necho \"$*\" >>" + list + "\nexec " + os.Args[0] + ` "$@"` + "\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	code, out, errs := loads(t, "--url", url, "--tls-ca", testca.File(t, "ca", ca.PEM), "--tls-cert", testca.File(t, "mine", mine), "--tls-key", testca.File(t, "mykey", myKey),
		"--workers", "2", "--sessions", "2", "--processes", "1", "--profile", "idle", "--duration", "100ms", "--program", program)
	args, err := os.ReadFile(list)
	if err != nil || code != 0 || strings.Count(string(args), "load-worker\n") != 2 || strings.Contains(string(args), token) {
		t.Errorf("exit code %d, stdout %q, stderr %q, %v, programs %q", code, out, errs, err, args)
	}
}
