//go:build unix

// Package admin answers those who operate a server: over HTTP on a unix socket, and without what changes or reveals anything on an address for Prometheus.
// docs/OPERATIONS.md has all paths.
//
// Metrics are in internal/meters, and get their names in actors/metrics.go; levels of the log are in internal/loglevel; a drain is in
// actors/registry/leave.go; the list of actors is in actors/internal/env/tree.go.
package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/common/expfmt"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/internal/loglevel"
)

// Server is the server that is operated. All fields are set.
type Server struct {
	Troupe *actors.Troupe
	Levels *loglevel.Levels
	// Stops reports whether the server shuts down. Any goroutine may call Stops.
	Stops func() bool
	// Reload reads the settings again, or has the holder start another server. Any goroutine may call Reload.
	Reload func() (Reloading, error)
	Log    *slog.Logger
	// Self tells which server this is.
	Self Self
	// Notes are what operators should know besides.
	Notes []string

	probe probe
}

// Reloading is the answer to PathReload.
type Reloading struct {
	Text string `json:"text"` // what happens
	// Wrong is what this server finds wrong with the settings of now; "": nothing. A new binary may find something else.
	Wrong string `json:"wrong,omitempty"`
}

// Self is the answer to PathSelf.
type Self struct {
	URL     string `json:"url"`
	PID     int    `json:"pid"` // of the holder, if there is one
	Version string `json:"version"`
}

// Paths of the administration. The first three are also on the address for Prometheus.
const (
	PathHealth  = "/healthz"
	PathReady   = "/readyz"
	PathMetrics = "/metrics"
	PathSelf    = "/self"
	PathInfo    = "/info"
	PathActors  = "/actors"
	PathLog     = "/log"
	PathReload  = "/-/reload"
	PathDrain   = "/-/drain"
	PathProfile = "/debug/pprof/"
)

const (
	// healthTime is how long the actors may take for a round trip.
	healthTime = 10 * time.Second
	// headerTime is how long a client may take for the head of a request, and idleTime for the next request. A client of the address for Prometheus has
	// answerTime for reading its answer.
	headerTime, idleTime, answerTime = 10 * time.Second, time.Minute, time.Minute
	// maxConnections is how many clients an address has at a time; further ones wait.
	maxConnections = 64
	// maxBody bounds the body of a request, in bytes.
	maxBody = 4 << 10
)

// Handler answers everything.
func (s *Server) Handler() http.Handler {
	m := s.mux()
	m.HandleFunc("GET "+PathSelf, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.Self) })
	m.HandleFunc("GET "+PathInfo, func(w http.ResponseWriter, _ *http.Request) { answer(w, http.StatusOK, s.Troupe.Info()) })
	m.HandleFunc("GET "+PathActors, func(w http.ResponseWriter, r *http.Request) { answer(w, http.StatusOK, s.Troupe.Actors(r.Context())) })
	m.HandleFunc("GET "+PathLog, s.levels)
	m.HandleFunc("PUT "+PathLog, s.setLevels)
	m.HandleFunc("POST "+PathReload, s.reload)
	m.HandleFunc("GET "+PathDrain, s.drained)
	m.HandleFunc("POST "+PathDrain, s.drain)
	m.HandleFunc("DELETE "+PathDrain, s.stay)
	m.HandleFunc("GET "+PathProfile, pprof.Index)
	m.HandleFunc("GET "+PathProfile+"profile", pprof.Profile)
	m.HandleFunc("GET "+PathProfile+"trace", pprof.Trace)
	return inTime(m)
}

// Deadline is the header with the time after which a request is not to be done any more: its client has given up. (RFC 3339)
const Deadline = "Troupe-Deadline"

// inTime refuses what comes too late, as it does when the server was stopped meanwhile.
func inTime(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if until, err := time.Parse(time.RFC3339Nano, r.Header.Get(Deadline)); err == nil && time.Now().After(until) {
			refuse(w, http.StatusRequestTimeout, errors.New("the request came too late, and nothing was done"))
			return
		}
		h.ServeHTTP(w, r)
	})
}

// Public answers what programs that watch ask: metrics, health and readiness.
func (s *Server) Public() http.Handler { return s.mux() }

func (s *Server) mux() *http.ServeMux {
	m := http.NewServeMux()
	m.HandleFunc("GET "+PathHealth, s.health)
	m.HandleFunc("GET "+PathReady, s.ready)
	m.Handle("GET "+PathMetrics, metrics(s.Troupe, s.Log))
	return m
}

// answer writes v as JSON.
func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.Encode(v) // an error is the client's, who has gone
}

// refuse writes an error in words.
func refuse(w http.ResponseWriter, status int, err error) { http.Error(w, err.Error(), status) }

// A probe makes round trips through the actors, one at a time: if they hang, further ones would hang, too.
type probe struct {
	mu      sync.Mutex
	pending chan struct{} // closed at the end of the round trip under way; nil: none is
}

// passes reports whether a round trip ends in time.
func (p *probe) passes(ctx context.Context, roundTrip func(), limit time.Duration) bool {
	p.mu.Lock()
	done := p.pending
	if done == nil {
		done = make(chan struct{})
		p.pending = done
		go func() {
			roundTrip()
			p.mu.Lock()
			defer p.mu.Unlock()
			p.pending = nil
			close(done)
		}()
	}
	p.mu.Unlock()
	select {
	case <-done:
		return true
	case <-time.After(limit):
	case <-ctx.Done():
	}
	return false
}

func (s *Server) health(w http.ResponseWriter, r *http.Request) {
	if !s.probe.passes(r.Context(), s.Troupe.RoundTrip, healthTime) {
		refuse(w, http.StatusServiceUnavailable, fmt.Errorf("the actors of the server do not answer within %v: %s lists who is silent, and %sgoroutine?debug=2 where they are", healthTime, PathActors, PathProfile))
		return
	}
	fmt.Fprintln(w, "healthy")
}

// Readiness is the answer to PathReady.
type Readiness struct {
	Ready   bool     `json:"ready"`   // the server takes new sessions
	Reasons []string `json:"reasons"` // why not
	Notes   []string `json:"notes"`   // what an operator should know all the same
}

// readiness says whether new clients are welcome.
func (s *Server) readiness(ctx context.Context) Readiness {
	info := s.Troupe.Info()
	r := Readiness{Reasons: []string{}, Notes: append(append([]string{}, info.Notes...), s.Notes...)}
	full := func(what, limit string, used, most int64) {
		if used >= most {
			r.Reasons = append(r.Reasons, fmt.Sprintf("there are %d %s, and %s is %d", used, what, limit, most))
		}
	}
	c := s.Troupe.Config()
	full("sessions", "max-sessions", info.Sessions, int64(c.MaxSessions))
	full("connections", "max-connections", info.Connections, int64(c.MaxConnections))
	if until := s.Troupe.Drained(); !until.IsZero() {
		r.Reasons = append(r.Reasons, "the server is drained until "+until.Format(time.RFC3339))
	}
	if s.Stops() {
		r.Reasons = append(r.Reasons, "the server shuts down")
	} else if !s.probe.passes(ctx, s.Troupe.RoundTrip, healthTime) {
		r.Reasons = append(r.Reasons, "the actors of the server do not answer")
	}
	if info.FileCallsHung > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d calls about files wait for the kernel: a filesystem does not answer", info.FileCallsHung))
	}
	r.Ready = len(r.Reasons) == 0
	return r
}

func (s *Server) ready(w http.ResponseWriter, r *http.Request) {
	state, status := s.readiness(r.Context()), http.StatusOK
	if !state.Ready {
		status = http.StatusServiceUnavailable
	}
	answer(w, status, state)
}

// metrics answers with the metrics of a troupe and of its process. Not promhttp, which brings a compression of 1 MB.
func metrics(t *actors.Troupe, log *slog.Logger) http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(t.Metrics(), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		families, err := r.Gather()
		if err != nil { // some are there
			log.Error("some metrics are missing", "err", err)
		}
		format := expfmt.NewFormat(expfmt.TypeTextPlain)
		w.Header().Set("Content-Type", string(format))
		e := expfmt.NewEncoder(w, format)
		for _, f := range families {
			if e.Encode(f) != nil {
				return // the client has gone
			}
		}
	})
}

func (s *Server) levels(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, s.Levels) }

func (s *Server) setLevels(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		err = s.Levels.Set(strings.TrimSpace(string(text)))
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, err)
		return
	}
	s.Log.Info("the levels of the log are others, until a reload or a restart", "levels", s.Levels.String())
	s.levels(w, r)
}

func (s *Server) reload(w http.ResponseWriter, _ *http.Request) {
	going, err := s.Reload()
	if err != nil {
		refuse(w, http.StatusUnprocessableEntity, err)
		return
	}
	answer(w, http.StatusAccepted, going)
}

// Drain is the answer to PathDrain.
type Drain struct {
	Until    *time.Time `json:"until"` // nil: the server is not drained
	Sessions int64      `json:"sessions"`
}

func (s *Server) drained(w http.ResponseWriter, _ *http.Request) {
	d := Drain{Sessions: s.Troupe.Info().Sessions}
	if until := s.Troupe.Drained(); !until.IsZero() {
		d.Until = &until
	}
	answer(w, http.StatusOK, d)
}

// MaxDrain is the longest time for a drain.
const MaxDrain = 365 * 24 * time.Hour

func (s *Server) drain(w http.ResponseWriter, r *http.Request) {
	lasts, err := time.ParseDuration(r.URL.Query().Get("for"))
	if err == nil && (lasts < 0 || lasts > MaxDrain) {
		err = fmt.Errorf("%v is not between 0 and %v", lasts, MaxDrain)
	}
	if err != nil {
		refuse(w, http.StatusBadRequest, fmt.Errorf("say how long the sessions may go on, such as %s?for=10m: %w", PathDrain, err))
		return
	}
	until := time.Now().Add(lasts)
	s.Log.Info("opens no session from now on, and ends with the last one that is there", "until", until.Format(time.RFC3339))
	s.leave(w, r, until)
}

func (s *Server) stay(w http.ResponseWriter, r *http.Request) {
	if s.Troupe.Drained().IsZero() {
		s.drained(w, r)
		return
	}
	s.Log.Info("opens sessions again")
	s.leave(w, r, time.Time{})
}

// leave has the troupe drained, and answers when the registry knows.
func (s *Server) leave(w http.ResponseWriter, r *http.Request, until time.Time) {
	s.Troupe.Drain(until)
	for range 2 { // one may have begun before
		if !s.probe.passes(r.Context(), s.Troupe.RoundTrip, healthTime) {
			refuse(w, http.StatusServiceUnavailable, errors.New("the actors of the server do not answer: ask again whether it is drained"))
			return
		}
	}
	s.drained(w, r)
}

// Serve serves h at l until close is called. lasts: an answer may take as long as it takes, as a profile does.
func Serve(l net.Listener, h http.Handler, lasts bool, log *slog.Logger) (close func() error) {
	server := &http.Server{Handler: h, ReadHeaderTimeout: headerTime, IdleTimeout: idleTime, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn), MaxHeaderBytes: 16 << 10}
	if !lasts {
		server.ReadTimeout, server.WriteTimeout = headerTime, answerTime
	}
	go func() {
		if err := server.Serve(&limited{l, make(chan struct{}, maxConnections)}); !errors.Is(err, http.ErrServerClosed) {
			log.Error("nobody can operate the server any more", "address", l.Addr().String(), "err", err)
		}
	}()
	return server.Close
}

// limited is a listener with a bounded number of connections.
type limited struct {
	net.Listener
	places chan struct{}
}

// Accept implements net.Listener.
func (l *limited) Accept() (net.Conn, error) {
	l.places <- struct{}{}
	c, err := l.Listener.Accept()
	if err != nil {
		<-l.places
		return nil, err
	}
	return &place{Conn: c, leave: sync.OnceFunc(func() { <-l.places })}, nil
}

// place is a connection that gives its place back.
type place struct {
	net.Conn
	leave func()
}

// Close implements net.Conn.
func (p *place) Close() error {
	defer p.leave()
	return p.Conn.Close()
}

// MetricsAddress returns the address to listen at for Prometheus, from http://IP:PORT, perhaps with PathMetrics.
func MetricsAddress(url string) (netip.AddrPort, error) {
	host, ok := strings.CutPrefix(url, "http://")
	at, err := netip.ParseAddrPort(strings.TrimSuffix(host, PathMetrics))
	if !ok || err != nil {
		return netip.AddrPort{}, fmt.Errorf("%q: write http://IP:PORT", url)
	}
	return at, nil
}

// ListenMetrics listens at a URL of MetricsAddress.
func ListenMetrics(url string) (net.Listener, error) {
	at, err := MetricsAddress(url)
	if err != nil {
		return nil, err
	}
	return net.Listen("tcp", at.String())
}
