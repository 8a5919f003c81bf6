package tests

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"
)

// startRemote starts the server that gets the requests of http/request.
func startRemote(t testing.TB, handler http.HandlerFunc) *httptest.Server {
	t.Helper()
	remote := httptest.NewServer(handler)
	t.Cleanup(remote.Close) // Close waits for the handlers
	return remote
}

// get returns the parameters of a GET.
func get(url, id string, more obj) obj {
	all := obj{"method": "GET", "url": url, "requestId": id}
	maps.Copy(all, more)
	return all
}

// streamed is get with a streamed body.
func streamed(url, id string) obj { return get(url, id, obj{"streamResponse": true}) }

// bodyOf waits for the last piece of a stream, checks the order, and returns its body and error.
func (c *conn) bodyOf(id string) (body []byte, failed any) {
	c.t.Helper()
	var pieces []obj
	c.awaitFact("the end of stream "+id, func() bool {
		if !slices.ContainsFunc(c.other, func(m obj) bool { return pieceOf(m, id, true) }) {
			return false
		}
		c.other = slices.DeleteFunc(c.other, func(m obj) bool {
			mine := pieceOf(m, id, false)
			if mine {
				pieces = append(pieces, m["params"].(obj))
			}
			return mine
		})
		return true
	})
	for i, p := range pieces {
		text, isText := p["deltaBase64"].(string)
		piece, err := base64.StdEncoding.DecodeString(text)
		done, last := p["done"] == true, i == len(pieces)-1
		var hasError bool
		failed, hasError = p["error"]
		if !isText || err != nil || num(p["seq"]) != int64(i+1) || done != last || done != (len(piece) == 0) || !hasError || failed != nil && !last {
			c.t.Errorf("piece %d of stream %s: %.200s", i+1, id, jsonText(p))
		}
		body = append(body, piece...)
	}
	return body, failed
}

// pieceOf reports whether m is a piece of the stream, or, with last, the last piece.
func pieceOf(m obj, id string, last bool) bool {
	p, _ := m["params"].(obj)
	return m["method"] == "http/request/bodyDelta" && p["requestId"] == id && (!last || p["done"] == true)
}

// TestHTTPRequest compares answers with the recorded answers of the peer (exec-server wire §8) to the
// letter, except the reason after the URL. Further rows test other parameters.
func TestHTTPRequest(t *testing.T) {
	t.Parallel()
	remote := startRemote(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Date"] = nil
		switch r.URL.Path {
		case "/a.txt":
			w.Header().Set("Content-Type", "text/plain")
			io.WriteString(w, "hello\n")
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			w.Header()["X-Two"] = []string{"1", "2"}
			w.WriteHeader(201)
			fmt.Fprintf(w, "%s %s %q %s %v", r.Method, r.Host, r.Header["X-A"], body, r.Header["User-Agent"])
		case "/sub":
			http.Redirect(w, r, "/a.txt", http.StatusMovedPermanently)
		case "/large":
			for range 33 {
				w.Write(make([]byte, mib))
			}
		case "/half":
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "half")
		case "/never":
			<-r.Context().Done()
		default:
			http.Error(w, "", 404)
		}
	})
	url := func(path string) string { return remote.URL + path }
	header := func(name, value string) []obj { return []obj{{"name": name, "value": value}} }
	const hello = `{"status":200,"headers":[{"name":"content-length","value":"6"},{"name":"content-type","value":"text/plain"}],"bodyBase64":"aGVsbG8K"}`
	s := startServer(t, "--allow-http")
	c := s.session(nil)
	if has := c.call("environment/info", nil)["capabilities"].(obj); has["httpRequest"] != true || has["httpHeaderEnvVars"] != true {
		t.Errorf("the capabilities are %v", has)
	}
	echo := b64(`POST me.example ["1" "2"] data []`)
	for _, q := range []struct {
		params obj
		want   string // see wantAnswer
	}{
		{get(url("/a.txt"), "q1", nil), hello},
		{get(url("/a.txt"), "q1", obj{"headers": nil, "bodyBase64": nil, "timeoutMs": nil, "redirectPolicy": nil, "streamResponse": nil, "bogus": 1}), hello},
		{get(url("/a.txt"), "", obj{"timeoutMs": 0}), hello},
		{get(url("/sub"), "q1", nil), hello},
		{get(url("/sub"), "q1", obj{"redirectPolicy": "follow"}), hello},
		{get(url("/sub"), "q5", obj{"redirectPolicy": "stop", "method": "HEAD"}), `~{"status":301,"bodyBase64":""}`},
		{get(url("/nothing"), "q1", nil), `~{"status":404}`},
		{get(url("/echo"), "q1", obj{"method": "POST", "bodyBase64": b64("data"), "headers": []obj{
			{"name": "x-a", "value": "1"}, {"name": "Host", "value": "me.example"}, {"name": "X-A", "value": "2"}}}),
			`{"status":201,"headers":[{"name":"content-length","value":"33"},{"name":"content-type","value":"text/plain; charset=utf-8"},{"name":"x-two","value":"1"},{"name":"x-two","value":"2"}],"bodyBase64":"` + echo + `"}`},
		{get("http://127.0.0.1:1/", "q3", nil), "~-32603 http/request failed: error sending request for url (http://127.0.0.1:1/): dial tcp 127.0.0.1:1: "},
		{streamed("http://127.0.0.1:1/", "q3"), "~-32603 http/request failed: error sending request for url (http://127.0.0.1:1/): "},
		{get("http://127.0.0.1:1/", "q3", obj{"method": "G ET"}), "-32602 http/request method is invalid: invalid HTTP method"},
		{get("ftp://127.0.0.1:1/", "q3", nil), "-32602 http/request only supports http and https URLs, got ftp"},
		{get("zzz", "q3", nil), "-32602 http/request url is invalid: relative URL without a base"},
		{obj{"method": "GET", "url": url("/none")}, "-32602 missing field `requestId`"},
		{obj{"method": "GET", "requestId": "q"}, "-32602 missing field `url`"},
		{obj{"url": "zzz", "requestId": "q"}, "-32602 missing field `method`"},
		{get(url("/a.txt"), strings.Repeat("x", 1025), nil), "-32602 requestId has 1025 bytes, the limit is 1024"},
		{get(url("/a.txt"), "q", obj{"redirectPolicy": "maybe"}), "-32602 unknown variant `maybe`, expected `follow` or `stop`"},
		{get(url("/a.txt"), "q", obj{"bodyBase64": "!"}), "-32602 Invalid symbol 33, offset 0."},
		{get(url("/a.txt"), "q", obj{"headers": header("a b", "")}), "-32602 http/request header name is invalid: invalid HTTP header name"},
		{get(url("/a.txt"), "q", obj{"headers": header("a", "\n")}), "-32602 http/request header value is invalid for a: failed to parse header value"},
		{get(url("/never"), "q", obj{"timeoutMs": 30}), "-32603 http/request failed: error sending request for url (" + url("/never") + "): it took more than the 30 ms of timeoutMs"},
		{get(url("/half"), "q", nil), "-32603 failed to read http/request response body: unexpected EOF"},
		{get(url("/large"), "q", nil), "-32600 http/request failed: the body of the response has more than 33554432 bytes, which is the most in one answer: ask for it with streamResponse"},
	} {
		wantAnswer(t, c, "http/request", q.params, q.want)
	}
	o := s.observe(c.sessionID, nil)
	if code, text := o.callError("http/request", get(url("/a.txt"), "q", nil)); code != -32011 {
		t.Errorf("an observer's request: %d %s, want -32011", code, text)
	}
}

// TestHTTPRequestIsOff without --allow-http.
func TestHTTPRequestIsOff(t *testing.T) {
	t.Parallel()
	remote := startRemote(t, func(http.ResponseWriter, *http.Request) { t.Error("a request was sent") })
	c := startServer(t).session(nil)
	if code, text := c.callError("http/request", get(remote.URL, "q", nil)); code != -32601 || !strings.Contains(text, "--allow-http") {
		t.Errorf("%d %s, want -32601 and how to allow it", code, text)
	}
	if has := c.call("environment/info", nil)["capabilities"].(obj); has["httpRequest"] != nil || has["httpHeaderEnvVars"] != nil {
		t.Errorf("the capabilities are %v", has)
	}
}

// TestHTTPStream: a large body comes whole, in pieces, in order and after the result.
func TestHTTPStream(t *testing.T) {
	t.Parallel()
	random := rand.NewChaCha8([32]byte{7})
	large := make([]byte, 2*mib)
	if underRace() {
		large = large[:mib]
	}
	random.Read(large)
	remote := startRemote(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/empty" {
			w.WriteHeader(204)
			return
		}
		w.Write(large)
	})
	s := startServer(t, "--allow-http")
	for _, packed := range []bool{false, true} {
		s.packed = packed
		c := s.session(nil)
		id := c.request("http/request", streamed(remote.URL, "q2"))
		c.awaitFact("a piece", func() bool { return len(c.other) > 0 })
		c.update(func() {
			if answer := c.takeReply(id); answer == nil {
				t.Error("a piece came before the result")
			} else if r := resultOf(answer); num(r["status"]) != 200 || r["bodyBase64"] != "" {
				t.Errorf("the result is %s", jsonText(answer))
			}
		})
		if body, failed := c.bodyOf("q2"); failed != nil || sha256.Sum256(body) != sha256.Sum256(large) {
			t.Errorf("msgpack %v: %d bytes came, error %v", packed, len(body), failed)
		}
		c.call("http/request", streamed(remote.URL+"/empty", "q2")) // the id is free again
		if body, failed := c.bodyOf("q2"); failed != nil || len(body) > 0 {
			t.Errorf("an empty body: %q, error %v", body, failed)
		}
		whole := c.call("http/request", get(remote.URL, "q2", nil))
		if body, err := base64.StdEncoding.DecodeString(whole["bodyBase64"].(string)); err != nil || sha256.Sum256(body) != sha256.Sum256(large) {
			t.Errorf("msgpack %v, buffered: %d bytes came, %v", packed, len(body), err)
		}
	}
}

// TestHTTPStreamEnds: the last piece of a stream has the reason for an early end. Until then the id is
// taken.
func TestHTTPStreamEnds(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	remote := startRemote(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "10")
		io.WriteString(w, "half")
		w.(http.Flusher).Flush()
		switch r.URL.Path {
		case "/never":
			<-r.Context().Done()
		case "/wait":
			<-release
			io.WriteString(w, "+whole")
		}
	})
	c := startServer(t, "--allow-http").session(nil)
	c.call("http/request", streamed(remote.URL+"/half", "half"))
	if body, failed := c.bodyOf("half"); string(body) != "half" || failed != "error reading the body of the response: unexpected EOF" {
		t.Errorf("a body that broke off: %q, error %v", body, failed)
	}
	params, begun := streamed(remote.URL+"/never", "late"), false
	for ms := 100; !begun; ms *= 4 { // until the header comes in time
		params["timeoutMs"] = ms
		if begun = resultOf(c.reply(c.request("http/request", params))) != nil; !begun {
			continue
		}
		want := fmt.Sprintf("it took more than the %d ms of timeoutMs", ms)
		body, failed := c.bodyOf("late")
		if text, _ := failed.(string); !strings.HasPrefix("half", string(body)) || !strings.HasSuffix(text, want) {
			t.Errorf("a body that took too long: %q, error %v, want %s", body, failed, want)
		}
	}

	c.call("http/request", streamed(remote.URL+"/wait", "x"))
	wantAnswer(t, c, "http/request", streamed(remote.URL+"/half", "x"), "-32602 http/request streamResponse requestId `x` is already active")
	wantAnswer(t, c, "http/request", get(remote.URL+"/nothing", "x", obj{"method": "HEAD"}), `~{"status":200}`) // no stream
	c.call("http/request", streamed(remote.URL+"/half", "y"))
	close(release)
	if body, failed := c.bodyOf("x"); string(body) != "half+whole" || failed != nil {
		t.Errorf("%q, error %v", body, failed)
	}
	c.bodyOf("y")
	c.call("http/request", streamed(remote.URL+"/half", "x"))
	c.bodyOf("x")
}

// TestHTTPEndsWithItsConnection: when the connection ends, its requests and streams end, and the other
// side notices. A connection that loses its session gets this notification last.
func TestHTTPEndsWithItsConnection(t *testing.T) {
	t.Parallel()
	var under, gone atomic.Int64
	remote := startRemote(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/silent" {
			w.(http.Flusher).Flush()
		}
		under.Add(1)
		for r.URL.Path == "/flood" {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				break
			}
		}
		<-r.Context().Done()
		gone.Add(1)
	})
	s := startServer(t, "--allow-http")
	c := s.session(nil)
	c.request("http/request", get(remote.URL+"/silent", "a", nil))
	c.request("http/request", get(remote.URL, "b", nil))
	c.request("http/request", streamed(remote.URL, "c"))
	eventually(t, "three requests arrive", func() bool { return under.Load() == 3 })
	c.cutRST()
	eventually(t, "the requests of a connection that is gone are cancelled", func() bool { return gone.Load() == 3 })

	c = s.session(obj{"resumeSessionId": c.sessionID})
	c.request("http/request", get(remote.URL+"/silent", "a", nil))
	c.call("http/request", streamed(remote.URL+"/flood", "flood"))
	c.awaitFact("the stream flows", func() bool { return len(c.other) > 100 })
	eventually(t, "the other request arrives, too", func() bool { return under.Load() == 5 })
	s.session(obj{"resumeSessionId": c.sessionID, "takeover": true})
	if code, _ := c.awaitClose(); code != 4001 {
		t.Errorf("Close %d, want 4001", code)
	}
	if last := c.other[len(c.other)-1]["method"]; last != "session/evicted" {
		t.Errorf("the last message was %s, want session/evicted", last)
	}
	eventually(t, "the requests of a connection that lost its session are cancelled", func() bool { return gone.Load() == 5 })
}

// TestHTTPSlowClient: a client that does not read holds up only the remote server of its stream, not
// processes or other clients, and costs little memory. When the client reads on, answers and output
// come between the pieces.
func TestHTTPSlowClient(t *testing.T) {
	t.Parallel()
	const size = 64 * mib // sockets hold more than a quarter of it
	var sent atomic.Int64
	remote := startRemote(t, func(w http.ResponseWriter, r *http.Request) {
		for sent.Load() < size {
			if _, err := io.WriteString(w, patternPiece(sent.Load(), 64<<10)); err != nil {
				return
			}
			sent.Add(64 << 10)
		}
	})
	s := startServer(t, "--allow-http")
	other := newWitness(s)
	other.echo(t)
	before := s.rss()
	w := s.wire(t, nil)
	speaks(t, func() { w.ws.WriteControl(websocket.PongMessage, nil, time.Time{}) })
	w.call("http/request", streamed(remote.URL, "slow"))
	eventually(t, "the server of a stream that nobody reads stops writing", func() bool {
		n := sent.Load()
		for range 50 {
			other.echo(t)
		}
		return n > 0 && n == sent.Load()
	})
	stopped := sent.Load()
	if stopped > size/2 {
		t.Fatalf("it wrote %d of %d bytes that nobody read", stopped, size)
	}
	if grown, most := s.rss()-before, int64(32*mib); grown > most && !underRace() {
		t.Errorf("the server has grown by %d MiB", grown>>20)
	}
	file := filepath.Join(t.TempDir(), "begun")
	start := w.request("process/start", startParams("p", obj{"argv": sh("echo >" + file + "; echo hello")}))
	eventually(t, "a process is started meanwhile", func() bool { _, err := os.Stat(file); return err == nil })

	var check patternCheck
	var answered, closed int64 // number of bytes before
	w.until(func(f frame) bool {
		switch {
		case f.id == start:
			answered = check.n
		case f.method == "process/closed":
			closed = check.n
		case f.method == "http/request/bodyDelta":
			piece, end := w.piece(f.raw)
			if !check.feed(piece) || end != `"done":false,"error":null}}` && end != `"done":true,"error":null}}` {
				t.Fatalf("before byte %d, %s", check.n+int64(len(piece)), end)
			}
			return end == `"done":true,"error":null}}`
		}
		return false
	})
	if check.n != size {
		t.Errorf("%d bytes came, want %d", check.n, size)
	}
	t.Logf("it stopped after %d KiB; process/start was answered after %d KiB, and closed after %d KiB", stopped>>10, answered>>10, closed>>10)
	if answered == 0 || closed == 0 || closed > size/2 {
		t.Errorf("process/start was answered after %d bytes of the stream, and closed after %d", answered, closed)
	}
}

// piece returns the data of a bodyDelta, valid until the next call, and the raw text of its last two
// members.
func (w *wire) piece(raw []byte) (data []byte, end string) {
	w.t.Helper()
	_, rest, _ := bytes.Cut(raw, []byte(`"deltaBase64":"`))
	text, after, found := bytes.Cut(rest, []byte(`",`))
	if n := base64.StdEncoding.DecodedLen(len(text)); cap(w.chunk) < n {
		w.chunk = make([]byte, n)
	}
	n, err := base64.StdEncoding.Decode(w.chunk[:cap(w.chunk)], text)
	if err != nil || !found {
		w.t.Fatalf("%v: %.200s", err, raw)
	}
	return w.chunk[:n], string(after)
}

// patternPiece returns n bytes of the pattern from position at on.
func patternPiece(at int64, n int) string {
	from := int(at % int64(len(pattern)))
	return string(patterns[from : from+n])
}

// TestHTTPTakesTurns: a connection has sixteen requests in flight, including streams. Other requests
// wait in order, for a limited time.
func TestHTTPTakesTurns(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var arrived []string
	under, most := 0, 0
	gates := map[string]chan struct{}{"/other": make(chan struct{})}
	for i := range 20 {
		gates[fmt.Sprintf("/%d", i)] = make(chan struct{})
	}
	remote := startRemote(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		arrived = append(arrived, r.URL.Path)
		under++
		most = max(most, under)
		mu.Unlock()
		w.(http.Flusher).Flush()
		<-gates[r.URL.Path]
		mu.Lock()
		under--
		mu.Unlock()
	})
	count := func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(arrived)
	}
	s := startServer(t, "--allow-http")
	c := s.session(nil)
	ids := make(map[int]int64)
	for i := range 20 {
		params := get(fmt.Sprintf("%s/%d", remote.URL, i), fmt.Sprint(i), obj{"streamResponse": i%2 == 0})
		if i == 17 {
			params["timeoutMs"] = 50
		}
		ids[i] = c.request("http/request", params)
	}
	if e := errorOf(c.reply(ids[17])); num(e["code"]) != -32603 || e["message"] != "http/request failed: it took more than the 50 ms of timeoutMs, and 16 others of this connection were before it" {
		t.Errorf("a request without a turn: %s", jsonText(e))
	}
	eventually(t, "sixteen requests arrive", func() bool { return count() == 16 })
	for n, next := range []int{16, 18, 19} {
		close(gates[fmt.Sprintf("/%d", n)]) // a stream, a request, a stream
		eventually(t, "another request arrives", func() bool { return count() == 17+n })
		if got, want := arrived[16+n], fmt.Sprintf("/%d", next); got != want {
			t.Errorf("%s was next, want %s", got, want)
		}
	}
	// Another connection has its own places.
	close(gates["/other"])
	s.session(nil).call("http/request", get(remote.URL+"/other", "", nil))
	for i := 3; i < 20; i++ {
		close(gates[fmt.Sprintf("/%d", i)])
	}
	for i := range 20 {
		if i == 17 {
			continue
		}
		if answer := c.reply(ids[i]); resultOf(answer) == nil {
			t.Errorf("request %d: %s", i, jsonText(answer))
		}
		if i%2 == 0 {
			c.bodyOf(fmt.Sprint(i))
		}
	}
	if most > 17 {
		t.Errorf("%d requests were under way", most)
	}
}

// TestHTTPLargeBodiesTakeTurns: a connection may hold a limited amount of bodies, so large bodies come
// one after the other.
func TestHTTPLargeBodiesTakeTurns(t *testing.T) {
	t.Parallel()
	const size = 2 * mib
	remote := startRemote(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		w.Write(make([]byte, size))
	})
	w := startServer(t, "--allow-http").wire(t, nil)
	speaks(t, func() { w.ws.WriteControl(websocket.PongMessage, nil, time.Time{}) })
	due := make(map[int]bool)
	for i := range 10 {
		due[w.request("http/request", get(remote.URL, fmt.Sprint(i), nil))] = true
	}
	w.until(func(f frame) bool {
		if due[f.id] && (f.failed || len(f.raw) < size) {
			t.Errorf("%.300s", f.raw)
		}
		delete(due, f.id)
		return len(due) == 0
	})
}

// TestHTTPUploadsAreNotPending: while a remote server is slow with an upload, the client's connection
// goes on. Uploads over the limit are refused.
func TestHTTPUploadsAreNotPending(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	remote := startRemote(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		<-release
	})
	c := startServer(t, "--allow-http").session(nil)
	post := func(n int) int64 {
		return c.request("http/request", get(remote.URL, "", obj{"method": "POST", "bodyBase64": base64.StdEncoding.EncodeToString(make([]byte, n))}))
	}
	ids := []int64{post(8 * mib), post(8 * mib), post(8 * mib)} // 32 MiB of frames; 16 MiB may be pending
	if resultOf(c.reply(c.request("session/info", obj{}))) == nil {
		t.Error("no answer to what comes behind")
	}
	ids = append(ids, post(8*mib), post(8*mib))
	wantAnswer(t, c, "http/request", get(remote.URL, "", obj{"method": "POST", "bodyBase64": base64.StdEncoding.EncodeToString(make([]byte, 8*mib))}), "~-32603 http/request failed: requests of this connection with ")
	close(release)
	for _, id := range ids {
		if m := c.reply(id); resultOf(m) == nil {
			t.Errorf("%.200s", jsonText(m))
		}
	}
}

// TestHTTPIsBounded: all connections together have at most 1,024 requests in flight. The next request
// is refused at once, and the end of a request makes room.
func TestHTTPIsBounded(t *testing.T) {
	t.Parallel()
	var under atomic.Int64
	remote := startRemote(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/now" {
			return
		}
		under.Add(1)
		<-r.Context().Done()
		under.Add(-1)
	})
	s := startServer(t, "--allow-http")
	var conns []*conn
	for range 64 {
		c := s.session(nil)
		conns = append(conns, c)
		for range 16 {
			c.request("http/request", get(remote.URL, "", nil))
		}
	}
	eventually(t, "1,024 requests arrive", func() bool { return under.Load() == 1024 })
	c := s.session(nil)
	wantAnswer(t, c, "http/request", get(remote.URL+"/now", "", nil), "-32603 http/request failed: 1024 requests are under way, which is the most: try again later")
	wantAnswer(t, c, "http/request", streamed(remote.URL+"/now", ""), "-32603 http/request failed: 1024 requests are under way, which is the most: try again later")
	conns[0].cutRST()
	eventually(t, "there is room again", func() bool {
		return resultOf(c.reply(c.request("http/request", streamed(remote.URL+"/now", "")))) != nil
	})
	c.bodyOf("")
	for _, c := range conns {
		c.hangUp()
	}
}

// TestHTTPOverStdio: requests sent before the end of the input get whole answers, also streams.
func TestHTTPOverStdio(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	remote := startRemote(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush()
		<-release
		io.WriteString(w, "hello")
	})
	p, toServer, c := startStdioFraming(t, []string{"--allow-http", "--verbose"}, func(r io.Reader, w io.Writer) *conn { return dialLines(t, r, w) })
	c.call("initialize", obj{"clientName": "stdio"})
	c.notify("initialized", obj{})
	id := c.request("http/request", get(remote.URL, "a", nil))
	c.call("http/request", streamed(remote.URL, "b"))
	toServer.Close()
	if !p.stderr.await(factTimeout, func() bool { return strings.Contains(string(p.stderr.data), "connection ended") }) {
		t.Fatal("the server has not noticed the end of its input")
	}
	close(release)
	if answer := c.reply(id); resultOf(answer)["bodyBase64"] != b64("hello") {
		t.Errorf("%s", jsonText(answer))
	}
	if body, failed := c.bodyOf("b"); string(body) != "hello" || failed != nil {
		t.Errorf("%q, error %v", body, failed)
	}
	if code := p.exitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}
