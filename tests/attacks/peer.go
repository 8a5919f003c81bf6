package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/gorilla/websocket"
)

// obj is a JSON object.
type obj = map[string]any

// A peer is a websocket to a server, with access to everything that a polite client would not touch.
// Any goroutine may call any method.
type peer struct {
	t   *target
	ws  *websocket.Conn
	tcp net.Conn // below TLS
	raw net.Conn // inside TLS, if there is TLS

	writing sync.Mutex

	session string           // from initialize
	notify  func(peerNotice) // gets notifications on the reading goroutine; nil: they are dropped
	done    chan struct{}    // closed once the reader has ended

	mu      sync.Mutex
	lastID  int64
	waiting map[int64]chan peerAnswer
	err     error // why the reader ended
}

type peerAnswer struct {
	result json.RawMessage
	err    error
}

type peerNotice struct {
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
}

// An rpcError is a server's refusal of a request.
type rpcError struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

func (e *rpcError) Error() string { return fmt.Sprintf("%d %s", e.Code, e.Message) }

// dialOptions may be zero.
type dialOptions struct {
	from     string // an address of this machine; "": any
	protocol string // a subprotocol
	deaf     bool   // the peer reads nothing
}

// dial opens a websocket. The end of the attack closes the websocket without a Close frame.
func (t *target) dial(ctx context.Context, o dialOptions) (*peer, error) {
	p := &peer{t: t, waiting: make(map[int64]chan peerAnswer), done: make(chan struct{})}
	dialer := websocket.Dialer{
		HandshakeTimeout: answerWithin,
		ReadBufferSize:   16 << 10,
		WriteBufferSize:  16 << 10,
		NetDialContext: func(ctx context.Context, _, _ string) (c net.Conn, err error) {
			if p.tcp, err = t.connect(ctx, o.from); err != nil {
				return nil, err
			}
			p.raw, err = t.secure(ctx, p.tcp)
			return p.raw, err
		},
	}
	if o.protocol != "" {
		dialer.Subprotocols = []string{o.protocol}
	}
	ws, response, err := dialer.DialContext(ctx, "ws://server/", header(t.bearer))
	if err != nil {
		if response != nil {
			err = fmt.Errorf("%w: %s", err, response.Status)
		}
		return nil, err
	}
	p.ws = ws
	ws.SetPingHandler(func(data string) error {
		p.writing.Lock()
		defer p.writing.Unlock()
		ws.WriteControl(websocket.PongMessage, []byte(data), time.Now().Add(answerWithin))
		return nil // a server that takes no Pong any more may have sent a Close frame, which the reader has yet to read
	})
	p.t.onEnd(p.cut)
	if !o.deaf {
		go p.read()
	}
	return p, nil
}

// connect opens a connection to the server's socket, without TLS.
func (t *target) connect(ctx context.Context, from string) (net.Conn, error) {
	var d net.Dialer
	if from != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(from)}
	}
	network, address := t.server.address()
	return d.DialContext(ctx, network, address)
}

// address returns the arguments of net.Dial.
func (s *server) address() (network, address string) {
	if _, path, ok := strings.Cut(s.url, "://"); ok && strings.HasPrefix(path, "/") {
		return "unix", path
	}
	_, address, _ = strings.Cut(s.url, "://")
	return "tcp", address
}

// open opens a connection and a session. params are added to the parameters of initialize. The end of
// the attack closes the session.
func (t *target) open(ctx context.Context, params obj, notify func(peerNotice)) (*peer, error) {
	p, err := t.dial(ctx, dialOptions{deaf: true})
	if err != nil {
		return nil, err
	}
	p.notify = notify
	go p.read()
	return p, p.initialize(ctx, params)
}

func (p *peer) initialize(ctx context.Context, params obj) error {
	all := obj{"clientName": "attacks"}
	for k, v := range params {
		all[k] = v
	}
	var result struct {
		SessionID string `json:"sessionId"`
	}
	if err := p.call(ctx, "initialize", all, &result); err != nil {
		return err
	}
	p.session = result.SessionID
	p.t.opened(p.session)
	return p.send(obj{"method": "initialized", "params": obj{}})
}

// send writes a message.
func (p *peer) send(message any) error {
	data, err := json.Marshal(message)
	if err != nil {
		return err
	}
	return p.sendText(data)
}

func (p *peer) sendText(data []byte) error { return p.write(websocket.TextMessage, data) }

func (p *peer) write(kind int, data []byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.ws.SetWriteDeadline(time.Now().Add(answerWithin))
	return p.ws.WriteMessage(kind, data)
}

// writeRaw writes the parts of a frame as they are. No Pong of the reader comes between them.
func (p *peer) writeRaw(within time.Duration, parts ...[]byte) error {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.raw.SetWriteDeadline(time.Now().Add(within))
	for _, part := range parts {
		if _, err := p.raw.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// request sends a request. The channel gets the answer, or is closed with the connection.
func (p *peer) request(method string, params any) (chan peerAnswer, error) {
	answer := make(chan peerAnswer, 1)
	p.mu.Lock()
	p.lastID++
	id := p.lastID
	if p.err != nil {
		p.mu.Unlock()
		return nil, p.err
	}
	p.waiting[id] = answer
	p.mu.Unlock()
	err := p.send(obj{"id": id, "method": method, "params": params})
	if errors.Is(err, websocket.ErrCloseSent) { // gorilla has answered the server's Close frame, which has the reason
		<-p.done
		err = p.ended()
	}
	return answer, err
}

// expectedID is the id of a request that the caller writes by itself.
const expectedID = "1000000000"

// expect returns the channel of the answer to a request with expectedID, as request does.
func (p *peer) expect() chan peerAnswer {
	answer := make(chan peerAnswer, 1)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waiting[1_000_000_000] = answer
	return answer
}

// errNoAnswer means: no answer came within answerWithin.
var errNoAnswer = errors.New("no answer")

// call sends a request and waits for its answer, at most answerWithin. A refusal is an *rpcError.
// result may be nil.
func (p *peer) call(ctx context.Context, method string, params, result any) error {
	answer, err := p.request(method, params)
	if err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	return p.await(ctx, method, answer, result)
}

func (p *peer) await(ctx context.Context, method string, answer chan peerAnswer, result any) error {
	timer := time.NewTimer(answerWithin)
	defer timer.Stop()
	select {
	case a, ok := <-answer:
		switch {
		case !ok:
			return fmt.Errorf("%s: the connection ended: %w", method, p.ended())
		case a.err != nil:
			return fmt.Errorf("%s: %w", method, a.err)
		case result != nil:
			return json.Unmarshal(a.result, result)
		}
		return nil
	case <-timer.C:
		return fmt.Errorf("%s: %w within %v", method, errNoAnswer, answerWithin)
	case <-ctx.Done():
		return fmt.Errorf("%s: %w", method, context.Cause(ctx))
	}
}

// refusal returns the server's refusal in err, or nil.
func refusal(err error) *rpcError {
	e, _ := errors.AsType[*rpcError](err)
	return e
}

func (p *peer) read() {
	for {
		_, data, err := p.ws.ReadMessage()
		if err == nil {
			err = p.receive(data)
		}
		if err != nil {
			p.mu.Lock()
			p.err = err
			for id, answer := range p.waiting {
				close(answer)
				delete(p.waiting, id)
			}
			p.mu.Unlock()
			close(p.done)
			p.ws.Close()
			return
		}
	}
}

func (p *peer) receive(data []byte) error {
	var m struct {
		ID     *json.RawMessage `json:"id"`
		Result json.RawMessage  `json:"result"`
		Error  *rpcError        `json:"error"`
		peerNotice
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return fmt.Errorf("the server sent %.100q: %w", data, err)
	}
	if m.ID == nil {
		if p.notify != nil {
			p.notify(m.peerNotice)
		}
		return nil
	}
	var id int64
	json.Unmarshal(*m.ID, &id)
	p.mu.Lock()
	answer := p.waiting[id]
	delete(p.waiting, id)
	p.mu.Unlock()
	switch {
	case answer == nil: // an answer without a request
	case m.Error != nil:
		answer <- peerAnswer{err: m.Error}
	default:
		answer <- peerAnswer{result: m.Result}
	}
	return nil
}

// ended returns why the connection has ended; nil: the connection is open.
func (p *peer) ended() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// cut ends the connection without a Close frame.
func (p *peer) cut() { p.tcp.Close() }

// cutAndWait cuts the connection and waits for the end of the reader.
func (p *peer) cutAndWait() {
	p.cut()
	<-p.done
}

// reset ends the connection with a TCP reset: bytes not yet read by the server are lost.
func (p *peer) reset() {
	if tcp, ok := p.tcp.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	p.tcp.Close()
}

// program returns the parameters of process/start for a program without input.
func program(id string, argv ...string) obj {
	return obj{"processId": id, "argv": argv, "cwd": "file:///", "tty": false,
		"env": obj{"PATH": "/usr/local/bin:/usr/bin:/bin"}}
}

// healthz asks the server for its health on a new connection.
func (t *target) healthz(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	h := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			c, err := t.connect(ctx, "")
			if err != nil {
				return nil, err
			}
			return t.secure(ctx, c)
		},
	}}
	request, err := http.NewRequestWithContext(ctx, "GET", "http://server/healthz", nil)
	if err != nil {
		return err
	}
	response, err := h.Do(request)
	if err != nil {
		return err
	}
	response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("/healthz: %s", response.Status)
	}
	return nil
}
