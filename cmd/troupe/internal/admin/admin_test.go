//go:build unix

package admin

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"go.uber.org/goleak"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/internal/loglevel"
	"github.com/b6f6fdd7/troupe/tests/support/slots"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"github.com/b6f6fdd7/troupe/transport"
)

func TestMain(m *testing.M) {
	slots.Widen()
	goleak.VerifyTestMain(testleak.Patient(m))
}

// operated starts a troupe with its admin socket.
func operated(t *testing.T, c actors.Config) (*Server, *Client) {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	c.Log = log
	system := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return log }),
		actor.WithDeadLetterThrottleInterval(10*time.Millisecond)) // its goroutine lives as long
	troupe, err := actors.Start(system, c)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{Troupe: troupe, Levels: new(loglevel.Levels), Stops: func() bool { return false }, Reload: func() (Reloading, error) { return Reloading{Text: "reads"}, nil }, Log: log}
	path := filepath.Join(t.TempDir(), "admin.sock")
	l, err := transport.ListenUnix(path)
	if err != nil {
		t.Fatal(err)
	}
	closed := Serve(l, s.Handler(), true, log)
	t.Cleanup(func() {
		closed()
		troupe.Kill()
		system.Shutdown()
	})
	return s, New(path)
}

// status asks a handler, and returns the status and the body of the answer.
func status(h http.Handler, method, path, body string) (int, string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(body)))
	return w.Code, w.Body.String()
}

func TestOperate(t *testing.T) {
	s, c := operated(t, actors.Config{Version: "v7"})
	ctx := t.Context()
	if err := c.Health(ctx); err != nil {
		t.Error(err)
	}
	if r, err := c.Ready(ctx); err != nil || !r.Ready || len(r.Reasons) != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if info, err := c.Info(ctx); err != nil || info.Server.Version != "v7" {
		t.Errorf("%+v, %v", info, err)
	}
	if all, err := c.Actors(ctx); err != nil || len(all) != 5 || all[0].Name != "troupe" {
		t.Errorf("%+v, %v", all, err)
	}
	if levels, err := c.Levels(ctx, "warn,session=debug"); err != nil || levels != "warn,session=debug" || s.Levels.String() != levels {
		t.Errorf("levels %q, %v", levels, err)
	}
	if _, err := c.Levels(ctx, "loud"); err == nil || !strings.Contains(err.Error(), `"loud"`) || s.Levels.String() != "warn,session=debug" {
		t.Errorf("levels %q, %v", s.Levels, err)
	}
	if text, err := c.Reload(ctx); err != nil || text != (Reloading{Text: "reads"}) {
		t.Errorf("%q, %v", text, err)
	}
	answer, err := c.Do(ctx, "GET", PathMetrics, "")
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Close()
	if text, err := io.ReadAll(answer); err != nil || !strings.Contains(string(text), "\ntroupe_build_info{version=\"v7\"} 1\n") || !strings.Contains(string(text), "\ngo_goroutines ") {
		t.Errorf("%v: %s", err, text)
	}
	if stacks, err := c.text(ctx, "GET", PathProfile+"goroutine?debug=2", ""); err != nil || !strings.Contains(stacks, "goroutine ") {
		t.Errorf("%v: %s", err, stacks)
	}
}

// A server is ready while it takes sessions, and a drain takes it out until the drain is taken back.
func TestReadiness(t *testing.T) {
	s, c := operated(t, actors.Config{MaxSessions: 1})
	ctx := t.Context()
	notReady := func(want string) {
		t.Helper()
		if r, err := c.Ready(ctx); err != nil || r.Ready || len(r.Reasons) != 1 || !strings.Contains(r.Reasons[0], want) {
			t.Errorf("%+v, %v; want %q", r, err, want)
		}
	}
	before := time.Now()
	if d, err := c.Drain(ctx, time.Hour); err != nil || d.Until == nil || d.Until.Before(before.Add(time.Hour)) || d.Until.After(time.Now().Add(time.Hour)) {
		t.Errorf("%+v, %v", d, err)
	}
	notReady("drained until")
	select {
	case <-s.Troupe.Left():
	case <-time.After(time.Minute):
		t.Error("a server without a session has not left")
	}
	if d, err := c.Stay(ctx); err != nil || d.Until != nil {
		t.Errorf("%+v, %v", d, err)
	}
	if d, err := c.Drained(ctx); err != nil || d.Until != nil {
		t.Errorf("%+v, %v", d, err)
	}
	ours, theirs := transport.Pipe("")
	s.Troupe.Accept(theirs, theirs.About())
	defer ours.Close(transport.CloseNormal, "")
	ours.WriteMessage([]byte(`{"id":1,"method":"initialize","params":{"clientName":"t"}}`), false)
	if _, err := ours.ReadMessage(); err != nil {
		t.Fatal(err)
	}
	notReady("there are 1 sessions, and max-sessions is 1")
	s.Stops = func() bool { return true }
	if code, text := status(s.Handler(), "GET", PathReady, ""); code != 503 || !strings.Contains(text, "shuts down") {
		t.Errorf("%d: %s", code, text)
	}
}

// The address for Prometheus changes nothing, and reveals no memory.
func TestPublic(t *testing.T) {
	s, _ := operated(t, actors.Config{})
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", PathHealth, 200}, {"HEAD", PathHealth, 200}, {"GET", PathReady, 200}, {"GET", PathMetrics, 200},
		{"GET", PathInfo, 404}, {"GET", PathActors, 404}, {"GET", PathLog, 404}, {"PUT", PathLog, 404}, {"POST", PathReload, 404}, {"POST", PathDrain + "?for=1s", 404},
		{"DELETE", PathDrain, 404}, {"GET", PathProfile, 404}, {"GET", PathProfile + "heap", 404}, {"GET", "/", 404}, {"POST", PathMetrics, 405},
	} {
		if code, text := status(s.Public(), c.method, c.path, ""); code != c.want {
			t.Errorf("%s %s: %d %s, want %d", c.method, c.path, code, text, c.want)
		}
	}
}

func TestWrongRequests(t *testing.T) {
	s, _ := operated(t, actors.Config{})
	for _, c := range []struct {
		method, path, body string
		want               int
		says               string
	}{
		{"POST", PathDrain, "", 400, "for=10m"}, {"POST", PathDrain + "?for=-1s", "", 400, "between"}, {"POST", PathDrain + "?for=soon", "", 400, "soon"},
		{"POST", PathDrain + "?for=99999h", "", 400, "between"},
		{"PUT", PathLog, "", 400, "level"}, {"PUT", PathLog, strings.Repeat("x", maxBody+1), 400, "too large"}, {"GET", PathReload, "", 405, ""}, {"GET", "/nothing", "", 404, ""},
	} {
		if code, text := status(s.Handler(), c.method, c.path, c.body); code != c.want || !strings.Contains(text, c.says) {
			t.Errorf("%s %s: %d %s, want %d %q", c.method, c.path, code, text, c.want, c.says)
		}
	}
	if until := s.Troupe.Drained(); !until.IsZero() {
		t.Errorf("a wrong request drains the server until %v", until)
	}
}

// While a round trip hangs, further ones wait for the same: there is never a second.
func TestProbe(t *testing.T) {
	var p probe
	begun, end := make(chan struct{}, 10), make(chan struct{})
	hangs := func() { begun <- struct{}{}; <-end }
	for range 3 {
		if p.passes(context.Background(), hangs, time.Millisecond) {
			t.Error("passes while it hangs")
		}
	}
	<-begun
	if len(begun) > 0 {
		t.Error("a second round trip while one hangs")
	}
	close(end)
	for range 2 { // the first may be the one that has hung
		if !p.passes(context.Background(), hangs, time.Minute) {
			t.Error("does not pass")
		}
	}
}

func TestMetricsAddress(t *testing.T) {
	for url, ok := range map[string]bool{
		"http://127.0.0.1:0": true, "http://[::1]:7767": true, "http://127.0.0.1:7767/metrics": true,
		"127.0.0.1:1": false, "https://127.0.0.1:1": false, "http://localhost:1": false, "http://127.0.0.1": false, "http://127.0.0.1:1/x": false, "": false,
	} {
		if _, err := MetricsAddress(url); (err == nil) != ok {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// A request whose client has given up is not done: a server that was stopped would else be drained when nobody waits for that any more.
func TestTooLate(t *testing.T) {
	s, c := operated(t, actors.Config{})
	r := httptest.NewRequest("POST", PathDrain+"?for=1h", nil)
	r.Header.Set(Deadline, time.Now().Add(-time.Second).Format(time.RFC3339Nano))
	w := httptest.NewRecorder()
	if s.Handler().ServeHTTP(w, r); w.Code != http.StatusRequestTimeout || !s.Troupe.Drained().IsZero() {
		t.Errorf("%d %s, drained until %v", w.Code, w.Body, s.Troupe.Drained())
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if _, err := c.Drain(ctx, time.Hour); err != nil || s.Troupe.Drained().IsZero() {
		t.Errorf("in time: %v", err)
	}
}
