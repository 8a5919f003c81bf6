//go:build unix

package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
)

// newWeb returns an HTTP server, and a client whose requests come from the troupe's network.
func newWeb(t *testing.T, handle http.HandlerFunc) (h *host, web *http.Client, url string) {
	t.Helper()
	h = newHost(t, actors.Config{AllowHTTP: true})
	s := httptest.NewServer(handle)
	t.Cleanup(s.Close)
	return h, &http.Client{Transport: h.client(t, nil).Transport()}, s.URL
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	large := pattern(9 << 20)
	_, web, url := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/echo":
			body, _ := io.ReadAll(r.Body)
			w.Header()["X-Seen"] = []string{r.Method, r.Host, strings.Join(r.Header["X-Twice"], ","), r.URL.RawQuery}
			w.WriteHeader(http.StatusTeapot)
			w.Write(body)
		case "/large":
			w.Header().Set("Content-Length", fmt.Sprint(len(large)))
			w.Write(large)
		case "/again":
			http.Redirect(w, r, "/large", http.StatusFound)
		}
	})
	req, err := http.NewRequestWithContext(within(t), "PATCH", url+"/echo?a=b", bytes.NewReader(large[:3<<20]))
	if err != nil {
		t.Fatal(err)
	}
	req.Header["X-Twice"], req.Host = []string{"1", "2"}, "other.example"
	resp, err := web.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if seen := fmt.Sprint(resp.Header["X-Seen"]); err != nil || resp.StatusCode != http.StatusTeapot || !bytes.Equal(body, large[:3<<20]) || seen != "[PATCH other.example 1,2 a=b]" {
		t.Errorf("status %s, %d bytes, %s, %v", resp.Status, len(body), seen, err)
	}
	for _, path := range []string{"/large", "/again"} {
		resp, err := web.Get(url + path)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || !bytes.Equal(body, large) || resp.ContentLength != int64(len(large)) || resp.Request.URL.Path != "/large" {
			t.Errorf("%s: %d bytes, length %d, from %s, %v", path, len(body), resp.ContentLength, resp.Request.URL, err)
		}
		if _, err := resp.Body.Read(body); !errors.Is(err, http.ErrBodyReadAfterClose) {
			t.Errorf("read after Close: %v", err)
		}
	}
}

// A body that is closed or given up in the middle does not hold up the connection, however much of it comes.
func TestHTTPBodyGivenUp(t *testing.T) {
	t.Parallel()
	_, web, url := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		for range 200 {
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for _, giveUp := range []func(io.Closer){func(c io.Closer) { c.Close() }, func(io.Closer) { cancel() }} {
		req, err := http.NewRequestWithContext(ctx, "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := web.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadFull(resp.Body, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		giveUp(resp.Body)
		next, err := web.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, next.Body); n != 200*64<<10 || err != nil {
			t.Errorf("the next body: %d bytes, %v", n, err)
		}
		next.Body.Close()
	}
}

func TestHTTPErrors(t *testing.T) {
	t.Parallel()
	hang := make(chan struct{})
	_, web, url := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/half":
			w.Header().Set("Content-Length", "100")
			w.Write([]byte("half"))
		case "/hang":
			<-hang
		}
	})
	defer close(hang)
	var refused *protocol.Error
	if _, err := web.Get("http://127.0.0.1:1/"); !errors.As(err, &refused) || !strings.Contains(err.Error(), "refused") {
		t.Errorf("no server: %v", err)
	}
	resp, err := web.Get(url + "/half")
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); string(body) != "half" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half of a body: %q, %v", body, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	req, err := http.NewRequestWithContext(ctx, "GET", url+"/hang", nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := web.Do(req); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := web.Post(url, "text/plain", bytes.NewReader(make([]byte, 65<<20))); err == nil || !strings.Contains(err.Error(), "send less at once") {
		t.Errorf("a body that is too large: %v", err)
	}
	off := &http.Client{Transport: newHost(t, actors.Config{}).client(t, nil).Transport()}
	if _, err := off.Get(url); err == nil || !strings.Contains(err.Error(), "--allow-http") {
		t.Errorf("without --allow-http: %v", err)
	}
}

// After a cut a GET is sent again, and a POST is not, unless the server did not get it.
func TestHTTPOverCuts(t *testing.T) {
	t.Parallel()
	var posts, gets atomic.Int64
	arrived := make(chan struct{}, 10)
	h, web, url := newWeb(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body) // otherwise the server does not notice the end of the connection
		if r.Method == "POST" {
			posts.Add(1)
		} else if gets.Add(1) > 1 {
			w.Write([]byte("second"))
			return
		}
		arrived <- struct{}{}
		<-r.Context().Done() // until the cut
	})
	cut := func() {
		<-arrived
		h.cut()
	}
	go cut()
	resp, err := web.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	if body, err := io.ReadAll(resp.Body); string(body) != "second" || err != nil {
		t.Errorf("GET: %q, %v", body, err)
	}
	resp.Body.Close()
	go cut()
	if resp, err := web.Post(url, "text/plain", strings.NewReader("x")); err == nil {
		resp.Body.Close()
		t.Error("the POST was sent twice")
	}
	if posts.Load() != 1 || gets.Load() != 2 {
		t.Errorf("%d POSTs and %d GETs came, want 1 and 2", posts.Load(), gets.Load())
	}
}
