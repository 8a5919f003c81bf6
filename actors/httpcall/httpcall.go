// Package httpcall is the edge to the HTTP servers of others. A call sends a request, and returns the body of
// the response as a whole or as a stream. A call lasts until the other side has answered, or until the context
// of the call is done. The package knows no connections of clients. Any goroutine may make a call.
//
// The error of a wrong request is a *protocol.Error. Source: exec-server wire §8.
package httpcall

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// MaxBody is the longest body for Whole, in bytes.
	MaxBody = 32 << 20
	// ChunkBytes is a good size for the buffer of Read: a larger piece seldom comes at once.
	ChunkBytes = 32 << 10

	smallBody    = 1 << 20  // bytes up to which Whole asks for no room
	maxHeader    = 1 << 20  // bytes of a header, of a request and of a response
	maxURL       = 64 << 10 // bytes
	maxRedirects = 10
	streamWindow = 256 << 10 // bytes unread, beyond which a server over HTTP/2 must wait
)

// ErrTooLarge means: a body is longer than MaxBody.
var ErrTooLarge = fmt.Errorf("the body of the response has more than %d bytes, which is the most in one answer: ask for it with streamResponse", MaxBody)

// A Client sends requests, and keeps connections for the next.
type Client struct{ transport *http.Transport }

// NewClient returns a client that goes through the proxies of the environment (HTTP_PROXY,
// HTTPS_PROXY, NO_PROXY).
func NewClient() *Client {
	return &Client{&http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            (&net.Dialer{Timeout: 30 * time.Second}).DialContext,
		TLSHandshakeTimeout:    10 * time.Second,
		ExpectContinueTimeout:  time.Second,
		MaxIdleConns:           100,
		MaxIdleConnsPerHost:    8,
		IdleConnTimeout:        90 * time.Second,
		MaxResponseHeaderBytes: maxHeader,
		ReadBufferSize:         ChunkBytes,
		DisableCompression:     true, // the body stays as the header describes
		ForceAttemptHTTP2:      true,
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: streamWindow,
			SendPingTimeout:           30 * time.Second, // many requests share a connection, and must learn of its death
			PingTimeout:               15 * time.Second,
		},
	}}
}

// CloseIdle closes the connections without a request now, and the other connections after their requests. The
// client may be used again.
func (c *Client) CloseIdle() { c.transport.CloseIdleConnections() }

// upload is the body of a request. Once sent, the memory of the body is free, although the response refers to
// its request and may last.
type upload struct {
	mu   sync.Mutex
	left []byte
}

func (u *upload) Read(p []byte) (int, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.left) == 0 {
		return 0, io.EOF
	}
	n := copy(p, u.left)
	u.left = u.left[n:]
	return n, nil
}

func (u *upload) Close() error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.left = nil
	return nil
}

// Do sends r, and returns the response after its header has come. The caller closes the response. The body can
// be read until ctx is done.
func (c *Client) Do(ctx context.Context, r *Request) (*Response, error) {
	req := (&http.Request{Method: r.method, URL: r.url, Host: r.host, Header: r.header}).WithContext(ctx)
	body := r.body
	r.body = nil
	if len(body) > 0 {
		req.ContentLength = int64(len(body))
		req.Body = &upload{left: body}
		req.GetBody = func() (io.ReadCloser, error) { return &upload{left: body}, nil }
	}
	at, elsewhere := r.url, false
	client := http.Client{Transport: c.transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		at = next.URL
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		// net/http would send credentials to other ports, and without TLS. Once elsewhere, a redirect back
		// gets none: the other server has chosen its URL.
		if elsewhere = elsewhere || origin(next.URL) != origin(r.url); elsewhere {
			for _, name := range slices.Concat(credentials, r.secret) {
				next.Header.Del(name)
			}
		}
		return nil
	}}
	send := client.Do
	if r.stop { // with a Location that is no URL a Client would fail
		send = c.transport.RoundTrip
		if user := r.url.User; user != nil && req.Header.Get("Authorization") == "" {
			password, _ := user.Password()
			req.SetBasicAuth(user.Username(), password)
		}
	}
	resp, err := send(req)
	body = nil // GetBody refers to body
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err
		}
		if why := context.Cause(ctx); why != nil {
			err = why // net/http may say only: there was an error
		}
		return nil, fmt.Errorf("error sending request for url (%s): %w", clip(at.Redacted()), err)
	}
	switch {
	case resp.StatusCode == http.StatusSwitchingProtocols, // no more HTTP follows
		resp.Request.Method == http.MethodHead, resp.StatusCode == http.StatusNoContent, resp.StatusCode == http.StatusNotModified:
		resp.Body.Close()
		resp.Body, resp.ContentLength = http.NoBody, 0 // the header may have the length of a body that is not sent
	}
	return &Response{Status: resp.StatusCode, Headers: headersOf(resp.Header), ctx: ctx, body: resp.Body, size: resp.ContentLength}, nil
}

// headersOf returns the fields of a header in the order of their names. Fields with the same name stay in the
// order received.
func headersOf(h http.Header) []protocol.HTTPHeader {
	fields := make([]protocol.HTTPHeader, 0, len(h))
	for name, values := range h {
		for _, v := range values {
			fields = append(fields, protocol.HTTPHeader{Name: strings.ToLower(name), Value: text(v)})
		}
	}
	slices.SortStableFunc(fields, func(a, b protocol.HTTPHeader) int { return strings.Compare(a.Name, b.Name) })
	return fields
}

// text returns the value of a field as UTF-8. A value that is not UTF-8 is read as ISO 8859-1 (RFC 9110 §5.5).
func text(v string) string {
	if utf8.ValidString(v) {
		return v
	}
	var b strings.Builder
	for i := range len(v) {
		b.WriteRune(rune(v[i]))
	}
	return b.String()
}

// A Response has a body, which a single goroutine may read.
type Response struct {
	Status  int
	Headers []protocol.HTTPHeader

	ctx  context.Context // of the call
	body io.ReadCloser
	size int64 // from the header; -1: not in the header
}

// Close ends the response. The rest of the body is dropped.
func (r *Response) Close() { r.body.Close() }

// BodyError means: the header of a response has arrived, but not its whole body.
type BodyError struct{ cause error }

func (e *BodyError) Error() string {
	return "error reading the body of the response: " + e.cause.Error()
}

// Unwrap returns the reason.
func (e *BodyError) Unwrap() error { return e.cause }

// Read reads the body, as an io.Reader.
func (r *Response) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if err != nil && err != io.EOF {
		if why := context.Cause(r.ctx); why != nil {
			err = why // of HTTP/2, net/http may say only: context canceled
		}
		err = &BodyError{err}
	}
	return n, err
}

// Room bounds the memory of all bodies returned by Whole.
type Room interface {
	// Acquire waits until a body of n bytes may be held, or ctx is done. Whole calls Acquire unless the body is
	// small.
	Acquire(ctx context.Context, n int64) error
	// Hold is asked before n more bytes of a body are held.
	Hold(n int) error
}

// Whole returns the whole body. Unless the body is small, Whole first takes its size from room, and waits for
// room. Without a known size Whole takes MaxBody. The caller gives taken back when the body is no longer held,
// also after an error.
func (r *Response) Whole(room Room) (body []byte, taken int64, err error) {
	if r.size > MaxBody {
		return nil, 0, ErrTooLarge
	}
	body = make([]byte, 0, min(max(r.size, 0)+512, ChunkBytes))
	for {
		if len(body) == cap(body) {
			if len(body) >= smallBody && taken == 0 {
				size := r.size
				if size < 0 {
					size = MaxBody
				}
				if err := room.Acquire(r.ctx, size); err != nil {
					return nil, 0, cmp.Or(context.Cause(r.ctx), err)
				}
				taken = size
				if r.size >= 0 {
					if err := room.Hold(int(r.size) + 512 - len(body)); err != nil {
						return nil, taken, err
					}
					body = slices.Grow(body, int(r.size)+512-len(body))
					continue
				}
			}
			if err := room.Hold(len(body)); err != nil {
				return nil, taken, err
			}
			body = slices.Grow(body, len(body))
		}
		n, err := r.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case len(body) > MaxBody:
			return nil, taken, ErrTooLarge
		case err == io.EOF:
			return body, taken, nil
		case err != nil:
			return nil, taken, err
		}
	}
}
