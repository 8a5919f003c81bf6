//go:build unix

package usage

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

const (
	metricsTimeout = 2 * time.Second
	maxMetrics     = 32 << 20 // bytes; the rest is not read
)

// The names of Prometheus' clients for the usage of a process, the preferred name first.
var (
	cpuNames    = []string{"process_cpu_seconds_total"}
	memoryNames = []string{"process_resident_memory_bytes"}
	fileNames   = []string{"process_open_fds", "process_open_handles"}
	threadNames = []string{"process_threads", "process_num_threads", "jvm_threads_current", "go_threads"}
)

type metricsMeter struct {
	url    string
	client *http.Client
	cpu    cpu
}

// OfMetrics measures a server by the URL of its Prometheus metrics (process_cpu_seconds_total and the like). A Read takes at most 2 s.
func OfMetrics(url string) Meter {
	m := &metricsMeter{url: url, client: &http.Client{Timeout: metricsTimeout}}
	m.Read() // so the first Read tells the CPU since now; its error comes then
	return m
}

// Read implements Meter. Values missing in the metrics are 0, but a missing CPU time or memory is an error.
func (m *metricsMeter) Read() (result.Usage, error) {
	req, err := http.NewRequest(http.MethodGet, m.url, nil)
	if err != nil {
		return result.Usage{}, fmt.Errorf("metrics of the server: %w", err)
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	at := time.Now()
	resp, err := m.client.Do(req)
	if err != nil {
		return result.Usage{}, fmt.Errorf("metrics of the server: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return result.Usage{}, fmt.Errorf("metrics of the server: GET %s answered %s", redacted(m.url), resp.Status)
	}
	values, err := parse(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return result.Usage{}, fmt.Errorf("metrics of the server at %s: %w", redacted(m.url), err)
	}
	value := func(names []string) (float64, bool) {
		for _, n := range names {
			if v, ok := values[n]; ok {
				return v, true
			}
		}
		return 0, false
	}
	used, okCPU := value(cpuNames)
	memory, okMemory := value(memoryNames)
	if !okCPU || !okMemory {
		return result.Usage{}, fmt.Errorf("the metrics at %s have no %s and %s: give the pid of the server instead", redacted(m.url), cpuNames[0], memoryNames[0])
	}
	files, _ := value(fileNames)
	threads, _ := value(threadNames)
	return result.Usage{
		CPU:    m.cpu.cores(time.Duration(used*float64(time.Second)), at),
		Memory: int64(memory), Files: int(files), Threads: int(threads),
	}, nil
}

// redacted returns a URL without its password.
func redacted(s string) string {
	u, err := url.Parse(s)
	if err != nil {
		return "the URL"
	}
	return u.Redacted()
}

// parse reads the values named above from the text form of Prometheus metrics. Values of the same name with several labels are added.
func parse(r io.Reader) (map[string]float64, error) {
	wanted := map[string]bool{}
	for _, names := range [][]string{cpuNames, memoryNames, fileNames, threadNames} {
		for _, n := range names {
			wanted[n] = true
		}
	}
	values := map[string]float64{}
	lines := bufio.NewReaderSize(r, 4096)
	for {
		line, err := lines.ReadSlice('\n')
		long := err == bufio.ErrBufferFull // none of ours: the rest of the line is skipped
		if name, value, ok := sample(line); ok && !long && wanted[name] {
			values[name] += value
		}
		for err == bufio.ErrBufferFull {
			_, err = lines.ReadSlice('\n')
		}
		if err == io.EOF {
			return values, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

// sample reads a line such as `process_open_fds{job="x"} 12 1712345678`.
func sample(line []byte) (name string, value float64, ok bool) {
	line = bytes.TrimSpace(line)
	if len(line) == 0 || line[0] == '#' {
		return "", 0, false
	}
	n, rest := string(line), ""
	if i := strings.IndexAny(n, "{ \t"); i < 0 {
		return "", 0, false
	} else if n[i] != '{' {
		n, rest = n[:i], n[i:]
	} else if end := strings.LastIndexByte(n, '}'); end < 0 {
		return "", 0, false
	} else {
		n, rest = n[:i], n[end+1:]
	}
	f := strings.Fields(rest)
	if len(f) == 0 {
		return "", 0, false
	}
	v, err := strconv.ParseFloat(f[0], 64)
	return n, v, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
}
