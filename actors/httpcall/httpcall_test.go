package httpcall

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"
	"weak"

	"go.uber.org/goleak"
	"golang.org/x/sync/semaphore"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// limit is the longest wait of a test for a fact.
const limit = 60 * time.Second

type params = protocol.HTTPRequestParams

func newClient(t *testing.T) *Client {
	c := NewClient()
	t.Cleanup(c.CloseIdle)
	return c
}

func serve(t *testing.T, handler http.HandlerFunc) *httptest.Server {
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	return s
}

// do sends p. Without a method in p the method is GET.
func do(ctx context.Context, c *Client, p params) (*Response, error) {
	if p.Method == "" {
		p.Method = "GET"
	}
	r, err := NewRequest(p)
	if err != nil {
		return nil, err
	}
	return c.Do(ctx, r)
}

// whole is all of the response: its fields a line each, and its body.
func whole(t *testing.T, c *Client, p params) (status int, fields, body string) {
	t.Helper()
	r, err := do(t.Context(), c, p)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	b, _, err := r.Whole(open{semaphore.NewWeighted(MaxBody)})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range r.Headers {
		fields += h.Name + ": " + h.Value + "\n"
	}
	return r.Status, fields, string(b)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// TestSends compares the request that arrives with each byte expected, except for the order of the fields.
func TestSends(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	got := make(chan string, 1)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			var text strings.Builder
			in := bufio.NewReader(conn)
			for line := ""; line != "\r\n"; {
				if line, err = in.ReadString('\n'); err != nil {
					break
				}
				text.WriteString(line)
			}
			_, length, _ := strings.Cut(text.String(), "Content-Length: ")
			var n int
			fmt.Sscan(length, &n)
			body := make([]byte, n)
			io.ReadFull(in, body)
			got <- text.String() + string(body)
			io.WriteString(conn, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n")
			conn.Close()
		}
	}()
	c := newClient(t)
	addr := listener.Addr().String()
	for _, q := range []struct {
		p    params
		want string
	}{
		{params{Method: "GET", URL: "http://" + addr + "/a%2Fb?x=y&z"}, "GET /a%2Fb?x=y&z HTTP/1.1\r\nHost: ADDR\r\n\r\n"},
		{params{Method: "GET", URL: "http://" + addr + "/?a b=\"é<>%20+'"}, "GET /?a%20b=%22%C3%A9%3C%3E%20+' HTTP/1.1\r\nHost: ADDR\r\n\r\n"},
		{params{Method: "Mine", URL: "HTTP://" + addr}, "Mine / HTTP/1.1\r\nHost: ADDR\r\n\r\n"},
		{params{Method: "DELETE", URL: "http://" + addr + "/#f", Headers: []protocol.HTTPRequestHeader{
			{Name: "x-a", Value: new("1")}, {Name: "host", Value: new("other.example")}, {Name: "X-A", Value: new("é")}, {Name: "user-agent", Value: new("me")}}},
			"DELETE / HTTP/1.1\r\nHost: other.example\r\nUser-Agent: me\r\nX-A: 1\r\nX-A: é\r\n\r\n"},
		{params{Method: "POST", URL: "http://me:secret@" + addr, Body: []byte("hello"), Headers: []protocol.HTTPRequestHeader{
			{Name: "content-length", Value: new("3")}, {Name: "transfer-encoding", Value: new("chunked")}}},
			"POST / HTTP/1.1\r\nHost: ADDR\r\nContent-Length: 5\r\nAuthorization: Basic bWU6c2VjcmV0\r\n\r\nhello"},
		{params{Method: "GET", URL: "http://me:secret@" + addr, RedirectPolicy: protocol.HTTPStop}, "GET / HTTP/1.1\r\nHost: ADDR\r\nAuthorization: Basic bWU6c2VjcmV0\r\n\r\n"},
		{params{Method: "POST", URL: "http://" + addr}, "POST / HTTP/1.1\r\nHost: ADDR\r\nContent-Length: 0\r\n\r\n"},
	} {
		if status, _, body := whole(t, c, q.p); status != 204 || body != "" {
			t.Errorf("status %d, body %q", status, body)
		}
		if text, want := <-got, strings.ReplaceAll(q.want, "ADDR", addr); text != want {
			t.Errorf("%s %s arrived as %q, want %q", q.p.Method, q.p.URL, text, want)
		}
	}
}

// TestReceives: the body is as the header says, and several fields of a name stay.
func TestReceives(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	z.Write([]byte("hello"))
	z.Close()
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h["Date"] = nil
		h["Content-Encoding"], h["Content-Type"] = []string{"gzip"}, []string{"a/b"}
		h["X-Two"] = []string{"b", "a"}
		h["X-Old"] = []string{"caf\xe9"}
		w.WriteHeader(418)
		w.Write(packed.Bytes())
	})
	status, fields, body := whole(t, newClient(t), params{URL: s.URL})
	want := fmt.Sprintf("content-encoding: gzip\ncontent-length: %d\ncontent-type: a/b\nx-old: café\nx-two: b\nx-two: a\n", packed.Len())
	if status != 418 || fields != want || body != packed.String() {
		t.Errorf("%d\n%s%q\nwant\n%s%q", status, fields, body, want, packed.String())
	}
	if _, fields, body := whole(t, newClient(t), params{Method: "HEAD", URL: s.URL}); !strings.Contains(fields, "content-encoding: gzip\n") || body != "" {
		t.Errorf("HEAD: %s, body %q", fields, body)
	}
}

func TestRefuses(t *testing.T) {
	for _, q := range []struct {
		p    params
		want string
	}{
		{params{Method: "G ET", URL: "http://h/"}, "http/request method is invalid: invalid HTTP method"},
		{params{Method: "", URL: "http://h/"}, "http/request method is invalid: invalid HTTP method"},
		{params{Method: "CONNECT", URL: "http://h/"}, "http/request method is invalid: CONNECT would make a tunnel, which nobody could use"},
		{params{Method: "GET", URL: "ftp://h/"}, "http/request only supports http and https URLs, got ftp"},
		{params{Method: "GET", URL: "localhost:80/"}, "http/request only supports http and https URLs, got localhost"},
		{params{Method: "GET", URL: "zzz"}, "http/request url is invalid: relative URL without a base"},
		{params{Method: "GET", URL: ""}, "http/request url is invalid: relative URL without a base"},
		{params{Method: "GET", URL: "http:///x"}, "http/request url is invalid: empty host"},
		{params{Method: "GET", URL: "http://:80"}, "http/request url is invalid: empty host"},
		{params{Method: "GET", URL: "http://h:x/"}, `http/request url is invalid: invalid port ":x" after host`},
		{params{Method: "GET", URL: "http://h/" + strings.Repeat("x", 1<<16)}, "http/request url is invalid: it has 65545 bytes, the limit is 65536"},
		{params{Method: "GET", URL: "http://h/", Headers: []protocol.HTTPRequestHeader{{Name: "a b"}}}, "http/request header name is invalid: invalid HTTP header name"},
		{params{Method: "GET", URL: "http://h/", Headers: []protocol.HTTPRequestHeader{{Name: "a", Value: new("x\r\nb: c")}}}, "http/request header value is invalid for a: failed to parse header value"},
		{params{Method: "GET", URL: "http://h/", Headers: []protocol.HTTPRequestHeader{{Name: "a", Value: new(strings.Repeat("x", maxHeader))}}}, "http/request headers have more than 1048576 bytes, which is the most"},
	} {
		_, err := NewRequest(q.p)
		if e, ok := errors.AsType[*protocol.Error](err); !ok || e.Code != protocol.CodeInvalidParams || e.Message != q.want {
			t.Errorf("%s %.100s: %v, want %s", q.p.Method, q.p.URL, err, q.want)
		}
	}
}

// redirects answers /n with a redirect to /n-1, and /0 with the request.
func redirects(t *testing.T, status int) *httptest.Server {
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		var n int
		fmt.Sscanf(r.URL.Path, "/%d", &n)
		body, _ := io.ReadAll(r.Body)
		if n == 0 {
			fmt.Fprintf(w, "%s %s", r.Method, body)
			return
		}
		w.Header().Set("Location", fmt.Sprintf("/%d", n-1))
		w.WriteHeader(status)
	})
}

func TestRedirects(t *testing.T) {
	c := newClient(t)
	post := params{Method: "POST", Body: []byte("data")}
	for _, q := range []struct {
		status int
		path   string
		policy protocol.HTTPRedirectPolicy
		want   string
	}{
		{303, "/1", "", "200 GET "},
		{307, "/2", protocol.HTTPFollow, "200 POST data"},
		{307, "/10", "", "200 POST data"},
		{307, "/1", protocol.HTTPStop, "307 "},
	} {
		p := post
		p.URL, p.RedirectPolicy = redirects(t, q.status).URL+q.path, q.policy
		status, _, body := whole(t, c, p)
		if got := fmt.Sprintf("%d %s", status, body); got != q.want {
			t.Errorf("%d, %s, %q: %s, want %s", q.status, q.path, q.policy, got, q.want)
		}
	}
	far := redirects(t, 307).URL
	post.URL = far + "/11"
	if _, err := do(t.Context(), c, post); err == nil || err.Error() != "error sending request for url ("+far+"/0): more than 10 redirects" {
		t.Errorf("11 redirects: %v", err)
	}
	elsewhere := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "file:///etc/passwd")
		w.WriteHeader(302)
	})
	if _, err := do(t.Context(), c, params{URL: elsewhere.URL}); err == nil || !strings.Contains(err.Error(), "url (file:///etc/passwd): unsupported protocol scheme") {
		t.Errorf("a redirect to a file: %v", err)
	}
}

// With HTTPStop a redirect is the response. Its Location may be no URL.
func TestRedirectToNowhere(t *testing.T) {
	for _, location := range []string{"/x%zz", "http://[bad", "http://h:port/"} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(302)
		})
		if status, fields, _ := whole(t, newClient(t), params{URL: s.URL, RedirectPolicy: protocol.HTTPStop}); status != 302 || !strings.Contains(fields, "location: "+location) {
			t.Errorf("%s: %d, %s", location, status, fields)
		}
	}
}

// A field may end with the value of a variable of the server, unless the variable is a secret. No error has
// the value of the variable.
func TestHeadersFromTheEnvironment(t *testing.T) {
	t.Setenv("FROM_ENV", "hush")
	t.Setenv("EMPTY", "")
	t.Setenv("LINES", "hush\n")
	t.Setenv("LATIN", "hush\xff")
	t.Setenv("LONG", strings.Repeat("hush", maxHeader/4))
	t.Setenv("AWS_SESSION_TOKEN", "hush")
	t.Setenv("TROUPE_TOKEN", "hush")
	s := serve(t, func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "%q", r.Header["A"]) })
	for _, tt := range []struct {
		value    *string
		variable string
		want     string // body of the response, or error
	}{
		{nil, "FROM_ENV", `["hush"]`},
		{new(""), "FROM_ENV", `["hush"]`},
		{new("Bearer "), "FROM_ENV", `["Bearer hush"]`},
		{nil, "MISSING", "http/request header a requires executor environment variable MISSING"},
		{new("x"), "MISSING", "http/request header a requires executor environment variable MISSING"},
		{nil, "from_env", "http/request header a requires executor environment variable from_env"},
		{nil, "FROM_ENV=hush", "http/request header a requires executor environment variable FROM_ENV=hush"},
		{nil, "", "http/request header a requires executor environment variable "},
		{nil, "LATIN", "http/request header a requires executor environment variable LATIN"},
		{new("x"), "EMPTY", "http/request header a requires a non-empty executor environment variable EMPTY"},
		{nil, "LINES", "http/request header value is invalid for a: failed to parse header value"},
		{nil, "LONG", "http/request headers have more than 1048576 bytes, which is the most"},
		{nil, "AWS_SESSION_TOKEN", "http/request header a cannot use executor environment variable AWS_SESSION_TOKEN"},
		{nil, "aws_session_token", "http/request header a cannot use executor environment variable aws_session_token"},
		{nil, "OPENAI_API_KEY", "http/request header a cannot use executor environment variable OPENAI_API_KEY"}, // not set
		{nil, "TROUPE_TOKEN", "http/request header a cannot use executor environment variable TROUPE_TOKEN"},
	} {
		p := params{Method: "GET", URL: s.URL, Headers: []protocol.HTTPRequestHeader{{Name: "a", Value: tt.value, ValueEnvVar: &tt.variable}}}
		_, err := NewRequest(p)
		refused, ok := errors.AsType[*protocol.Error](err)
		switch {
		case err == nil:
			if _, _, body := whole(t, newClient(t), p); body != tt.want {
				t.Errorf("%s: %s, want %s", tt.variable, body, tt.want)
			}
		case !ok || refused.Code != protocol.CodeInvalidParams || refused.Message != tt.want:
			t.Errorf("%s: %v, want %s", tt.variable, err, tt.want)
		case strings.Contains(string(refused.Data), "hush"):
			t.Errorf("%s: the data of the error is %s", tt.variable, refused.Data)
		}
	}
}

// Secrets go only to their origin: to no other port, and never without TLS.
func TestRedirectsKeepSecrets(t *testing.T) {
	t.Setenv("FROM_ENV", "d")
	tell := func(w http.ResponseWriter, r *http.Request) {
		if back := r.FormValue("back"); back != "" {
			http.Redirect(w, r, back, http.StatusFound)
			return
		}
		fmt.Fprint(w, r.Header["Authorization"], r.Header["Cookie"], r.Header["X-Other"], r.Header["X-Env"])
	}
	other := serve(t, tell)
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/same":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/other":
			http.Redirect(w, r, other.URL, http.StatusFound)
		case "/back":
			http.Redirect(w, r, other.URL+"?back=http://"+r.Host, http.StatusFound)
		default:
			tell(w, r)
		}
	})
	// /back is there and back again: the other server has chosen the path.
	for path, want := range map[string]string{"/same": "[a] [b] [c] [d]", "/other": "[] [] [c] []", "/back": "[] [] [c] []"} {
		_, _, body := whole(t, newClient(t), params{URL: s.URL + path, Headers: []protocol.HTTPRequestHeader{
			{Name: "authorization", Value: new("a")}, {Name: "cookie", Value: new("b")}, {Name: "x-other", Value: new("c")}, {Name: "x-env", ValueEnvVar: new("FROM_ENV")}}})
		if body != want {
			t.Errorf("%s: %s, want %s", path, body, want)
		}
	}
	for a, b := range map[string]string{"http://H/x": "http://h:80/y", "https://h": "https://h:443"} {
		u, _ := url.Parse(a)
		v, _ := url.Parse(b)
		if origin(u) != origin(v) {
			t.Errorf("%s and %s: %s, %s", a, b, origin(u), origin(v))
		}
	}
}

// Some responses have no body, whatever length the header gives.
func TestNoBody(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(2*MaxBody))
		if r.Method == "GET" {
			w.WriteHeader(304)
		}
	})
	for method, want := range map[string]int{"HEAD": 200, "GET": 304} {
		status, fields, body := whole(t, newClient(t), params{Method: method, URL: s.URL})
		if status != want || body != "" || method == "HEAD" && !strings.Contains(fields, "content-length: ") {
			t.Errorf("%s: %d, %s%q", method, status, fields, body)
		}
	}
}

// TestReasonOfEnd: whatever error net/http has when the context has ended, a read of the body says the reason.
func TestReasonOfEnd(t *testing.T) {
	why := errors.New("it is enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	r := &Response{ctx: ctx, body: io.NopCloser(iotest.ErrReader(context.Canceled))}
	if _, err := r.Read(make([]byte, 1)); !errors.Is(err, why) {
		t.Errorf("%v, want %v", err, why)
	}
}

// TestEnds: whatever ends the context ends the call, whether its header has come or not, with the
// reason; and the other side sees it.
func TestEnds(t *testing.T) {
	why := errors.New("it is enough")
	for i := range 4 {
		inBody, two := i/2 == 1, i%2 == 1 // HTTP/2
		begun, gone := make(chan struct{}), make(chan struct{})
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if inBody {
				w.(http.Flusher).Flush()
			}
			close(begun)
			<-r.Context().Done()
			close(gone)
		}))
		c := newClient(t)
		if two {
			s.EnableHTTP2 = true
			s.StartTLS()
			c.transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		} else {
			s.Start()
		}
		t.Cleanup(s.Close)
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-begun
			cancel(why)
		}()
		r, err := do(ctx, c, params{URL: s.URL})
		want := "error sending request for url (" + s.URL + "/): it is enough"
		if inBody && err == nil {
			_, _, err = r.Whole(open{semaphore.NewWeighted(MaxBody)})
			want = "error reading the body of the response: it is enough"
			r.Close()
		}
		if err == nil || err.Error() != want || !errors.Is(err, why) {
			t.Errorf("in the body %v, HTTP/2 %v: %v, want %s", inBody, two, err, want)
		}
		select {
		case <-gone:
		case <-time.After(limit):
			t.Errorf("in the body %v, HTTP/2 %v: the server has not noticed", inBody, two)
		}
	}
}

func TestFails(t *testing.T) {
	c := newClient(t)
	broken := serve(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/body":
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "half")
		case "/header":
			w.Header().Set("X", strings.Repeat("x", maxHeader))
		}
	})
	r, err := do(t.Context(), c, params{URL: broken.URL + "/body"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if body, _, err := r.Whole(open{semaphore.NewWeighted(MaxBody)}); err == nil || err.Error() != "error reading the body of the response: unexpected EOF" || body != nil {
		t.Errorf("half a body: %q, %v", body, err)
	}
	if _, err := do(t.Context(), c, params{URL: broken.URL + "/header"}); err == nil || !strings.Contains(err.Error(), "server response headers exceeded") {
		t.Errorf("a large header: %v", err)
	}
	const nobody = "http://127.0.0.1:1" // a port that was free a moment ago may be another test's
	if _, err := do(t.Context(), c, params{URL: nobody}); err == nil || !strings.HasPrefix(err.Error(), "error sending request for url ("+nobody+"/): dial tcp ") {
		t.Errorf("nobody there: %v", err)
	}
}

// TestWhole: a body of any size up to the bound comes whole, and takes room if it is not small.
func TestWhole(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var size int
		fmt.Sscanf(r.URL.Path, "/%d", &size)
		if r.URL.RawQuery == "known" {
			w.Header().Set("Content-Length", fmt.Sprint(size))
		} else {
			w.(http.Flusher).Flush()
		}
		for piece := make([]byte, 1<<16); size > 0; size -= len(piece) {
			if _, err := w.Write(piece[:min(size, len(piece))]); err != nil {
				return
			}
		}
	})
	c := newClient(t)
	for _, q := range []struct {
		size  int
		query string
		taken int64
		err   error
	}{
		{0, "known", 0, nil}, {0, "", 0, nil}, {smallBody / 2, "", 0, nil},
		{3 << 20, "known", 3 << 20, nil}, {3 << 20, "", MaxBody, nil},
		{MaxBody, "known", MaxBody, nil}, {MaxBody, "", MaxBody, nil},
		{MaxBody + 1, "known", 0, ErrTooLarge}, {MaxBody + 1, "", MaxBody, ErrTooLarge},
	} {
		r, err := do(t.Context(), c, params{URL: fmt.Sprintf("%s/%d?%s", s.URL, q.size, q.query)})
		if err != nil {
			t.Fatal(err)
		}
		body, taken, err := r.Whole(open{semaphore.NewWeighted(MaxBody)})
		r.Close()
		if want := q.size; err == nil && len(body) != want || taken != q.taken || !errors.Is(err, q.err) || err != nil && body != nil {
			t.Errorf("%+v: %d bytes, %d taken, %v", q, len(body), taken, err)
		}
	}

	// Without room Whole waits, at most until the end of its context.
	room := semaphore.NewWeighted(MaxBody)
	room.Acquire(t.Context(), 1)
	ctx, cancel := context.WithCancel(t.Context())
	r, err := do(ctx, c, params{URL: s.URL + "/3145728"})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ended := make(chan error)
	go func() {
		_, taken, err := r.Whole(open{room})
		if taken != 0 {
			err = fmt.Errorf("%d bytes were taken", taken)
		}
		ended <- err
	}()
	eventually(t, "it waits for room", func() bool { return !room.TryAcquire(1) || func() bool { room.Release(1); return false }() })
	cancel()
	if err := <-ended; err != context.Canceled {
		t.Errorf("it waited for room, and then %v", err)
	}
}

// TestLetsGo: a request whose response goes on holds its body no longer.
func TestLetsGo(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		w.(http.Flusher).Flush()
		<-r.Context().Done()
	})
	body := make([]byte, 1<<20)
	held := weak.Make(&body[0])
	request, err := NewRequest(params{Method: "POST", URL: s.URL, Body: body})
	if err != nil {
		t.Fatal(err)
	}
	body = nil
	r, err := newClient(t).Do(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	eventually(t, "the body that was sent is not held", func() bool {
		runtime.GC()
		return held.Value() == nil
	})
	runtime.KeepAlive(request)
}

// TestSwitchingProtocols: after the header no HTTP follows, and no client could use the stream.
func TestSwitchingProtocols(t *testing.T) {
	s := serve(t, func(w http.ResponseWriter, r *http.Request) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nmore")
		conn.Read(make([]byte, 1)) // until the other side closes
	})
	status, fields, body := whole(t, newClient(t), params{URL: s.URL, Headers: []protocol.HTTPRequestHeader{{Name: "Connection", Value: new("Upgrade")}, {Name: "Upgrade", Value: new("x")}}})
	if status != 101 || !strings.Contains(fields, "upgrade: x\n") || body != "" {
		t.Errorf("%d %s %q", status, fields, body)
	}
}

// TestHTTP2: an unread body stops its server soon, and no other request on the
// same connection.
func TestHTTP2(t *testing.T) {
	var written atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/other" {
			io.WriteString(w, r.Proto+" "+r.RemoteAddr)
			return
		}
		w.Header().Set("X-From", r.RemoteAddr)
		for piece := make([]byte, 1<<12); ; written.Add(int64(len(piece))) {
			if _, err := w.Write(piece); err != nil {
				return
			}
		}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	c := newClient(t)
	c.transport.TLSClientConfig = s.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	r, err := do(t.Context(), c, params{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	from := ""
	for _, h := range r.Headers {
		if h.Name == "x-from" {
			from = h.Value
		}
	}
	eventually(t, "the server stops writing", func() bool {
		before := written.Load()
		for range 50 {
			if _, _, body := whole(t, c, params{URL: s.URL + "/other"}); body != "HTTP/2.0 "+from {
				t.Fatalf("another request was answered by %q, want over HTTP/2.0 from %s", body, from)
			}
		}
		return before > 0 && before == written.Load()
	})
	if n := written.Load(); n > 2*streamWindow {
		t.Errorf("it wrote %d bytes that nobody read", n)
	}
}

// open is a Room without a bound.
type open struct{ *semaphore.Weighted }

func (open) Hold(int) error { return nil }
