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

// A Request is a checked request. A Request can be sent once.
type Request struct {
	method string
	url    *url.URL
	host   string // of the header; "": the host of url
	header http.Header
	body   []byte
	stop   bool // a redirect is the response
}

func invalid(format string, a ...any) error {
	return protocol.Errorf(protocol.CodeInvalidParams, "http/request "+format, a...)
}

// NewRequest checks p and returns the request. Whatever the headers of p say, net/http chooses the length of the
// body and the transfer encoding.
func NewRequest(p protocol.HTTPRequestParams) (*Request, error) {
	if !isToken(p.Method) {
		return nil, invalid("method is invalid: invalid HTTP method")
	}
	if p.Method == http.MethodConnect {
		return nil, invalid("method is invalid: CONNECT would make a tunnel, which nobody could use")
	}
	u, err := parseURL(p.URL)
	if err != nil {
		return nil, err
	}
	r := &Request{method: p.Method, url: u, header: make(http.Header), body: p.Body, stop: p.RedirectPolicy == protocol.HTTPStop}
	size := 0
	for _, h := range p.Headers {
		if size += len(h.Name) + len(h.Value); size > maxHeader {
			return nil, invalid("headers have more than %d bytes, which is the most", maxHeader)
		}
		if !isToken(h.Name) {
			return nil, invalid("header name is invalid: invalid HTTP header name")
		}
		if strings.ContainsFunc(h.Value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f }) {
			return nil, invalid("header value is invalid for %s: it has a control character", clip(h.Name))
		}
		r.header.Add(h.Name, h.Value)
	}
	r.host = r.header.Get("Host")
	if r.header["User-Agent"] == nil {
		r.header.Set("User-Agent", "") // net/http would send its own
	}
	return r, nil
}

func parseURL(text string) (*url.URL, error) {
	if len(text) > maxURL {
		return nil, invalid("url is invalid: it has %d bytes, the limit is %d", len(text), maxURL)
	}
	u, err := url.Parse(text)
	if err != nil {
		if inner, ok := errors.AsType[*url.Error](err); ok {
			err = inner.Err // the client knows its URL
		}
		return nil, invalid("url is invalid: %s", clip(err.Error()))
	}
	switch {
	case u.Scheme == "":
		return nil, invalid("url is invalid: relative URL without a base")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, invalid("only supports http and https URLs, got %s", clip(u.Scheme))
	case u.Hostname() == "":
		return nil, invalid("url is invalid: empty host")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	u.RawQuery = escapeQuery(u.RawQuery)
	return u, nil
}

// escapeQuery escapes characters that a query may not have, as browsers do (WHATWG URL, query state). net/http
// does not escape a query.
func escapeQuery(query string) string {
	var b strings.Builder
	for i := range len(query) {
		if c := query[i]; c <= ' ' || c > '~' || strings.IndexByte(`"<>`, c) >= 0 {
			fmt.Fprintf(&b, "%%%02X", c)
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}

// secrets are the fields of a header for a single origin.
var secrets = []string{"Authorization", "Cookie", "Cookie2", "Proxy-Authorization", "Www-Authenticate"}

// origin returns the origin of a URL: scheme, host and port (RFC 6454 §4).
func origin(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[u.Scheme]
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// isToken reports whether s can be a method or the name of a header (RFC 9110 §5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("!#$%&'*+-.^_`|~", c))
	})
}

// clip shortens a text of the client for an error: the client knows the rest.
func clip(s string) string {
	if len(s) > 300 {
		s = s[:300] + "…"
	}
	return strings.ToValidUTF8(s, "?")
}

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
	at := r.url
	client := http.Client{Transport: c.transport, CheckRedirect: func(next *http.Request, via []*http.Request) error {
		at = next.URL
		if len(via) > maxRedirects {
			return fmt.Errorf("more than %d redirects", maxRedirects)
		}
		if origin(next.URL) != origin(via[0].URL) { // net/http would send secrets to other ports, and without TLS
			for _, name := range secrets {
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

// Read reads the body, as an io.Reader.
func (r *Response) Read(p []byte) (int, error) {
	n, err := r.body.Read(p)
	if err != nil && err != io.EOF {
		err = fmt.Errorf("error reading the body of the response: %w", err)
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
