package compose

import (
	"net"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/b6f6fdd7/troupe/protocol"
)

// probeTargets are the keys with the command or the address for a probe to try.
func (r *reader) probeTargets(what string, probe *protocol.Probe) []key {
	return []key{
		{[]string{"exec", "command", "test"}, func(n *yaml.Node) {
			if alias(n).Kind != yaml.MappingNode {
				probe.Argv = r.command(n, what+".exec")
				return
			}
			r.mapping(n, what+".exec", []key{{[]string{"command"}, func(n *yaml.Node) { probe.Argv = r.command(n, what+".exec.command") }}}, map[string]string{"working_dir": "a probe runs in the directory of the program"})
			if len(probe.Argv) == 0 {
				r.fault(n, "%s.exec has no command", what)
				probe.Argv = []string{""}
			}
		}},
		{[]string{"http_get", "http"}, func(n *yaml.Node) { probe.HTTP = r.httpGet(n, what+".http_get") }},
	}
}

// httpGet reads a URL, or its parts.
func (r *reader) httpGet(n *yaml.Node, what string) string {
	if alias(n).Kind == yaml.ScalarNode {
		s, ok := r.scalar(n, what)
		if u, err := url.Parse(s); ok && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https") {
			r.fault(n, "%s is %s, expected a URL such as http://127.0.0.1:8080/health", what, quote(s))
		}
		return s
	}
	host, port, path, scheme := "127.0.0.1", "", "/", "http"
	r.mapping(n, what, []key{
		{[]string{"host"}, r.text(&host, what+".host")},
		{[]string{"port"}, func(n *yaml.Node) {
			if v, ok := r.number(n, what+".port", 1, 65535); ok {
				port = strconv.FormatInt(v, 10)
			}
		}},
		{[]string{"path"}, r.text(&path, what+".path")},
		{[]string{"scheme"}, func(n *yaml.Node) {
			if r.text(&scheme, what+".scheme")(n); strings.ToLower(scheme) != "http" && strings.ToLower(scheme) != "https" {
				r.fault(n, "%s.scheme is %s, expected http or https", what, quote(scheme))
			}
		}},
	}, map[string]string{"headers": "a probe sends no headers", "status_code": "a probe takes the status 200 to 399 for a success"})
	if port == "" {
		if strings.ToLower(scheme) == "https" {
			port = "443"
		} else {
			port = "80"
		}
	}
	return strings.ToLower(scheme) + "://" + net.JoinHostPort(host, port) + "/" + strings.TrimPrefix(path, "/")
}

// probeTimes are the keys of both probes.
func (r *reader) probeTimes(what string, delay, period, timeout *time.Duration, failures *int64) []key {
	keys := []key{{[]string{"failure_threshold", "retries"}, func(n *yaml.Node) {
		if v, ok := r.number(n, what+".failure_threshold", 1, 1000); ok {
			*failures = v
		}
	}}, {[]string{"success_threshold"}, func(n *yaml.Node) {
		r.number(n, what+".success_threshold", 1, 1)
	}}}
	keys = append(keys, r.durationKeys(delay, what, "initial_delay", "start_period")...)
	keys = append(keys, r.durationKeys(period, what, "period", "interval")...)
	return append(keys, r.durationKeys(timeout, what, "timeout")...)
}

const unsetTime = time.Duration(-1)

func (r *reader) readiness(n *yaml.Node, what string, p *Program) {
	if p.Ready != nil {
		r.fault(n, "%s and another readiness_probe: leave one out", what)
		return
	}
	var probe protocol.Probe
	ready := new(protocol.Ready)
	delay, period, timeout, within, pause := unsetTime, unsetTime, unsetTime, DefaultStartTime, unsetTime
	failures := int64(0)
	keys := append(r.probeTargets(what, &probe), []key{
		{[]string{"tcp", "tcp_socket"}, func(n *yaml.Node) { ready.TCP = r.tcp(n, what+".tcp") }},
		{[]string{"unix"}, r.text(&ready.Unix, what+".unix")},
		{[]string{"file"}, r.text(&ready.File, what+".file")},
		{[]string{"log_line", "line"}, func(n *yaml.Node) {
			r.text(&ready.Line, what+".log_line")(n)
			if _, err := regexp.Compile(ready.Line); err != nil {
				r.fault(n, "%s.log_line: %v", what, err)
			}
		}},
	}...)
	keys = append(keys, r.probeTimes(what, &delay, &period, &timeout, &failures)...)
	keys = append(keys, r.durationKeys(&within, what, "start_timeout")...)
	keys = append(keys, r.durationKeys(&pause, what, "delay")...)
	before := len(r.errs)
	r.mapping(n, what, keys, nil)
	if len(r.errs) > before {
		p.Ready = ready
		return
	}
	count := 0
	for _, is := range []bool{len(probe.Argv) > 0, probe.HTTP != "", ready.TCP != "", ready.Unix != "", ready.File != "", ready.Line != "", pause >= 0} {
		if is {
			count++
		}
	}
	if count != 1 {
		r.fault(n, "%s has %d conditions, expected one of exec, http_get, tcp, unix, file, log_line and delay", what, count)
	}
	switch {
	case pause >= 0:
		ready.DelayMs = millis(pause)
	case len(probe.Argv) > 0 || probe.HTTP != "":
		if period < 0 {
			period = time.Second
		}
		probe.EveryMs = max(*millis(period), 1)
		if timeout >= 0 {
			probe.TimeoutMs = *millis(timeout)
		}
		if delay > 0 {
			probe.DelayMs = millis(delay)
		}
		ready.Probe = &probe
	}
	if pause < 0 {
		ready.TimeoutMs = millis(within)
	}
	p.Ready = ready
}

func (r *reader) tcp(n *yaml.Node, what string) string {
	if alias(n).Kind == yaml.MappingNode {
		host, port := "127.0.0.1", int64(0)
		r.mapping(n, what, []key{
			{[]string{"host"}, r.text(&host, what+".host")},
			{[]string{"port"}, func(n *yaml.Node) { port, _ = r.number(n, what+".port", 1, 65535) }},
		}, nil)
		if port == 0 {
			r.fault(n, "%s has no port", what)
		}
		return net.JoinHostPort(host, strconv.FormatInt(port, 10))
	}
	s, ok := r.scalar(n, what)
	if !ok {
		return ""
	}
	if _, err := strconv.Atoi(s); err == nil {
		s = "127.0.0.1:" + s
	}
	if _, port, err := net.SplitHostPort(s); err != nil || port == "" {
		r.fault(n, "%s is %s, expected HOST:PORT", what, quote(s))
	}
	return s
}

func (r *reader) liveness(n *yaml.Node, what string, p *Program) {
	var probe protocol.Probe
	delay, period, timeout, silence := unsetTime, unsetTime, unsetTime, unsetTime
	failures := int64(0)
	keys := append(r.probeTargets(what, &probe), r.probeTimes(what, &delay, &period, &timeout, &failures)...)
	keys = append(keys, r.durationKeys(&silence, what, "silence")...)
	before := len(r.errs)
	r.mapping(n, what, keys, map[string]string{"tcp": "write exec or http_get", "log_line": "write silence: TIME, for a program that always writes"})
	p.Liveness = new(protocol.Liveness)
	if len(r.errs) > before {
		return
	}
	has := len(probe.Argv) > 0 || probe.HTTP != ""
	switch {
	case len(probe.Argv) > 0 && probe.HTTP != "":
		r.fault(n, "%s has exec and http_get, expected one of them", what)
	case !has && silence <= 0:
		r.fault(n, "%s has nothing to look at: write exec, http_get or silence", what)
	}
	if silence > 0 {
		p.Liveness.SilenceMs = *millis(silence)
	}
	if has {
		if period >= 0 {
			probe.EveryMs = max(*millis(period), 1)
		}
		if timeout >= 0 {
			probe.TimeoutMs = *millis(timeout)
		}
		if delay >= 0 {
			probe.DelayMs = millis(delay)
		}
		probe.Failures = uint64(failures)
		p.Liveness.Probe = &probe
	}
}
