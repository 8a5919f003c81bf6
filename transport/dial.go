package transport

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/gorilla/websocket"
)

const clientWriteBuffer = 64 << 10 // bytes; also the largest frame

// clientBuffers lends a write buffer for the time of a write: most connections of a program with
// thousands are not writing.
var clientBuffers sync.Pool

// DialOptions may be nil, and are useful at zero. A number or duration of zero or
// below means its default.
type DialOptions struct {
	Subprotocols []string    // offered to the server, the preferred first
	Header       http.Header // added to the handshake, such as Authorization
	TLS          *tls.Config // for wss; nil: the system's roots

	// Proxy returns the proxy for a request with the server's URL, http for ws and https for wss: a URL
	// with http (the client sends CONNECT) or socks5. Nil, or a nil URL: no proxy. Proxy does not count
	// for sockets.
	Proxy func(*http.Request) (*url.URL, error)

	// NetDial opens the connection to a server or proxy, below TLS: network is tcp or unix. The connection of
	// a websocket must have the methods CloseWrite and SyscallConn of a *net.TCPConn. Nil: as net.Dialer does.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)

	HandshakeTimeout time.Duration // for all of Dial; DefaultHandshakeTimeout
	MaxMessage       int           // bytes; DefaultMaxMessage
	ReadBuffer       int           // bytes that a websocket reads at once, and keeps; DefaultReadBuffer
	WriteTimeout     time.Duration // for the kernel to take a message; DefaultWriteTimeout
	PingEvery        time.Duration // DefaultPingEvery
	DeadAfter        time.Duration // of silence; more than PingEvery; DefaultDeadAfter
}

// A RefusedError reports that a server answered the handshake of a websocket with an HTTP status.
type RefusedError struct {
	Status int    // such as 401
	Text   string // the reason, up to 1 KiB; "": another server has answered, such as a proxy in front of a troupe server
}

func (e *RefusedError) Error() string {
	if e.Text == "" {
		return fmt.Sprintf("the answer is not of a troupe server, but perhaps of a proxy in front of one: HTTP %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the server opens no websocket: %d %s: %s", e.Status, http.StatusText(e.Status), e.Text)
}

// Dial opens a websocket at ws://HOST:PORT, wss://HOST:PORT or unix://PATH, or a connection of
// length-prefixed frames (see Frames) at unix+frames://PATH. For frames only NetDial, HandshakeTimeout,
// MaxMessage, WriteTimeout and Subprotocols count, and the client speaks the first of Subprotocols. If
// ctx ends before Dial returns, Dial fails; later ctx has no effect.
func Dial(ctx context.Context, rawURL string, o *DialOptions) (Conn, error) {
	if o == nil {
		o = &DialOptions{}
	}
	if path, ok := strings.CutPrefix(rawURL, framedScheme); ok && path != "" {
		return dialFrames(ctx, path, o)
	}
	network, path, target, proxy := "tcp", "", rawURL, o.Proxy
	if p, ok := strings.CutPrefix(rawURL, "unix://"); ok && p != "" {
		network, path, target, proxy = "unix", p, "ws://localhost/", nil
	} else if u, err := url.Parse(rawURL); err == nil && u.User != nil {
		return nil, fmt.Errorf("the URL of %s has a user or password, which other users of this machine may see: leave it out, and send a token in a header", u.Host)
	} else if err != nil || u.Host == "" || u.Scheme != "ws" && u.Scheme != "wss" {
		return nil, fmt.Errorf("unsupported URL %q; expected ws://HOST:PORT, wss://HOST:PORT, unix://PATH or unix+frames://PATH", rawURL)
	}

	ctx, cancel := context.WithTimeout(ctx, orDefault(o.HandshakeTimeout, DefaultHandshakeTimeout))
	defer cancel()
	var w wire
	stop := func() bool { return true }
	dialer := websocket.Dialer{
		Subprotocols:    o.Subprotocols,
		TLSClientConfig: o.TLS,
		Proxy:           proxy,
		ReadBufferSize:  orDefault(o.ReadBuffer, DefaultReadBuffer),
		WriteBufferSize: clientWriteBuffer,
		WriteBufferPool: &clientBuffers,
		NetDialContext: func(ctx context.Context, _, addr string) (net.Conn, error) {
			if network == "unix" {
				addr = path
			}
			c, err := o.netDial(ctx, network, addr)
			if err != nil {
				return nil, err
			}
			if w, err = newClientWire(c); err != nil {
				c.Close()
				return nil, err
			}
			// gorilla heeds only the deadline of ctx after the connection is made, not its
			// cancellation.
			stop = context.AfterFunc(ctx, func() { w.Close() })
			return w, nil
		},
	}
	ws, resp, err := dialer.DialContext(ctx, target, o.Header)
	switch {
	case !stop():
		return nil, fmt.Errorf("dial %s: %w", rawURL, context.Cause(ctx))
	case errors.Is(err, websocket.ErrBadHandshake):
		body, _ := io.ReadAll(resp.Body) // gorilla keeps at most 1 KiB of the body
		return nil, fmt.Errorf("dial %s: %w", rawURL, &RefusedError{resp.StatusCode, reason(resp, string(body))})
	case err != nil:
		return nil, fmt.Errorf("dial %s: %w", rawURL, err)
	}
	c, err := newWebSocket(ws, w, settings{
		masks: true,
		// maxFrame stays 0. Frames cannot be counted inside TLS, nor after bytes read together with the
		// handshake. The client trusts the server with its frame sizes.
		maxMessage:   orDefault(o.MaxMessage, DefaultMaxMessage),
		writeTimeout: orDefault(o.WriteTimeout, DefaultWriteTimeout),
		pingEvery:    orDefault(o.PingEvery, DefaultPingEvery),
		deadAfter:    orDefault(o.DeadAfter, DefaultDeadAfter),
	})
	if err != nil {
		ws.Close()
		return nil, fmt.Errorf("dial %s: %w", rawURL, err)
	}
	return c, nil
}

func (o *DialOptions) netDial(ctx context.Context, network, addr string) (net.Conn, error) {
	if o.NetDial != nil {
		return o.NetDial(ctx, network, addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// reason returns the reason that a troupe server gives for a refusal: a line of plain text. "": the answer is another
// server's, such as a page for a browser.
func reason(resp *http.Response, body string) string {
	body = strings.TrimSpace(body)
	plain := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain")
	if !plain || resp.StatusCode < 400 || body == "404 page not found" || strings.ContainsFunc(body, unicode.IsControl) {
		return ""
	}
	return body
}
