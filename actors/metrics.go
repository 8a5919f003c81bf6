package actors

import (
	"iter"
	"math"
	"strings"
	"sync"

	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/internal/meters"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/prometheus/client_golang/prometheus"
)

// metric is a row of the table of metrics. No label has an id or a word of a client, so the number of series is bounded.
type metric struct {
	name, help string
	labels     []string
	kind       prometheus.ValueType // of each series that read emits; 0: read emits histograms
	read       func(*env.Env, emitter)
}

// emitter passes the series of a metric on.
type emitter struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	to   chan<- prometheus.Metric
}

func (e emitter) value(v float64, labels ...string) {
	e.to <- prometheus.MustNewConstMetric(e.desc, e.kind, v, labels...)
}

func (e emitter) counter(c *meters.Counter, labels ...string) { e.value(float64(c.Load()), labels...) }

// family emits a series for each label of f, as each does.
func (e emitter) family(f *meters.Family, always ...string) { each(e, f.All(), always) }

// states emits a series for each state of s, as each does.
func (e emitter) states(s *meters.States, always ...string) { each(e, s.All(), always) }

// each emits a series for each label of all, and for the labels of always that all lacks: a rate over a series that begins with 1 is 0.
func each[N uint64 | int64](e emitter, all iter.Seq2[string, N], always []string) {
	seen := make(map[string]bool)
	for label, n := range all {
		seen[label] = true
		e.value(float64(n), label)
	}
	for _, label := range always {
		if !seen[label] {
			e.value(0, label)
		}
	}
}

func (e emitter) histogram(upTo map[float64]uint64, count uint64, sum float64) {
	e.to <- prometheus.MustNewConstHistogram(e.desc, count, sum, upTo)
}

// The kinds of rows.
const (
	counts    = prometheus.CounterValue
	gauge     = prometheus.GaugeValue
	histogram = prometheus.ValueType(0)
)

// of reads a single counter.
func of(c func(*meters.Meters) *meters.Counter) func(*env.Env, emitter) {
	return func(e *env.Env, to emitter) { to.counter(c(&e.Meters)) }
}

// timed reads a distribution of times.
func timed(t func(*meters.Meters) *meters.Times) func(*env.Env, emitter) {
	return func(e *env.Env, to emitter) { to.histogram(t(&e.Meters).Read()) }
}

// now reads a number.
func now(n func(*env.Env) int64) func(*env.Env, emitter) {
	return func(e *env.Env, to emitter) { to.value(float64(n(e))) }
}

// causes are the labels of child.Cause.
var causes = [...]string{child.ByOwner: "owner", child.ByBudget: "budget", child.ByRate: "rate"}

// states of sessions, and of processes.
var (
	sessionStates = []string{string(protocol.ServerAttached), string(protocol.ServerDetached), string(protocol.ServerClosing)}
	processStates = []string{string(protocol.StateStarting), string(protocol.StateRunning), string(protocol.StateRestarting), string(protocol.StateWaiting),
		string(protocol.StateDraining), string(protocol.StateExited), string(protocol.StateClosed)}
	results = []string{"success", "failed", "terminated"}
)

// metrics is the table of all metrics of a troupe, in the order of docs/METRICS.md.
var metrics = []metric{
	{"troupe_connections", "Connections now.", nil, gauge, now(func(e *env.Env) int64 { return e.Counts.Connections.Load() })},
	{"troupe_connections_total", "Connections that were accepted.", nil, counts, of(func(m *meters.Meters) *meters.Counter { return &m.Connections })},
	{"troupe_connections_refused_total", "Connections that were refused: without a right credential, by a limit, from a web page, or in the handshake of TLS.", []string{"why"}, counts,
		func(e *env.Env, to emitter) { to.family(&e.Meters.Refused, refusals...) }},
	{"troupe_messages_total", "Messages of connections, by direction: received or sent.", []string{"direction"}, counts, func(e *env.Env, to emitter) {
		to.counter(&e.Meters.Received.Messages, "received")
		to.counter(&e.Meters.Sent.Messages, "sent")
	}},
	{"troupe_message_bytes_total", "Bytes of the messages, without frames and TLS.", []string{"direction"}, counts, func(e *env.Env, to emitter) {
		to.counter(&e.Meters.Received.Bytes, "received")
		to.counter(&e.Meters.Sent.Bytes, "sent")
	}},
	{"troupe_requests_total", "Requests and notifications of clients, by method. Methods that do not exist are unknown, and frames without a message unreadable.", []string{"method"}, counts,
		func(e *env.Env, to emitter) { to.family(&e.Meters.Requests) }},
	{"troupe_request_errors_total", "Answers that say what was wrong, by the kind of the error (PROTOCOL.md).", []string{"kind"}, counts,
		func(e *env.Env, to emitter) { to.family(&e.Meters.Failures, string(protocol.KindInternal)) }},
	{"troupe_limit_refusals_total", "Requests that a limit of the server has refused, by the name of the setting.", []string{"limit"}, counts,
		func(e *env.Env, to emitter) { to.family(&e.Meters.Limits, "max-sessions", "max-processes") }},

	{"troupe_sessions", "Sessions now, by state.", []string{"state"}, gauge, func(e *env.Env, to emitter) { to.states(&e.Meters.Sessions, sessionStates...) }},
	{"troupe_sessions_opened_total", "Sessions that were opened.", nil, counts, of(func(m *meters.Meters) *meters.Counter { return &m.Opened })},
	{"troupe_session_evictions_total", "Sessions without a connection that gave way to others, by what was short: memory or places.", []string{"short"}, counts,
		func(e *env.Env, to emitter) { to.family(&e.Meters.Evictions, "memory", "places") }},

	{"troupe_draining", "1 while the server is drained: it opens no session.", nil, gauge, now(func(e *env.Env) int64 { return min(e.Counts.Leaves.Load(), 1) })},

	{"troupe_processes", "Processes now, by state (as in troupe ps).", []string{"state"}, gauge, func(e *env.Env, to emitter) { to.states(&e.Meters.Processes, processStates...) }},
	{"troupe_children", "Programs that run now, those of probes and of calls about files included.", nil, gauge, now(func(e *env.Env) int64 { return int64(e.Host.Live()) })},
	{"troupe_children_limit", "How many programs the machine lets the server have; +Inf: no limit is known.", nil, gauge, func(e *env.Env, to emitter) {
		limit := math.Inf(1)
		if n, _ := e.Host.ChildLimit(); n > 0 {
			limit = float64(n)
		}
		to.value(limit)
	}},
	{"troupe_process_events_total", "What has happened to processes: started (once a process), ready, exited, restarted, evicted or closed (as in troupe events).", []string{"event"}, counts,
		func(e *env.Env, to emitter) {
			to.family(&e.Meters.Events, string(protocol.ServerStarted), string(protocol.ServerReady), string(protocol.ServerExited), string(protocol.ServerRestarted),
				string(protocol.ServerEvicted), string(protocol.ServerClosed))
		}},
	{"troupe_runs_finished_total", "Runs of programs that have ended: with exit code 0 (success), otherwise (failed), or by the server (terminated).", []string{"result"}, counts,
		func(e *env.Env, to emitter) { to.family(&e.Meters.Finished, results...) }},
	{"troupe_runs_oom_killed_total", "Runs that the kernel has killed for lack of memory.", nil, counts, of(func(m *meters.Meters) *meters.Counter { return &m.OOM })},
	{"troupe_output_bytes_total", "Bytes that programs have written, by stream.", []string{"stream"}, counts, func(e *env.Env, to emitter) {
		for s := protocol.Stdout; int(s) < len(e.Meters.Output); s++ {
			to.counter(&e.Meters.Output[s], s.String())
		}
	}},
	{"troupe_stdin_bytes_total", "Bytes that programs were given.", nil, counts, of(func(m *meters.Meters) *meters.Counter { return &m.Stdin })},
	{"troupe_output_gaps_total", "Gaps that viewers have got in place of output that was no longer there.", nil, counts, of(func(m *meters.Meters) *meters.Counter { return &m.Gaps })},
	{"troupe_output_gap_bytes_total", "Bytes in these gaps.", nil, counts, of(func(m *meters.Meters) *meters.Counter { return &m.Missing })},
	{"troupe_output_waits_total", "How often a program had to wait with its output: until its owner has read (owner), for memory of the server (budget), or because of a rate.", []string{"for"}, counts,
		func(e *env.Env, to emitter) {
			for by, label := range causes {
				to.counter(&e.Meters.Waits[by].Times, label)
			}
		}},
	{"troupe_output_wait_seconds_total", "How long programs have waited with their output. A wait counts when it has ended.", []string{"for"}, counts, func(e *env.Env, to emitter) {
		for by, label := range causes {
			to.value(float64(e.Meters.Waits[by].Time.Load())/1e9, label)
		}
	}},

	{"troupe_memory_bytes", "Bytes that clients make the server hold, by what: output, messages (requests and answers), or ends (output for the end of a program).", []string{"what"}, gauge,
		func(e *env.Env, to emitter) {
			to.value(float64(e.OutputBudget.Used()), "output")
			to.value(float64(e.ClientBudget.Used()), "messages")
			to.value(float64(e.KeptBudget.Used()), "ends")
		}},
	{"troupe_memory_budget_bytes", "How many of these bytes there may be, all together (--memory-budget).", nil, gauge, now(func(e *env.Env) int64 { return e.Budget })},
	{"troupe_spooled_bytes", "Bytes of output on disk.", nil, gauge, now(func(e *env.Env) int64 { return e.Disk.Used() })},
	{"troupe_spool_budget_bytes", "How many bytes there may be on disk (--spool-budget).", nil, gauge, now(func(e *env.Env) int64 { return e.SpoolBudget })},
	{"troupe_file_calls_hung", "Calls about files that the kernel does not answer.", nil, gauge, now(func(e *env.Env) int64 { return int64(e.FileTurns.Hanging()) })},
	{"troupe_http_calls", "HTTP requests for clients under way.", nil, gauge, now(func(e *env.Env) int64 { return e.Counts.HTTPCalls.Load() })},

	{"troupe_start_seconds", "From the request to start a program, or a group, until its answer is written.", nil, histogram, timed(func(m *meters.Meters) *meters.Times { return &m.Start })},
	{"troupe_write_seconds", "From a process/write until its answer is written: the first part of an echo. A program that reads nothing makes it long.", nil, histogram,
		timed(func(m *meters.Meters) *meters.Times { return &m.Write })},
	{"troupe_output_seconds", "From the moment that the server has read output until the socket has it, for clients that keep up: the second part of an echo.", nil, histogram,
		timed(func(m *meters.Meters) *meters.Times { return &m.Delivery })},
	{"troupe_file_call_seconds", "From a call about files until its answer is written.", nil, histogram, timed(func(m *meters.Meters) *meters.Times { return &m.Files })},
	{"troupe_pong_seconds", "From a Ping until the Pong of the client: the link, and how far the client is behind.", nil, histogram,
		timed(func(m *meters.Meters) *meters.Times { return &m.Pong })},

	{"troupe_actor_panics_total", "Panics of actors and of their goroutines: each is a fault of the server.", nil, counts, now((*env.Env).Panics)},
	{"troupe_actor_restarts_total", "Actors that were restarted after a panic.", nil, counts, now(func(e *env.Env) int64 { return e.Counts.Actors.Restarts.Load() })},
	{"troupe_actors_given_up_total", "Actors that have failed too often.", nil, counts, now(func(e *env.Env) int64 { return e.Counts.Actors.GivenUp.Load() })},
	{"troupe_dead_letters_total", "Messages to actors that had stopped. Some are normal.", nil, counts, of(func(m *meters.Meters) *meters.Counter { return &m.Letters })},
	{"troupe_mailbox_depth", "Messages behind the one that an actor begins with; one of 16 messages is looked at.", nil, histogram,
		func(e *env.Env, to emitter) { to.histogram(e.Meters.Mailbox.Read()) }},

	{"troupe_cluster_nodes", "Nodes of the cluster that this one knows, by state: ready, draining, unheard (nobody tells of the node, and its machine takes connections), ended (it was drained) or lost, within the last hour.", []string{"state"}, gauge,
		inCluster(func(c config.Cluster, to emitter) {
			now := map[string]float64{"ready": 0, "draining": 0, "unheard": 0, "ended": 0, "lost": 0}
			for _, n := range c.Members().Nodes {
				now[n.State()]++
			}
			for state, n := range now {
				to.value(n, state)
			}
		})},
	{"troupe_cluster_informed", "1 while this node hears which nodes join and leave.", nil, gauge, inCluster(func(c config.Cluster, to emitter) {
		informed := 1.0
		if c.Problem() != "" {
			informed = 0
		}
		to.value(informed)
	})},
	{"troupe_cluster_relays", "Connections of clients that this node passes on to other nodes now.", nil, gauge,
		inCluster(func(c config.Cluster, to emitter) { to.value(float64(c.Counts().Relays.Load())) })},
	{"troupe_cluster_relays_total", "Connections of clients that were passed on to other nodes.", nil, counts, inCluster(func(c config.Cluster, to emitter) { to.counter(&c.Counts().Relayed) })},
	{"troupe_cluster_relayed_bytes_total", "Bytes of these connections, by direction: up from clients, or down to them.", []string{"direction"}, counts, inCluster(func(c config.Cluster, to emitter) {
		to.counter(&c.Counts().Up, "up")
		to.counter(&c.Counts().Down, "down")
	})},
	{"troupe_cluster_unplaced_total", "Sessions for which no node of the cluster had room.", nil, counts, inCluster(func(c config.Cluster, to emitter) { to.counter(&c.Counts().Refused) })},
	{"troupe_cluster_unreached_total", "Attempts to reach another node for a client that have failed, or that the node has refused.", nil, counts,
		inCluster(func(c config.Cluster, to emitter) { to.counter(&c.Counts().Failed) })},

	{"troupe_build_info", "1, with the version of the server.", []string{"version"}, gauge, func(e *env.Env, to emitter) { to.value(1, strings.ToValidUTF8(e.Version, "?")) }},
	{"troupe_server_number", "How many servers there were under this holder, with this one; 0: there is no holder.", nil, gauge, now(func(e *env.Env) int64 { return int64(holderOf(e).Servers) })},
	{"troupe_server_gap_seconds", "How long nobody served before this server; 0: it is the first.", nil, gauge, func(e *env.Env, to emitter) {
		gap := 0.0
		if r := holderOf(e).Replaced; r != nil {
			gap = float64(r.GapMs) / 1000
		}
		to.value(gap)
	}},

	{"exec_server_processes_active", "As exec-server: programs of processes that run now.", nil, gauge,
		now(func(e *env.Env) int64 { return e.Meters.Processes.In(string(protocol.StateRunning)) })},
	{"exec_server_processes_finished_total", "As exec-server: troupe_runs_finished_total.", []string{"result"}, counts,
		func(e *env.Env, to emitter) { to.family(&e.Meters.Finished, results...) }},
}

// inCluster reads what a node of a cluster has; a server that is alone has no such series.
func inCluster(read func(config.Cluster, emitter)) func(*env.Env, emitter) {
	return func(e *env.Env, to emitter) {
		if e.Cluster != nil {
			read(e.Cluster, to)
		}
	}
}

// refusals are the labels of troupe_connections_refused_total.
var refusals = []string{"credential", "limit", "origin", "tls"}

func holderOf(e *env.Env) (info protocol.HolderInfo) {
	if e.AboutHolder != nil {
		info, _ = e.AboutHolder()
	}
	return info
}

// Metrics returns what the troupe counts, for a registry of Prometheus. Names and meanings: docs/METRICS.md.
func (t *Troupe) Metrics() prometheus.Collector { return collector{t.env} }

// CountRefused counts a connection that a transport has refused: for credential, limit, origin or tls.
func (t *Troupe) CountRefused(why string) { t.env.Meters.Refused.Add(why, 1) }

type collector struct{ env *env.Env }

// descs returns the description of each row of metrics.
var descs = sync.OnceValue(func() (all []*prometheus.Desc) {
	for i := range metrics {
		all = append(all, prometheus.NewDesc(metrics[i].name, metrics[i].help, metrics[i].labels, nil))
	}
	return all
})

// Describe implements prometheus.Collector.
func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range descs() {
		to <- d
	}
}

// Collect implements prometheus.Collector.
func (c collector) Collect(to chan<- prometheus.Metric) {
	for i, desc := range descs() {
		metrics[i].read(c.env, emitter{desc, metrics[i].kind, to})
	}
}
