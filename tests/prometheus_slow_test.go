//go:build slow

package tests

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// TestPrometheus: a real Prometheus scrapes a server under load. Each query of the dashboard answers something, each rule for alerts is evaluated, and promtool
// finds nothing wrong with the metrics.
func TestPrometheus(t *testing.T) {
	prometheus, promtool := needs.Program(t, "prometheus"), needs.Program(t, "promtool")
	s := startOperated(t, "--metrics-listen", "http://127.0.0.1:0")
	metrics := ""
	eventually(t, "the address", func() bool {
		_, after, found := strings.Cut(s.stderr.String(), `msg="answers Prometheus" url=`)
		metrics, _, _ = strings.Cut(after, "\n")
		return found && metrics != ""
	})
	dir := t.TempDir()
	rules, err := filepath.Abs("../docs/operations/alerts.yaml")
	if err != nil {
		t.Fatal(err)
	}
	target, _ := url.Parse(metrics)
	config := fmt.Sprintf("global: {scrape_interval: 1s, evaluation_interval: 1s}\nscrape_configs: [{job_name: troupe, static_configs: [{targets: [%q]}]}]\nrule_files: [%q]\n", target.Host, rules)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yaml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := exec.Command(prometheus, "--config.file", filepath.Join(dir, "prometheus.yaml"), "--storage.tsdb.path", filepath.Join(dir, "data"), "--web.listen-address", "127.0.0.1:0")
	log := &tap{}
	p.Stderr = log
	p.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { p.Process.Kill(); p.Wait() }()
	eventually(t, "Prometheus", func() bool { return strings.Contains(log.String(), "Server is ready to receive web requests") })
	_, after, _ := strings.Cut(log.String(), `msg="Listening on" address=`)
	address, _, _ := strings.Cut(after, "\n")

	load := exec.Command(s.cmd.Path, "load", "--url", s.url, "--metrics", metrics, "--sessions", "4", "--processes", "4", "--duration", "6s", "--ramp", "1s")
	load.Env = s.cmd.Env
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	c := s.session(nil) // requests that are refused, and a file
	c.callError("process/info", obj{"processId": "nobody"})
	c.call("fs/getMetadata", obj{"path": "file:///"})

	ask := func(path string, into any) {
		t.Helper()
		_, _, text := httpGet(t, "http://"+address+path)
		var answer struct {
			Status, Error string
			Data          json.RawMessage
		}
		if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Status != "success" {
			t.Fatalf("%s: %v %s", path, err, text)
		}
		if err := json.Unmarshal(answer.Data, into); err != nil {
			t.Fatal(err)
		}
	}
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	text, err := os.ReadFile("../docs/operations/dashboard.json")
	if err == nil {
		err = json.Unmarshal(text, &board)
	}
	if err != nil || len(board.Panels) < 10 {
		t.Fatalf("%v: %d panels", err, len(board.Panels))
	}
	for _, panel := range board.Panels {
		for _, target := range panel.Targets {
			query := strings.NewReplacer("$instance", ".*", "$__rate_interval", "1m").Replace(target.Expr)
			why := ""
			for began := time.Now(); ; time.Sleep(300 * time.Millisecond) { // until scrapes have the last of it
				var answer struct{ Result []struct{ Value [2]any } }
				ask("/api/v1/query?query="+url.QueryEscape(query), &answer)
				why = ""
				if len(answer.Result) == 0 {
					why = "answers nothing"
				}
				for _, r := range answer.Result {
					if r.Value[1] == "NaN" {
						why = "answers NaN"
					}
				}
				if why == "" || time.Since(began) > factTimeout {
					break
				}
			}
			if why != "" {
				t.Errorf("%s: %s %s", panel.Title, query, why)
			}
		}
	}
	var all struct {
		Groups []struct {
			Rules []struct{ Name, Health, LastError string }
		}
	}
	ask("/api/v1/rules", &all)
	if len(all.Groups) != 1 || len(all.Groups[0].Rules) < 10 {
		t.Fatalf("rules: %+v", all)
	}
	for _, r := range all.Groups[0].Rules {
		if r.Health != "ok" {
			t.Errorf("the rule %s is %s: %s", r.Name, r.Health, r.LastError)
		}
	}
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(scrape(t, metrics))
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool: %v: %s", err, out)
	}
}
