//go:build unix

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/protocol"
)

// loadPlan returns the plan that a command line makes, without running it.
func loadPlan(t *testing.T, args ...string) (plan.Plan, error) {
	t.Helper()
	o := &loadFlags{target: new(target.Flags)}
	cmd := &cobra.Command{Use: "load", SilenceErrors: true, SilenceUsage: true}
	var p plan.Plan
	cmd.RunE = func(cmd *cobra.Command, args []string) (err error) {
		if err = o.arguments(cmd, args); err == nil {
			p, err = o.plan()
		}
		return err
	}
	o.target.Register(cmd.Flags())
	o.register(cmd.Flags())
	cmd.SetArgs(append([]string{}, args...)) // nil would mean the arguments of the test binary
	return p, cmd.Execute()
}

func TestLoadPlan(t *testing.T) {
	file := filepath.Join(t.TempDir(), "plan.yaml")
	os.WriteFile(file, []byte("sessions: 3\nchaos: cut=1\nseed: 5\nphases:\n- {duration: 10s, mix: echo}\n- {duration: 30s, mix: lines}\n"), 0o600)
	seconds := func(n float64) plan.Duration { return plan.Duration(n * float64(time.Second)) }
	for _, c := range []struct {
		line string
		ok   func(*plan.Plan) bool
	}{
		{"", func(p *plan.Plan) bool {
			return p.Sessions == 10 && p.Processes == 5 && p.Command == nil && len(p.Phases) == 1 && p.Phases[0].Duration == seconds(30) && p.Phases[0].Mix[0].Profile == plan.Mixed
		}},
		{"--profile echo --rate 30/m --arrival even --tty --seed 9 --chaos rst=2", func(p *plan.Plan) bool {
			return p.Phases[0].Rate == 0.5 && p.Phases[0].Arrival == plan.Even && p.TTY && p.Seed == 9 && p.Chaos.RST == 2
		}},
		{"--rate 5 --may-miss 2% --answer-within 4s", func(p *plan.Plan) bool { return p.MayMiss == 0.02 && p.AnswerWithin == seconds(4) }},
		{"--profile-file " + file, func(p *plan.Plan) bool {
			return p.Sessions == 3 && p.Processes == 5 && p.Seed == 5 && p.Chaos.MidFrame == 0.25 && len(p.Phases) == 2 && p.Took() == 40*time.Second
		}},
		{"--profile-file " + file + " --sessions 7 --duration 2s --chaos none", func(p *plan.Plan) bool {
			return p.Sessions == 7 && p.Chaos == plan.Chaos{} && p.Phases[0].Duration == seconds(0.5) && p.Phases[1].Duration == seconds(1.5)
		}},
		{"-- prog --x {n}", func(p *plan.Plan) bool {
			return p.Sessions == 1 && p.Processes == 10 && p.Phases == nil && strings.Join(p.Command.Argv, " ") == "prog --x {n}" && !p.Command.Again
		}},
		{"--sessions 2 --processes 3 --duration 4s --timeout 1s -- prog", func(p *plan.Plan) bool {
			return p.Sessions == 2 && p.Processes == 3 && p.Took() == 4*time.Second && p.Command.Again && p.Command.Timeout == seconds(1)
		}},
	} {
		p, err := loadPlan(t, strings.Fields(c.line)...)
		if err != nil || !c.ok(&p) {
			t.Errorf("troupe load %s: %+v, %v", c.line, p, err)
		}
	}
	if a, _ := loadPlan(t); a.Seed == 0 {
		t.Error("no seed is chosen")
	}
}

func TestLoadArguments(t *testing.T) {
	for line, want := range map[string]string{
		"x":                                 `the arguments ["x"] are given, expected none`,
		"x -- y":                            `["x"] is before the --`,
		"--":                                "no command after the --: write one",
		"--profile echo -- x":               "--profile is for a load without a COMMAND",
		"--timeout 1s":                      "--timeout is for a COMMAND",
		"--profile-file x --profile echo":   "--profile-file and --profile exclude each other",
		"--server-pid 7 --metrics http://x": "both say what the server uses",
		"--upload --program x":              "--upload and --program",
		"--also ws://a:1":                   "name the first one with --url",
		"--json /no/such/dir/x":             "there is no directory /no/such/dir",
		"--html -":                          "the report for people goes to stdout",
		"--duration 0s":                     "--duration is 0s, expected more than 0",
		"--threshold 5%":                    "--threshold is for a comparison",
		"--compare a --threshold much b":    "--threshold is \"much\", expected a share such as 10% or 0.1",
		"--may-miss some":                   "--may-miss is \"some\", expected a share such as 1% or 0.01",
		"--compare a --json c b":            "--json has no effect on a comparison of two files",
		"--compare a --sessions 3 b":        "--sessions has no effect on a comparison of two files",
		"--replay a --sessions 3":           "--sessions has no effect on a replay",
		"--replay a -- x":                   "--replay is for a load without a COMMAND",
		"--profile ecoh":                    "--profile: no profile has the name \"ecoh\": did you mean echo?",
		"--chaos cuts=1":                    "--chaos: no chaos has the name",
		"--rate fast":                       "--rate: \"fast\" is not a rate",
		"--profile-file /no/such/plan.yaml": "--profile-file: open /no/such/plan.yaml",
	} {
		if _, err := loadPlan(t, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("troupe load %s: %v, want %s", line, err, want)
		}
	}
}

// loads runs the real command and returns its exit code, stdout and stderr.
func loads(t *testing.T, args ...string) (code int, out, errs string) {
	t.Helper()
	cmd := troupe(t, append([]string{"load"}, args...)...)
	var o, e bytes.Buffer
	cmd.Stdout, cmd.Stderr = &o, &e
	code = exitCode(t, cmd.Run())
	return code, o.String(), e.String()
}

// A wrong plan ends the command before anything is started.
func TestLoadWrongPlan(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"--sessions 0":             "sessions is 0, expected 1",
		"--ramp -1s":               "ramp is -1s, expected 0 to",
		"--timeout -1s -- true":    "the timeout of the command is -1s, expected 0 to",
		"--encoding xml":           `encoding is "xml"`,
		"sh -c true":               "a command is written after --",
		"--slo echo":               `the SLO "echo" has no comparison`,
		"--compare /no/such":       "--compare: open /no/such",
		"--metrics ftp://x/":       "metrics is",
		"--arrival even":           "there is no rate",
		"--compare /no /such":      "open /no:",
		"--url wss://me:s@[::1]:1": "has a user or password",
		"--url ws://127.0.0.1:1":   "connection refused",
		"--url ws://10.1.2.3:1":    "may be on another machine: say with --program",
	} {
		if code, out, errs := loads(t, strings.Fields(line)...); code != exitFailed || out != "" || !strings.Contains(errs, want) {
			t.Errorf("troupe load %s: exit code %d, stdout %q, stderr %q; want %s", line, code, out, errs, want)
		}
	}
}

var serverOfLoad = regexp.MustCompile(`a server of its own, process (\d+),`)

// wantGone fails the test if the server of a load is still there.
func wantGone(t *testing.T, errs string) {
	t.Helper()
	m := serverOfLoad.FindStringSubmatch(errs)
	if m == nil {
		t.Fatalf("no server of its own in %q", errs)
	}
	pid, _ := strconv.Atoi(m[1])
	if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the server %d is still there: %v", pid, err)
	}
}

// A command is run so many times on a server of the load's own, which has the directory and the environment of troupe load. Nothing is left.
func TestLoadCommand(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	t.Setenv("ONLY_HERE_SECRET", "known")
	t.Setenv("TROUPE_URL", "ws://127.0.0.1:1") // nobody is there, and it must not matter
	wd, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "r.json")
	code, out, errs := loads(t, "--processes", "6", "--sessions", "2", "--json", file, "--slo", "failed=0", "--", "sh", "-c", `[ "$PWD $ONLY_HERE_SECRET" = "$0 known" ] || exit 9; echo {n}`, wd)
	if code != 0 || !strings.Contains(out, "12") {
		t.Fatalf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	wantGone(t, errs)
	r, err := readResult(file)
	if err != nil {
		t.Fatal(err)
	}
	if r.Counts[result.Ends] != 12 || r.Commands.Codes["0"] != 12 || len(r.SLOs) != 1 || !r.SLOs[0].Met || len(r.Seconds) == 0 || len(r.Plan.PIDs) != 1 {
		t.Errorf("%+v", r)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v; want only r.json", left, err)
	}

	// The same run beside the first one, with its pictures; then the two files, without a run.
	second, pictures := filepath.Join(dir, "s.json"), filepath.Join(dir, "pictures")
	if code, out, errs := loads(t, "-q", "--processes", "2", "--json", second, "--pictures", pictures, "--compare", file, "--", "true"); code != 0 || errs != "" || !strings.Contains(out, "peak memory") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	if text, err := os.ReadFile(filepath.Join(pictures, "distribution.svg")); err != nil || !strings.Contains(string(text), "command") {
		t.Errorf("%v, picture %s", err, text)
	}
	if code, out, errs := loads(t, "--compare", file, second); code != 0 || errs != "" || !strings.Contains(out, "× 0.17") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	page := filepath.Join(dir, "both.html")
	code, out, errs = loads(t, "--compare", file, second, "--slo", "ends=2", "--slo", "ends=12", "--html", page)
	if html, err := os.ReadFile(page); err != nil || code != 1 || errs != "" || !regexp.MustCompile(`ends=2 +met +2\nends=12 +missed +2\n`).MatchString(out) ||
		!bytes.Contains(html, []byte("but 1 of 2 SLOs missed")) || !bytes.Contains(html, []byte("× 0.17")) || !bytes.HasSuffix(html, []byte("</html>\n")) {
		t.Errorf("exit code %d, stdout %q, stderr %q, %v", code, out, errs, err)
	}
}

// A load on a new server finds nothing wrong, also no descriptor that the server opens for its first program and keeps.
func TestLoadIsRight(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	code, out, errs := loads(t, "-q", "--sessions", "1", "--processes", "1", "--duration", "200ms", "--profile", "idle", "--json", "-")
	var r result.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || !r.Right() {
		t.Errorf("exit code %d, %v, problems %q, findings %+v, stderr %q", code, err, r.Problems, r.Findings, errs)
	}
}

// The exit code tells of failed commands. With --json -, stdout has JSON only.
func TestLoadExitCode(t *testing.T) {
	t.Parallel()
	code, out, errs := loads(t, "--processes", "2", "--json", "-", "--", "sh", "-c", "exit {n}")
	var r result.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 1 || r.Counts[result.Failed] != 2 || !strings.Contains(errs, "exit code 2") {
		t.Errorf("exit code %d, %v, stdout %q, stderr %q", code, err, out, errs)
	}
	wantGone(t, errs)
}

// A server that asks who comes, or that is not there: the error says what to do.
func TestLoadAdvice(t *testing.T) {
	t.Parallel()
	asks := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer asks.Close()
	for url, advice := range map[string]string{
		strings.Replace(asks.URL, "http", "ws", 1): "set TROUPE_TOKEN or",
		"ws://127.0.0.1:1":                         "does troupe serve run there?",
	} {
		for _, args := range [][]string{{"-q", "--url", url}, {"-q", "--url", url, "--upload"}, {"-q", "--url", url, "--", "true"}} {
			if code, _, errs := loads(t, args...); code != exitFailed || strings.Count(errs, advice) != 1 || strings.Contains(errs, "within") {
				t.Errorf("%q: exit code %d, stderr %q; want advice with %q", args, code, errs, advice)
			}
		}
	}
}

// The program is copied to the servers, runs there, and is removed.
func TestLoadUpload(t *testing.T) {
	t.Parallel()
	first, _ := startServer(t)
	second, _ := startServer(t)
	o := &loadFlags{hard: t.Context(), servers: map[string]*target.Target{first: {URL: first}, second: {URL: second}}}
	p := plan.Plan{Servers: []string{first, second}}
	remove, err := o.upload(t.Context(), &p, func(text string) { t.Error(text) })
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(p.Program)
	if self, _ := os.Stat(os.Args[0]); err != nil || info.Size() != self.Size() || info.Mode().Perm() != 0o700 {
		t.Errorf("the copy %s: %v, %v", p.Program, info, err)
	}
	remove()
	if _, err := os.Stat(filepath.Dir(p.Program)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is still there: %v", p.Program, err)
	}
	err = o.on(t.Context(), first, nil, func(c *client.Client) error {
		_, err := script(t.Context(), c, "echo no >&2; exit 3", "", nil)
		return err
	})
	if err == nil || err.Error() != "exit status 3: no" {
		t.Errorf("error %v", err)
	}
}

// Servers that do not answer hold up the end of a run for a short time together, once it ends at once.
func TestLoadUploadToDeadServers(t *testing.T) {
	t.Parallel()
	hard, stop := context.WithCancel(t.Context())
	stop()
	o := &loadFlags{servers: map[string]*target.Target{}, hard: hard}
	var dead []string
	for range 2 {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // nobody accepts
		url := "ws://" + l.Addr().String()
		o.servers[url] = &target.Target{URL: url}
		dead = append(dead, url)
	}
	for i, err := range o.remove(dead, nil, "/tmp/none") {
		if err == nil || !strings.Contains(err.Error(), "the run was ended at once") {
			t.Errorf("the removal from server %d ends with %v", i, err)
		}
	}
}

// The load goes to the servers that are named, each with its sessions, and no server is started.
func TestLoadNamedServers(t *testing.T) {
	t.Parallel()
	first, _ := startServer(t)
	second, server := startServer(t)
	code, out, errs := loads(t, "--url", first, "--also", second, "--sessions", "2", "--processes", "1", "--server-pid", strconv.Itoa(server.Process.Pid),
		"--json", "-", "--", "sh", "-c", "echo $PPID")
	var r result.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 0 || strings.Contains(errs, "a server of its own") {
		t.Fatalf("exit code %d, %v, stdout %q, stderr %q", code, err, out, errs)
	}
	if len(r.Servers) != 2 || len(r.Plan.Servers) != 2 || r.Plan.Servers[0] != first || r.Plan.Servers[1] != second || r.Seconds[0].Servers[0].Memory == 0 {
		t.Errorf("%+v", r)
	}
	if code, _, errs := loads(t, "--url", first, "--also", first, "--", "true"); code != exitFailed || !strings.Contains(errs, "is named twice") {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
}

// ^C ends the run early. The report comes nevertheless, and the server is gone.
func TestLoadInterrupted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := troupe(t, "load", "--processes", "2", "--", "sh", "-c", `mkdir "$0/{n}"; sleep 1000`, dir)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	await(t, func() (bool, any) {
		all, _ := os.ReadDir(dir) // one for each command
		return len(all) == 2, all
	})
	cmd.Process.Signal(syscall.SIGINT)
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 130 || !strings.Contains(out.String(), "stopped") {
		t.Errorf("%v, stdout %q, stderr %q", err, out.String(), errs.String())
	}
	wantGone(t, errs.String())
}

// A server that ends during the run is said, with its log, and is no success.
func TestLoadServerEnds(t *testing.T) {
	t.Parallel()
	code, out, errs := loads(t, "--processes", "1", "--", "sh", "-c", "kill -9 $PPID; sleep 1000")
	if code != 1 || !strings.Contains(errs, "the server ended during the run (signal: killed)") || !strings.Contains(out, "problem: the server ended during the run") {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	wantGone(t, errs)
}

// A replay tells of each finding whether its events show it still.
func TestLoadReplay(t *testing.T) {
	var found []oracle.Finding
	c, err := oracle.New(oracle.Spec{Session: "s0", Process: "p0", Stdout: oracle.Content{Form: oracle.Plain, Bytes: 300}},
		oracle.Options{Began: time.Now(), Found: func(f oracle.Finding) { found = append(found, f) }})
	if err != nil {
		t.Fatal(err)
	}
	c.Event(&oracle.Event{Kind: "output", Seq: 3, Stream: protocol.Stdout, Data: []byte("seqs 1 and 2 are missing")}, time.Now())
	if len(found) == 0 || found[0].Kind != oracle.SeqHole {
		t.Fatalf("%+v", found)
	}
	other := found[0]
	other.Kind = oracle.LostExit
	var file bytes.Buffer
	for _, f := range []oracle.Finding{found[0], other, {Kind: oracle.Left, Session: "s0"}} {
		f.Detail = ""
		if err := json.NewEncoder(&file).Encode(f); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), "findings.jsonl")
	if err := os.WriteFile(path, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := loads(t, "--replay", path)
	lines := strings.Split(out, "\n")
	if code != 1 || errs != "" || len(lines) != 5 || !strings.HasSuffix(lines[0], ": found again") || !strings.Contains(lines[1], "not found again") ||
		!strings.Contains(lines[2], "it has no events") || lines[3] != "3 findings, 1 found again" {
		t.Errorf("exit code %d, stdout %q, stderr %q", code, out, errs)
	}
	if code, _, errs := loads(t, "--replay", "/no/such"); code != exitFailed || !strings.Contains(errs, "--replay: open /no/such") {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
}

// A file is replaced as a whole or stays as it was.
func TestWriteFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	write := func(text string, fail error) error {
		return writeFile(path, func(w io.Writer) error {
			_, err := io.WriteString(w, text)
			return errors.Join(err, fail)
		})
	}
	if err := write("one", nil); err != nil {
		t.Fatal(err)
	}
	if err := write("two", errors.New("full")); err == nil {
		t.Error("no error")
	}
	data, _ := os.ReadFile(path)
	if all, _ := os.ReadDir(filepath.Dir(path)); string(data) != "one" || len(all) != 1 {
		t.Errorf("%q, files %v", data, all)
	}
}
