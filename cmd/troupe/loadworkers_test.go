package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// startWorker returns the address of a worker, and a function that ends it with SIGINT.
func startWorker(t *testing.T, secret string) (addr string, end func()) {
	t.Helper()
	cmd := troupe(t, "load", "--worker", ":0", "--secret-file", secret)
	var errs bytes.Buffer
	cmd.Stderr = &errs
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(out)
	line, _ := in.ReadString('\n')
	addr, ok := strings.CutPrefix(strings.TrimSpace(line), "worker at ")
	if !ok || !strings.HasPrefix(addr, "127.0.0.1:") {
		t.Fatalf("the worker prints %q, stderr %q", line, errs.String())
	}
	return addr, func() {
		cmd.Process.Signal(syscall.SIGINT)
		io.Copy(io.Discard, in)
		if code := exitCode(t, cmd.Wait()); code != 130 {
			t.Errorf("the worker exits with %d, stderr %q", code, errs.String())
		}
	}
}

// Two workers run commands together. Each command has a number of its own.
func TestLoadWorkers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	secret, other := filepath.Join(dir, "secret"), filepath.Join(dir, "other")
	os.WriteFile(secret, []byte("a secret of the test\n"), 0o600)
	os.WriteFile(other, []byte("another secret of the test\n"), 0o600)
	url, _ := startServer(t)
	first, end := startWorker(t, secret)
	defer end()
	second, end := startWorker(t, secret)
	defer end()
	both := first + "," + second
	code, out, errs := loads(t, "--url", url, "--workers", both, "--secret-file", secret, "--processes", "7", "--json", "-", "--",
		"sh", "-c", `echo {worker} > "$0/{n}"; exit $(({n} == 5))`, dir)
	var r result.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || code != 1 {
		t.Fatalf("exit code %d, %v, stdout %q, stderr %q", code, err, out, errs)
	}
	if r.Commands.Codes["0"] != 6 || r.Commands.Codes["1"] != 1 || len(r.Hosts) != 2 || r.Commands.Failures[0].N != 5 {
		t.Errorf("%+v", r.Commands)
	}
	var by string
	for _, n := range []string{"1", "2", "3", "4", "5", "6", "7"} {
		worker, _ := os.ReadFile(filepath.Join(dir, n))
		by += strings.TrimSpace(string(worker))
	}
	if by != "1111222" {
		t.Errorf("the commands ran on workers %s", by)
	}

	if code, _, errs := loads(t, "--url", url, "--workers", both, "--secret-file", other, "--", "true"); code != exitFailed || !strings.Contains(errs, "another secret") {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
	if code, _, errs := loads(t, "--url", url, "--workers", both, "--secret-file", secret, "--processes", "1", "--", "true"); code != exitFailed || !strings.Contains(errs, "1 command cannot be shared by 2 workers") {
		t.Errorf("exit code %d, stderr %q", code, errs)
	}
}

func TestLoadWorkerArguments(t *testing.T) {
	for line, want := range map[string]string{
		"--worker :0 --sessions 3":                        "--sessions is for the controller",
		"--worker :0 -- true":                             "gets its COMMAND from the controller",
		"--workers a:1 --secret-file x":                   "name it with --url",
		"--workers a:1 --url ws://a:1 --findings d":       "give it to each --worker",
		"--secret-file x":                                 "--secret-file is for --worker and --workers",
		"--worker :0 --secret-file x --url ws://a:1":      "--url is for the controller",
		"--worker :0 --secret-file x --workers 127.0.0.1": "--workers is for the controller",
	} {
		if _, err := loadPlan(t, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("troupe load %s: %v, want %s", line, err, want)
		}
	}
	dir := t.TempDir()
	short, open := filepath.Join(dir, "short"), filepath.Join(dir, "open")
	os.WriteFile(short, []byte("short\n"), 0o600)
	os.WriteFile(open, []byte("a secret of the test\n"), 0o600)
	os.Chmod(open, 0o604)
	for file, want := range map[string]string{"": "need a common secret", short: "5 bytes, expected 16", open: "other users", filepath.Join(dir, "none"): "no such file"} {
		if _, err := (&loadFlags{secretFile: file}).secret(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the secret of %q: %v, want %s", file, err, want)
		}
	}
}
