package actors_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/transport"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

var update = flag.Bool("update", false, "write the table of docs/METRICS.md")

// gathered returns the value of each series of a troupe, by name and labels; of a histogram its count.
func gathered(t *testing.T, troupe *actors.Troupe) map[string]float64 {
	t.Helper()
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(troupe.Metrics())
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]float64)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name := f.GetName()
			for _, l := range m.GetLabel() {
				name += fmt.Sprintf(" %s=%s", l.GetName(), l.GetValue())
			}
			all[name] = m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return all
}

// The names of the metrics are as Prometheus wants them, and the document has all of them.
func TestMetricsOfTheDocumentation(t *testing.T) {
	troupe := start(t, actors.Config{})
	r := prometheus.NewPedanticRegistry()
	r.MustRegister(troupe.Metrics())
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v: %v", err, problems)
	}
	const mark = "-update -->\n"
	path := "../docs/METRICS.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut(string(text), mark)
	want := head + mark + actors.MetricsTable()
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(text) != want {
		t.Errorf("the table of %s is not what the code says: run this test with -update", path)
	}
}

// Each thing that happens is counted, once.
func TestMetricsCount(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{MaxProcesses: 3})
	p := connect(t, troupe)
	p.open("")
	p.start("a", `,"pipeStdin":true,"retention":{"bytes":65536}`, "sh", "-c", "echo out; echo err >&2; read x; exit 3")
	p.start("b", `,"pipeStdin":true`, "cat")
	p.start("d", "", "sleep", "1000")
	if m := p.call("process/start", `{"processId":"c","argv":["sleep","1"],"cwd":"file:///","env":{},"arg0":null,"tty":false}`); m.Error == nil {
		t.Fatal("four processes, and max-processes is 3")
	}
	p.call("fs/readFile", `{"path":"file:///nowhere"}`)
	p.call("process/foo", `{}`)
	p.call("process/write", `{"processId":"a","writeId":"1","chunk":"eAo="}`)
	p.call("process/closeStdin", `{"processId":"b"}`)
	want := map[string]float64{
		"troupe_connections":                                   1,
		"troupe_connections_total":                             1,
		"troupe_sessions state=attached":                       1,
		"troupe_sessions state=detached":                       0,
		"troupe_sessions_opened_total":                         1,
		"troupe_processes state=closed":                        2,
		"troupe_processes state=running":                       1,
		"exec_server_processes_active":                         1,
		"troupe_children":                                      1,
		"troupe_processes state=starting":                      0,
		"troupe_process_events_total event=started":            3,
		"troupe_process_events_total event=exited":             2,
		"troupe_process_events_total event=closed":             2,
		"troupe_process_events_total event=restarted":          0,
		"troupe_runs_finished_total result=success":            1,
		"troupe_runs_finished_total result=failed":             1,
		"exec_server_processes_finished_total result=failed":   1,
		"troupe_output_bytes_total stream=stdout":              4,
		"troupe_output_bytes_total stream=stderr":              4,
		"troupe_stdin_bytes_total":                             2,
		"troupe_requests_total method=process/start":           4,
		"troupe_requests_total method=process/write":           1,
		"troupe_requests_total method=unknown":                 1,
		"troupe_request_errors_total kind=method":              1,
		"troupe_limit_refusals_total limit=max-processes":      1,
		"troupe_start_seconds":                                 4,
		"troupe_write_seconds":                                 1,
		"troupe_file_call_seconds":                             1,
		"troupe_actor_panics_total":                            0,
		"troupe_build_info version=" + troupe.Config().Version: 1,
	}
	await(t, troupe, want)
	p.conn.Close(transport.CloseNormal, "")
	await(t, troupe, map[string]float64{"troupe_connections": 0, "troupe_sessions state=attached": 0, "troupe_sessions state=detached": 1})
	troupe.CountRefused("origin")
	if err := troupe.Shutdown(context.Background()); err != nil {
		t.Error(err)
	}
	await(t, troupe, map[string]float64{
		"troupe_sessions state=detached": 0, "troupe_sessions state=closing": 0, "troupe_processes state=running": 0, "troupe_processes state=closed": 0,
		"troupe_runs_finished_total result=terminated": 1, "troupe_children": 0, "troupe_connections_refused_total why=origin": 1,
	})
}

// await waits until metrics have these values.
func await(t *testing.T, troupe *actors.Troupe, want map[string]float64) {
	t.Helper()
	var differ []string
	for began := time.Now(); time.Since(began) < limit; time.Sleep(5 * time.Millisecond) {
		got := gathered(t, troupe)
		differ = nil
		for name, value := range want {
			if have, ok := got[name]; !ok || have != value {
				differ = append(differ, fmt.Sprintf("%s %v, want %v", name, have, value))
			}
		}
		if len(differ) == 0 {
			return
		}
	}
	slices.Sort(differ)
	t.Fatal(strings.Join(differ, "\n"))
}

// A program that waits for its owner is counted, with its time, and so is the time of output.
func TestMetricsOfWaits(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{})
	p := connect(t, troupe)
	p.open("")
	p.start("a", `,"retention":{"bytes":4096}`, "sh", "-c", "head -c 1000000 /dev/zero; sleep 1000")
	for began := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		got := gathered(t, troupe)
		if got["troupe_output_bytes_total stream=stdout"] == 1e6 && got["troupe_output_waits_total for=owner"] > 0 && got["troupe_output_wait_seconds_total for=owner"] > 0 &&
			got["troupe_output_seconds"] > 0 && got["troupe_mailbox_depth"] > 0 && got["troupe_message_bytes_total direction=sent"] > 1e6 {
			break
		}
		if time.Since(began) > limit {
			t.Fatalf("%v", got)
		}
	}
}

// The list of actors has each of them, with its state, and with what it waits for.
func TestActorsOfTroupe(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{Name: "crew"})
	p := connect(t, troupe)
	session := p.open("")
	p.start("a", "", "sleep", "1000")
	found := make(map[string]actors.ActorInfo)
	for _, a := range troupe.Actors(context.Background()) {
		name := a.Name
		for prefix, short := range map[string]string{"crew/connections/c-": "connection", "crew/sessions/" + session + "/p-": "process"} {
			if strings.HasPrefix(name, prefix) {
				name = short
			}
		}
		found[name] = a
	}
	if got, want := slices.Sorted(maps.Keys(found)), []string{"connection", "crew", "crew/connections", "crew/registry", "crew/sessions", "crew/sessions/" + session, "crew/sessions/" + session + "/session", "crew/watch", "process"}; !slices.Equal(got, want) {
		t.Errorf("actors %q, want %q", got, want)
	}
	for name, want := range map[string]string{
		"connection": "ready as owner, 1 streams", "crew/registry": "open, 1 sessions", "crew/sessions/" + session + "/session": "attached, 1 processes", "process": "running, run 1",
	} {
		if a := found[name]; a.State != want || a.Silent || a.Type == "" {
			t.Errorf("%s: %+v, want state %q", name, a, want)
		}
	}
	if w := found["process"].Waits; !slices.Equal(w, []string{"itself"}) {
		t.Errorf("the process waits for %q", w)
	}
}

// The rules for alerts and the dashboard name only metrics that there are.
func TestOperationsNameMetrics(t *testing.T) {
	known := make(map[string]bool)
	for _, name := range actors.MetricNames() {
		known[name] = true
	}
	names := regexp.MustCompile(`\b(?:troupe|exec_server)_[a-z_]+`)
	for _, file := range []string{"alerts.yaml", "dashboard.json", "../OPERATIONS.md"} {
		text, err := os.ReadFile("../docs/operations/" + file)
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, name := range names.FindAllString(string(text), -1) {
			found++
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				if whole := strings.TrimSuffix(name, part); known[whole] {
					name = whole
				}
			}
			if !known[name] {
				t.Errorf("%s names %s, and there is no such metric", file, name)
			}
		}
		if found < 5 {
			t.Errorf("%s: %d metrics found", file, found)
		}
	}
}
