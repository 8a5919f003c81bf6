package client

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// maxUnread is how many bytes of a response may wait for its reader.
	maxUnread = 4 << 20
	// requestRoom is how much of a message is for all of a request except its body.
	requestRoom = 2 << 20
)

// Transport returns an http.RoundTripper that sends requests from the server's network. The server must run with
// --allow-http.
//
//	web := &http.Client{Transport: c.Transport()}
//	resp, err := web.Get("http://localhost:8080/health") // the localhost of the server
//
// The body of a response streams: at most 4 MiB wait for the reader, and while they do, the client takes nothing else
// from the server. So read each body, or close it. The wire has no streams for the body of a request: RoundTrip reads
// all of it, and refuses one that does not fit into a message (Client.Limits).
//
// A request ends with its connection. After a cut, RoundTrip sends a request again if the server did not get it, or if
// the method is GET, HEAD, OPTIONS or TRACE without a body. A response that is cut is an error of its body. The end of
// the request's context ends the response here at once; the wire cannot cancel, so at the server only a deadline of
// the context ends the request.
func (c *Client) Transport() http.RoundTripper { return roundTripper{c} }

type roundTripper struct{ c *Client }

// An httpBody is the body of a response. Client.mu guards the fields below it.
type httpBody struct {
	c    *Client
	id   string
	conn uint64          // the connection of the request
	ctx  context.Context // of the request
	stop func() bool     // ends the watch of ctx
	come chan struct{}   // capacity 1: there is something to read

	chunks [][]byte
	unread int
	next   uint64 // seq of the next piece
	err    error  // after the chunks; io.EOF: the body is complete
	closed bool
}

// RoundTrip sends a request and returns its response, whose body may still come.
func (t roundTripper) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		defer r.Body.Close()
	}
	params, err := t.params(r)
	if err != nil {
		return nil, err
	}
	for {
		conn, err := t.c.connection(r.Context())
		if err != nil {
			return nil, err
		}
		if deadline, ok := r.Context().Deadline(); ok {
			params.TimeoutMs = new(max(1, millis(time.Until(deadline))))
		}
		params.RequestID = rand.Text()
		b := t.c.expect(r.Context(), params.RequestID, conn)
		var result protocol.HTTPRequestResult
		k := t.c.begin(conn, protocol.MethodHTTPRequest, *params, &result)
		err = k.wait(r.Context(), t.c)
		if err == nil {
			return response(r, &result, b), nil
		}
		b.Close()
		t.c.mu.Lock()
		sent := k.sends > 0
		t.c.mu.Unlock()
		if errors.Is(err, errOldLink) && (!sent || repeats(params)) {
			continue
		}
		return nil, err
	}
}

// repeats reports whether a request may be sent again although the server may have sent it.
func repeats(p *protocol.HTTPRequestParams) bool {
	return len(p.Body) == 0 && slices.Contains([]string{http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace}, p.Method)
}

// params returns the request as the wire has it.
func (t roundTripper) params(r *http.Request) (*protocol.HTTPRequestParams, error) {
	p := &protocol.HTTPRequestParams{Method: r.Method, URL: r.URL.String(), RedirectPolicy: protocol.HTTPStop, StreamResponse: true}
	if p.Method == "" {
		p.Method = http.MethodGet
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		for _, value := range r.Header[name] {
			p.Headers = append(p.Headers, protocol.HTTPRequestHeader{Name: name, Value: &value})
		}
	}
	if r.Host != "" && r.Host != r.URL.Host {
		p.Headers = append(p.Headers, protocol.HTTPRequestHeader{Name: "host", Value: &r.Host})
	}
	if r.Body == nil {
		return p, nil
	}
	most := t.c.Limits().MaxMessageBytes - requestRoom
	if t.c.opts.JSON {
		most = most / 4 * 3 // base64
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
	if err != nil {
		return nil, errorf("body of the request: %w", err)
	}
	if int64(len(body)) > most {
		return nil, fmt.Errorf("client: the body of the request has more than %d bytes, which is the most that this server takes: send less at once", most)
	}
	p.Body = body
	return p, nil
}

func response(r *http.Request, result *protocol.HTTPRequestResult, b *httpBody) *http.Response {
	resp := &http.Response{
		Status: fmt.Sprintf("%d %s", result.Status, http.StatusText(result.Status)), StatusCode: result.Status,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: make(http.Header), ContentLength: -1, Body: b, Request: r,
	}
	for _, h := range result.Headers {
		resp.Header.Add(h.Name, h.Value)
	}
	if n, err := strconv.ParseInt(resp.Header.Get("Content-Length"), 10, 64); err == nil && n >= 0 {
		resp.ContentLength = n
	}
	return resp
}

// connection waits for a connection, and returns its number.
func (c *Client) connection(ctx context.Context) (uint64, error) {
	for {
		c.mu.Lock()
		conn, attached := c.connN, c.conn != nil
		c.mu.Unlock()
		if attached {
			return conn, nil
		}
		if _, err := c.Status(ctx); err != nil { // the answer comes on the next connection
			return 0, err
		}
	}
}

// expect registers a body before its request is sent.
func (c *Client) expect(ctx context.Context, id string, conn uint64) *httpBody {
	b := &httpBody{c: c, id: id, conn: conn, ctx: ctx, come: make(chan struct{}, 1), next: 1}
	c.mu.Lock()
	c.bodies[id] = b
	c.mu.Unlock()
	b.stop = context.AfterFunc(ctx, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		b.end(context.Cause(ctx))
	})
	return b
}

// piece takes a piece of a body. While its reader has much to read, piece waits, and with it the reader of the
// connection.
func (c *Client) piece(n *protocol.HTTPBodyDeltaNotification) {
	c.mu.Lock()
	defer c.mu.Unlock()
	b := c.bodies[n.RequestID]
	c.holdWhile(func() bool { return b != nil && b.err == nil && b.unread > maxUnread })
	if b == nil || b.err != nil {
		return
	}
	if n.Seq != b.next {
		b.end(fmt.Errorf("client: response: the server sent piece %d after piece %d", n.Seq, b.next-1))
		return
	}
	b.next++
	if len(n.Delta) > 0 {
		b.chunks = append(b.chunks, n.Delta)
		b.unread += len(n.Delta)
	}
	switch {
	case n.Done && n.Error != nil:
		b.end(errorf("response: %s: %w", *n.Error, io.ErrUnexpectedEOF))
	case n.Done:
		b.end(io.EOF)
	}
	b.tell()
}

// tell wakes the reader of the body. Client.mu is held.
func (b *httpBody) tell() {
	select {
	case b.come <- struct{}{}:
	default:
	}
}

// end says that nothing more comes. Client.mu is held.
func (b *httpBody) end(err error) {
	if b.err == nil {
		b.err = err
	}
	delete(b.c.bodies, b.id)
	b.c.room.Broadcast()
	b.tell()
}

// endBodies ends the bodies of a connection that has ended. Client.mu is held.
func (c *Client) endBodies(err error) {
	for _, b := range c.bodies {
		b.end(errorf("response: %w: %w", io.ErrUnexpectedEOF, err))
	}
}

// Read reads the next bytes of the body.
func (b *httpBody) Read(p []byte) (int, error) {
	for {
		b.c.mu.Lock()
		switch {
		case b.closed:
			b.c.mu.Unlock()
			return 0, http.ErrBodyReadAfterClose
		case len(b.chunks) > 0 && (b.err == nil || b.ctx.Err() == nil):
			n := copy(p, b.chunks[0])
			if b.chunks[0] = b.chunks[0][n:]; len(b.chunks[0]) == 0 {
				b.chunks = b.chunks[1:]
			}
			b.unread -= n
			b.c.room.Broadcast()
			b.c.mu.Unlock()
			return n, nil
		case b.err != nil:
			err := b.err
			b.c.mu.Unlock()
			return 0, err
		}
		b.c.mu.Unlock()
		<-b.come
	}
}

// Close drops the rest of the body.
func (b *httpBody) Close() error {
	b.stop()
	b.c.mu.Lock()
	defer b.c.mu.Unlock()
	b.closed, b.chunks = true, nil
	b.end(http.ErrBodyReadAfterClose)
	return nil
}
