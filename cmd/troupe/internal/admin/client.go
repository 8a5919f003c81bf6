//go:build unix

package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A Client asks the admin socket of a server. Any goroutine may use it.
type Client struct {
	path string
	http http.Client
}

// New returns a client of the socket at a path. Nothing is opened yet.
func New(path string) *Client {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}
	return &Client{path, http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}}
}

// dialTime is how long a server may take to accept a connection.
const dialTime = 5 * time.Second

// Lives reports whether a server listens at the socket.
func (c *Client) Lives() bool {
	conn, err := net.DialTimeout("unix", c.path, dialTime)
	if err == nil {
		conn.Close()
	}
	return err == nil
}

// maxError bounds the text of an error, in bytes.
const maxError = 8 << 10

// A StatusError is an answer that says what was wrong.
type StatusError struct {
	Status int
	Text   string
}

func (e *StatusError) Error() string { return e.Text }

// Do sends a request, and returns the body of the answer, which the caller closes. An answer of 400 or more is a *StatusError.
func (c *Client) Do(ctx context.Context, method, path, body string) (io.ReadCloser, error) {
	request, err := http.NewRequestWithContext(ctx, method, "http://troupe"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if until, ok := ctx.Deadline(); ok {
		request.Header.Set(Deadline, until.Format(time.RFC3339Nano))
	}
	answer, err := c.http.Do(request)
	if err != nil {
		return nil, c.broken(err)
	}
	if answer.StatusCode >= http.StatusBadRequest {
		defer answer.Body.Close()
		text, err := io.ReadAll(io.LimitReader(answer.Body, maxError))
		if err != nil {
			return nil, err
		}
		return nil, &StatusError{answer.StatusCode, strings.TrimSpace(string(text))}
	}
	return answered{answer.Body, c}, nil
}

// answered is the body of an answer. Its errors say what has become of the answer.
type answered struct {
	io.ReadCloser
	of *Client
}

// Read implements io.Reader.
func (b answered) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		err = b.of.broken(err)
	}
	return n, err
}

// broken says what has become of a request, or of its answer.
func (c *Client) broken(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		err = e.Err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the server at the admin socket %s does not answer: perhaps it is stopped (SIGSTOP), or hangs", c.path)
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		return fmt.Errorf("the server at the admin socket %s has ended meanwhile", c.path)
	}
	return fmt.Errorf("the admin socket %s: %w", c.path, err)
}

// text returns the body of an answer without the last newline.
func (c *Client) text(ctx context.Context, method, path, body string) (string, error) {
	answer, err := c.Do(ctx, method, path, body)
	if err != nil {
		return "", err
	}
	defer answer.Close()
	all, err := io.ReadAll(answer)
	return strings.TrimSuffix(string(all), "\n"), err
}

// value decodes an answer in JSON.
func value[T any](ctx context.Context, c *Client, method, path string) (v T, err error) {
	answer, err := c.Do(ctx, method, path, "")
	if err != nil {
		return v, err
	}
	defer answer.Close()
	return v, json.NewDecoder(answer).Decode(&v)
}

// Health returns an error if the actors of the server do not answer.
func (c *Client) Health(ctx context.Context) error {
	_, err := c.text(ctx, http.MethodGet, PathHealth, "")
	return err
}

// Ready says whether the server takes new sessions.
func (c *Client) Ready(ctx context.Context) (r Readiness, err error) {
	r, err = value[Readiness](ctx, c, http.MethodGet, PathReady)
	if e, ok := errors.AsType[*StatusError](err); ok && e.Status == http.StatusServiceUnavailable {
		err = json.Unmarshal([]byte(e.Text), &r)
	}
	return r, err
}

// Info returns what the server tells operators.
func (c *Client) Info(ctx context.Context) (protocol.ServerInfoResult, error) {
	return value[protocol.ServerInfoResult](ctx, c, http.MethodGet, PathInfo)
}

// Actors returns how all actors stand, sorted by name.
func (c *Client) Actors(ctx context.Context) ([]actors.ActorInfo, error) {
	return value[[]actors.ActorInfo](ctx, c, http.MethodGet, PathActors)
}

// Levels returns the levels of the log, and sets them before unless text is empty.
func (c *Client) Levels(ctx context.Context, text string) (string, error) {
	if text == "" {
		return c.text(ctx, http.MethodGet, PathLog, "")
	}
	return c.text(ctx, http.MethodPut, PathLog, text)
}

// Reload has the server read its settings again.
func (c *Client) Reload(ctx context.Context) (Reloading, error) {
	return value[Reloading](ctx, c, http.MethodPost, PathReload)
}

// Self tells which server answers.
func (c *Client) Self(ctx context.Context) (Self, error) {
	return value[Self](ctx, c, http.MethodGet, PathSelf)
}

// Drained returns how far a drain has come.
func (c *Client) Drained(ctx context.Context) (Drain, error) {
	return value[Drain](ctx, c, http.MethodGet, PathDrain)
}

// Drain has the server drained: its sessions may go on for so long.
func (c *Client) Drain(ctx context.Context, lasts time.Duration) (Drain, error) {
	return value[Drain](ctx, c, http.MethodPost, PathDrain+"?for="+lasts.String())
}

// Stay takes a Drain back.
func (c *Client) Stay(ctx context.Context) (Drain, error) {
	return value[Drain](ctx, c, http.MethodDelete, PathDrain)
}
