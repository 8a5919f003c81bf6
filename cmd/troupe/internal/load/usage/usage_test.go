//go:build unix

package usage

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"golang.org/x/sys/unix"
)

// burn uses d of CPU time, whatever other programs use.
func burn(t *testing.T, d time.Duration) {
	used := func() time.Duration {
		var r unix.Rusage
		if err := unix.Getrusage(unix.RUSAGE_SELF, &r); err != nil {
			t.Fatal(err)
		}
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	for end := used() + d; used() < end; {
	}
}

// TestOf: a server with a pid and metrics is measured once.
func TestOf(t *testing.T) {
	for want, p := range []plan.Plan{{}, {PIDs: []int{os.Getpid()}, Metrics: "http://127.0.0.1:1"}, {PIDs: []int{os.Getpid(), os.Getppid()}}} {
		if got := len(Of(&p)); got != want {
			t.Errorf("%d meters of %v and %q, want %d", got, p.PIDs, p.Metrics, want)
		}
	}
	if got := len(Of(&plan.Plan{Metrics: "http://127.0.0.1:1"})); got != 1 {
		t.Errorf("%d meters of metrics", got)
	}
}

func TestOwn(t *testing.T) {
	m := Own()
	block := make([]byte, 64<<20)
	for i := 0; i < len(block); i += 4096 {
		block[i] = 1
	}
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	burn(t, 20*time.Millisecond)
	before, err := m.Read()
	if err != nil {
		t.Fatal(err)
	}
	if before.CPU <= 0 || before.CPU > 1000 || before.Memory < 64<<20 || before.Threads < 1 || before.Files < 4 {
		t.Errorf("own use: %+v", before)
	}
	f.Close()
	after, err := m.Read()
	if err != nil {
		t.Fatal(err)
	}
	if after.Files != before.Files-1 {
		t.Errorf("%d files after a close, %d before", after.Files, before.Files)
	}
	_ = block[0]
}

func TestCores(t *testing.T) {
	var c cpu
	at := time.Unix(100, 0)
	for _, step := range []struct {
		used, passed time.Duration
		want         float64
	}{
		{time.Second, 0, 0},                             // the first one
		{3 * time.Second, time.Second, 2},               // two cores
		{3 * time.Second, time.Second, 0},               // idle
		{time.Second, time.Second, 0},                   // the server was started anew
		{1500 * time.Millisecond, time.Second, .5},      // half a core
		{1600 * time.Millisecond, 0, 0},                 // no time has passed
		{2600 * time.Millisecond, 4 * time.Second, .25}, // a longer step
	} {
		at = at.Add(step.passed)
		if got := c.cores(step.used, at); got != step.want {
			t.Errorf("%+v: %v cores", step, got)
		}
	}
}

// The metrics of the usual client, and the same process read by its pid, tell the same.
func TestMetrics(t *testing.T) {
	reg := prometheus.NewRegistry()
	reg.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	server := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	defer server.Close()
	m := OfMetrics(server.URL)
	burn(t, 30*time.Millisecond)
	got, err := m.Read()
	if err != nil {
		t.Fatal(err)
	}
	want, err := Own().Read()
	if err != nil {
		t.Fatal(err)
	}
	if got.CPU <= 0 || got.Memory < want.Memory/2 || got.Memory > want.Memory*2 || got.Files < 3 || got.Threads < 1 {
		t.Errorf("by metrics %+v, by pid %+v", got, want)
	}
}

func TestMetricsErrors(t *testing.T) {
	body, status := "", 200
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	address := strings.Replace(server.URL, "http://", "http://somebody:s3cret@", 1)
	m := OfMetrics(address)
	_, err := m.Read()
	if err == nil || !strings.Contains(err.Error(), "process_cpu_seconds_total") {
		t.Errorf("without metrics: %v", err)
	}
	status = 403
	_, refused := m.Read()
	if refused == nil || !strings.Contains(refused.Error(), "403 Forbidden") {
		t.Errorf("refused: %v", refused)
	}
	server.Close()
	_, gone := m.Read()
	if gone == nil {
		t.Error("gone: no error")
	}
	for _, e := range []error{err, refused, gone} {
		if e != nil && strings.Contains(e.Error(), "s3cret") {
			t.Errorf("the error has the password: %v", e)
		}
	}
}

func TestParse(t *testing.T) {
	values, err := parse(strings.NewReader(`# HELP process_open_fds Number of open file descriptors.
process_open_fds 12
process_cpu_seconds_total{job="a b",path="}"} 1.5 1712345678
process_cpu_seconds_total{job="c"} 2e0
process_resident_memory_bytes NaN
other ` + strings.Repeat("x", 10_000) + `
other{x="` + strings.Repeat("process_threads 5\t", 1_000) + `"} 7
process_num_threads	4
process_threads
go_threads 9`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"process_open_fds": 12, "process_cpu_seconds_total": 3.5, "process_num_threads": 4, "go_threads": 9}
	if !maps.Equal(values, want) {
		t.Errorf("values are %v, want %v", values, want)
	}
}
