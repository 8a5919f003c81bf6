//go:build slow

package tests

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// kubernetesCommand is a line of ./kubernetes: the command of a container.
type kubernetesCommand struct {
	Args, PreStop, Empty []string
	Grace                int64             // seconds
	Secrets, Files       map[string]string // names by directories; contents by paths
}

// kubernetes builds the program that checks manifests, in its module.
func kubernetes(t *testing.T) (check func(paths ...string) (string, error)) {
	t.Helper()
	program := filepath.Join(t.TempDir(), "kubernetes")
	if out, err := exec.Command("go", "-C", "kubernetes", "mod", "download").CombinedOutput(); err != nil {
		needs.Feature(t, fmt.Errorf("the modules of Kubernetes cannot be had: %w: %s", err, out))
	}
	if out, err := exec.Command("go", "build", "-C", "kubernetes", "-buildvcs=false", "-o", program).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return func(paths ...string) (string, error) {
		out, err := exec.Command(program, paths...).CombinedOutput()
		return string(out), err
	}
}

// TestKubernetes holds the manifests in docs/operations/kubernetes to the API of Kubernetes, and their flags to the binary.
func TestKubernetes(t *testing.T) {
	noRace(t)
	t.Parallel()
	needs.Root(t) // --users-file
	check := kubernetes(t)
	manifests, err := filepath.Glob("../docs/operations/kubernetes/*.yaml")
	if err != nil || len(manifests) < 2 {
		t.Fatalf("%v, %v", manifests, err)
	}
	out, err := check(manifests...)
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var c kubernetesCommand
	if err := json.Unmarshal([]byte(out), &c); err != nil {
		t.Fatalf("%s: %v", out, err)
	}
	if len(c.Args) < 10 || c.Secrets["/etc/troupe/nodes"] != "troupe-nodes" || c.Secrets["/etc/troupe/server"] != "troupe-server" {
		t.Fatalf("the container runs %+v", c)
	}

	// What the head of nodes.yaml demands is there, below a directory of the test.
	dir := t.TempDir()
	here := func(path string) string { return filepath.Join(dir, path) }
	for at := range c.Secrets {
		if err := os.MkdirAll(here(at), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range c.Files {
		if err := os.MkdirAll(filepath.Dir(here(path)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(here(path), []byte(strings.ReplaceAll(text, " troupe", " nobody")), 0o600); err != nil { // a user of the image
			t.Fatal(err)
		}
	}
	var moved []string
	for _, at := range slices.Concat([]string{"/etc/troupe"}, c.Empty) {
		moved = append(moved, at+"/", here(at)+"/")
	}
	in := strings.NewReplacer(moved...)
	run := func(args ...string) *program {
		for i := range args {
			args[i] = in.Replace(args[i])
		}
		p := startTroupe(t, nil, args...)
		p.exitCode()
		return p
	}
	if p := run("node-certs", "/etc/troupe/nodes", "troupe-0"); p.exitCode() != 0 {
		t.Fatalf("troupe node-certs: %s", p.stderr)
	}
	k := newKeyring(t)
	for from, to := range map[string]string{"cert": "cert.pem", "key": "key.pem", "tokens": "tokens"} {
		if err := os.Rename(k.path(from), here("/etc/troupe/server/"+to)); err != nil {
			t.Fatal(err)
		}
	}
	if p := run(slices.Concat([]string{"serve", "--check-config"}, c.Args)...); p.exitCode() != 0 {
		t.Errorf("troupe serve refuses what the container runs: %s", p.stderr)
	}

	// The preStop hook finds no server here, but nothing else is wrong with it.
	if len(c.PreStop) < 3 || c.PreStop[0] != "troupe" {
		t.Fatalf("preStop runs %q", c.PreStop)
	}
	if p := run(slices.Clone(c.PreStop[1:])...); p.exitCode() != 1 || !strings.Contains(p.stderr.String(), "no such file or directory") {
		t.Errorf("preStop ended with %d: %s", p.exitCode(), p.stderr)
	}
	i := slices.Index(c.PreStop, "--for")
	if lasts, err := time.ParseDuration(c.PreStop[i+1]); err != nil || lasts.Seconds() >= float64(c.Grace) {
		t.Errorf("the drain lasts %v, %v, and the pod has only %d s", lasts, err, c.Grace)
	}

	// The check finds faults.
	for _, fault := range []struct{ from, to, says string }{
		{"replicas: 3", "replicaz: 3", `unknown field "spec.replicaz"`},
		{"serviceName: troupe-nodes", "serviceName: nodes", `no headless Service "nodes"`},
		{"name: tmp, mountPath", "name: temp, mountPath", `no volume "temp"`},
		{"targetPort: clients", "targetPort: client", "no container has the port client"},
		{"port: clients, path: /readyz", "port: http, path: /readyz", "the readiness probe asks the port http"},
		{"clusterIP: None", "clusterIP: 10.0.0.1", `no headless Service "troupe-nodes"`},
		{"name: troupe-users}", "name: users}", `no ConfigMap "users"`},
		{"labels: {app: troupe}\n    spec", "labels: {app: other}\n    spec", "its selector does not select its pods"},
	} {
		var broken []string
		found := false
		for _, path := range manifests {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			found = found || strings.Contains(string(text), fault.from)
			broken = append(broken, here(filepath.Base(path)))
			if err := os.WriteFile(broken[len(broken)-1], []byte(strings.ReplaceAll(string(text), fault.from, fault.to)), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if out, err := check(broken...); !found || err == nil || !strings.Contains(out, fault.says) {
			t.Errorf("%q for %q: %v, %s", fault.to, fault.from, err, out)
		}
	}
}
