package tests

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
)

// A probe of readiness is tried until it succeeds: a command, and a request.
func TestReadyProbe(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(knowing)
	flag := filepath.Join(t.TempDir(), "up")
	var status atomic.Int32
	status.Store(http.StatusServiceUnavailable)
	asked := make(chan struct{}, 1000)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(int(status.Load()))
		select {
		case asked <- struct{}{}:
		default:
		}
	})}
	go server.Serve(l)
	defer server.Close()

	sleeper := func(id string, more obj) obj {
		return memberOf(id, obj{"argv": []string{"sleep", "1000"}, "ready": obj{"probe": more}})
	}
	c.call("group/start", groupOf("g", "one_for_one", 5,
		sleeper("command", obj{"argv": []string{"test", "-e", flag}, "everyMs": 20}),
		sleeper("request", obj{"http": "http://" + l.Addr().String() + "/health", "everyMs": 20})))
	for range 3 { // the request was refused more than once
		<-asked
	}
	c.awaitStand("g", "starting: command running 1 request running 1")
	if err := os.WriteFile(flag, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	c.awaitStand("g", "starting: command running 1 r request running 1")
	status.Store(http.StatusFound) // no redirect is followed
	c.awaitStand("g", "ready: command running 1 r request running 1 r")
}

// A request as a probe of liveness ends a process that does not answer. Nobody listens at port 1.
func TestLivenessByRequest(t *testing.T) {
	t.Parallel()
	c := startServer(t).session(knowing)
	c.call("process/start", startParams("p", obj{"argv": []string{"sleep", "1000"}, "killGraceMs": 0,
		"liveness": obj{"probe": obj{"http": "http://127.0.0.1:1", "delayMs": 0, "everyMs": 10, "failures": 2}}}))
	if st := c.call("process/wait", obj{"processId": "p"})["status"].(obj); st["reason"] == nil || st["reason"].(string)[:25] != "its probe failed 2 times:" {
		t.Errorf("the process has ended with %s", jsonText(st))
	}
}
