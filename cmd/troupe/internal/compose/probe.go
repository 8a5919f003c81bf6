package compose

import (
	"net"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/b6f6fdd7/troupe/protocol"
)

type (
	// probing are the keys that both probes have.
	probing struct {
		Exec      exec           `keys:"exec,command,test"`
		HTTP      httpGet        `keys:"http_get,http"`
		Failures  int            `keys:"failure_threshold,retries" range:"1,1000"`
		Successes int            `keys:"success_threshold" range:"1,1"`
		Delay     *time.Duration `keys:"initial_delay,start_period"`
		Period    *time.Duration `keys:"period,interval"`
		Timeout   time.Duration  `keys:"timeout"`
	}
	readiness struct {
		probing
		TCP    tcp            `keys:"tcp,tcp_socket"`
		Unix   string         `keys:"unix"`
		File   string         `keys:"file"`
		Line   logLine        `keys:"log_line,line"`
		Within *time.Duration `keys:"start_timeout"`
		Pause  *time.Duration `keys:"delay"`
	}
	liveness struct {
		probing
		Silence time.Duration `keys:"silence"`
	}
	exec struct {
		Command command `keys:"command"`
	}
	httpGet struct {
		URL    string
		Host   string `keys:"host"`
		Port   int    `keys:"port" range:"1,65535"`
		Path   string `keys:"path"`
		Scheme string `keys:"scheme" is:"scheme"`
	}
	tcp struct {
		Address string
		Host    string `keys:"host"`
		Port    int    `keys:"port" range:"1,65535"`
	}
	logLine string
)

// read reads a command, or a mapping with a command.
func (e *exec) read(r *reader, n *yaml.Node, what string) {
	if n.Kind != yaml.MappingNode {
		e.Command.read(r, n, what)
		return
	}
	if r.mapping(n, what, e); len(e.Command) == 0 {
		r.fault(n, "%s has no command", what)
	}
}

// read reads a URL, or its parts.
func (h *httpGet) read(r *reader, n *yaml.Node, what string) {
	if n.Kind == yaml.ScalarNode {
		h.URL = r.word(n, what, "URL")
		return
	}
	*h = httpGet{Host: "127.0.0.1", Path: "/", Scheme: "http"}
	r.mapping(n, what, h)
	if h.Port == 0 {
		h.Port = map[string]int{"http": 80, "https": 443}[h.Scheme]
	}
	h.URL = h.Scheme + "://" + net.JoinHostPort(h.Host, strconv.Itoa(h.Port)) + "/" + strings.TrimPrefix(h.Path, "/")
}

// read reads HOST:PORT, PORT, or a mapping with both.
func (t *tcp) read(r *reader, n *yaml.Node, what string) {
	if n.Kind != yaml.MappingNode {
		t.Address = r.word(n, what, "address")
		return
	}
	t.Host = "127.0.0.1"
	if r.mapping(n, what, t) && t.Port == 0 {
		r.fault(n, "%s has no port", what)
	}
	t.Address = net.JoinHostPort(t.Host, strconv.Itoa(t.Port))
}

func (l *logLine) read(r *reader, n *yaml.Node, what string) {
	s, _ := r.scalar(n, what)
	if _, err := regexp.Compile(s); err != nil {
		r.fault(n, "%s: %v", what, err)
	}
	*l = logLine(s)
}

func (k *readiness) read(r *reader, n *yaml.Node, what string) {
	if !r.mapping(n, what, k) {
		return
	}
	count := 0
	for _, is := range []bool{len(k.Exec.Command) > 0, k.HTTP.URL != "", k.TCP.Address != "", k.Unix != "", k.File != "", k.Line != "", k.Pause != nil} {
		if is {
			count++
		}
	}
	if count != 1 {
		r.fault(n, "%s has %d conditions, expected one of exec, http_get, tcp, unix, file, log_line and delay", what, count)
	}
}

func (k *readiness) ready() *protocol.Ready {
	if k.Pause != nil {
		return &protocol.Ready{DelayMs: millis(*k.Pause)}
	}
	ready := &protocol.Ready{TCP: k.TCP.Address, Unix: k.Unix, File: k.File, Line: string(k.Line), Probe: k.probe(), TimeoutMs: millis(DefaultStartTime)}
	if k.Within != nil {
		ready.TimeoutMs = millis(*k.Within)
	}
	if p := ready.Probe; p != nil {
		p.Failures = 0 // a program is ready at its first success
		if k.Period == nil {
			p.EveryMs = 1000
		}
		if k.Delay != nil && *k.Delay == 0 {
			p.DelayMs = nil
		}
	}
	return ready
}

func (k *liveness) read(r *reader, n *yaml.Node, what string) {
	if !r.mapping(n, what, k) {
		return
	}
	switch has := k.probe() != nil; {
	case len(k.Exec.Command) > 0 && k.HTTP.URL != "":
		r.fault(n, "%s has exec and http_get, expected one of them", what)
	case !has && k.Silence == 0:
		r.fault(n, "%s has nothing to look at: write exec, http_get or silence", what)
	}
}

func (k *liveness) liveness() *protocol.Liveness {
	return &protocol.Liveness{SilenceMs: *millis(k.Silence), Probe: k.probe()}
}

// probe returns the probe; nil: the file names none.
func (k *probing) probe() *protocol.Probe {
	if len(k.Exec.Command) == 0 && k.HTTP.URL == "" {
		return nil
	}
	p := &protocol.Probe{Argv: k.Exec.Command, HTTP: k.HTTP.URL, TimeoutMs: *millis(k.Timeout), Failures: uint64(k.Failures)}
	if k.Period != nil {
		p.EveryMs = max(*millis(*k.Period), 1)
	}
	if k.Delay != nil {
		p.DelayMs = millis(*k.Delay)
	}
	return p
}
