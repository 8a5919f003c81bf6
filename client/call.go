package client

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"reflect"
	"slices"

	"github.com/b6f6fdd7/troupe/protocol"
)

// Call sends a request with any method, and waits for the answer. The other methods of a Client cover
// almost every method of the wire: Call is for the rest, and for methods of newer servers.
//
// params is a value of a type in package protocol, or a value for json.Marshal; nil sends no params. Params
// with bytes, such as the content of a file, must be of a type in package protocol. Call
// stores the result in the value to which result points, a value of a type in package protocol or for
// json.Unmarshal; nil drops the result.
//
// If the connection breaks before the answer, the client sends the request again on the next connection.
// For a request that changes something, set a requestId (protocol.Repeatable), so that the server executes
// the request once. Methods about file handles, http/request and the sister APIs concern a single
// connection: after a cut, the server no longer knows what they name.
//
// If the server refuses, the error wraps a *protocol.Error.
func (c *Client) Call(ctx context.Context, method string, params, result any) error {
	if params != nil && !ofWire(reflect.TypeOf(params)) {
		raw, err := json.Marshal(params)
		if err != nil {
			return errorf("%s: params: %w", method, err)
		}
		params = json.RawMessage(raw)
	}
	if result == nil || ofWire(reflect.TypeOf(result)) {
		return c.call(ctx, method, params, result)
	}
	var raw json.RawMessage
	if err := c.call(ctx, method, params, &raw); err != nil {
		return err
	}
	if err := json.Unmarshal(raw, result); err != nil {
		return errorf("%s: result: %w", method, err)
	}
	return nil
}

// Go is Call without the wait. params is a value of package protocol, and result points to one, or is nil. done gets the error of Call, once: on the
// goroutine that reads the connection, which calls Options.Notified too, or on that of the caller. done must not block.
func (c *Client) Go(method string, params, result any, done func(error)) {
	k := &call{method: method, params: params, result: result}
	k.done = func() { done(k.err) }
	c.send(k)
}

// Acknowledge tells the server that the caller has all events of a process up to seq: see Options.Notified. A cut may lose what Acknowledge
// says: say it again when the client has resumed.
func (c *Client) Acknowledge(processID string, seq uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.acks[processID] = max(seq, c.acks[processID])
	c.ackDue = true
	c.kick()
}

// ofWire reports whether the codecs of package protocol encode values of type t themselves.
func ofWire(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t == reflect.TypeFor[json.RawMessage]() || t.PkgPath() == reflect.TypeFor[protocol.Empty]().PkgPath()
}

// A call is a request. If a connection breaks before the answer, the client sends the call again on the
// next connection. Because of start tokens, write ids and request ids (see repeatable), the server
// executes a repeated request only once.
type call struct {
	method string
	params any    // read with Client.mu held, only while the call is pending
	result any    // a pointer, or nil
	once   bool   // the call concerns only this connection, and is not repeated
	bound  uint64 // the only connection on which the call makes sense, as of Client.connN; 0: any
	silent bool   // the call is not sent: a notification is its answer
	kept   bool   // who no longer waits does not take the call back once it is sent
	done   func() // nil: nothing. Runs once, after err and result are set; must not block

	// Owned by the client.
	n        int64 // the order of sending
	id       protocol.ID
	sent     bool          // on this connection or an earlier one
	sends    int           // on how many connections the call was sent
	on       uint64        // the connection that brought the answer, as of Client.connN
	left     bool          // nobody waits any more
	answered chan struct{} // closed after done; nil: nobody waits
	err      error
}

// end gives the call its error, nil after an answer. The caller has removed the call from Client.pending.
func (k *call) end(err error) {
	k.err = err
	answered := k.answered // done may hand k over to another request
	if k.done != nil {
		k.done()
	}
	if answered != nil {
		close(answered)
	}
}

// call sends a request and waits for its answer, over any number of cuts. If ctx ends first, call
// returns and ignores the answer; the server may have executed the request.
func (c *Client) call(ctx context.Context, method string, params, result any) error {
	return c.await(ctx, &call{method: method, params: params, result: result})
}

// ask is call with a result of type R.
func ask[R any](ctx context.Context, c *Client, method string, params any) (result R, err error) {
	err = c.call(ctx, method, params, &result)
	return result, err
}

// await is call for a request of its caller.
func (c *Client) await(ctx context.Context, k *call) error {
	if ctx == nil {
		return errNilContext
	}
	k.answered = make(chan struct{})
	c.send(k)
	if !c.answers(ctx, k) {
		return &requestError{k.method, context.Cause(ctx)}
	}
	return k.err
}

// begin sends a request and does not wait. bound is the only connection for the request; 0: any.
func (c *Client) begin(bound uint64, method string, params, result any) *call {
	k := &call{method: method, params: params, result: result, bound: bound, answered: make(chan struct{})}
	c.send(k)
	return k
}

// wait waits for the answer. If ctx ends first, the client takes the call back and ignores the answer.
func (k *call) wait(ctx context.Context, c *Client) error {
	if !c.answers(ctx, k) {
		return context.Cause(ctx)
	}
	return k.err
}

// answers waits for the answer to k, and returns false if ctx ends first.
func (c *Client) answers(ctx context.Context, k *call) bool {
	select {
	case <-k.answered:
		return true
	case <-ctx.Done():
	}
	if c.leave(k) {
		return false
	}
	<-k.answered
	return true
}

// leave records that nobody waits for k any more, and returns false if the answer has come.
func (c *Client) leave(k *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[k.id] != k {
		return false
	}
	k.left = true
	if k.kept && k.sent {
		return true
	}
	delete(c.pending, k.id)
	if i := slices.Index(c.outbound, k); i >= 0 {
		c.outbound = slices.Delete(c.outbound, i, i+1)
	}
	return true
}

// repeatable names a request, so that the server executes the request once however often it comes.
func repeatable() protocol.Repeatable { return protocol.Repeatable{RequestID: rand.Text()} }

// send queues k after every earlier request.
func (c *Client) send(k *call) {
	c.mu.Lock()
	err := c.refusal(k.method)
	if err == nil && k.bound != 0 && (c.conn == nil || k.bound != c.connN) {
		err = errOldLink
	}
	if err == nil {
		c.queue(k)
	}
	c.mu.Unlock()
	if err != nil {
		k.end(err)
	}
}

// queue is send for a caller that holds c.mu and knows that the client is alive.
func (c *Client) queue(k *call) {
	c.number(k)
	if c.conn != nil && !k.silent { // without a connection, the next one takes k from pending
		c.outbound = append(c.outbound, k)
		c.kick()
	}
}

// number gives k its number, and makes k wait for an answer. The caller holds c.mu.
func (c *Client) number(k *call) {
	c.nextID++
	k.n, k.id, k.sent = c.nextID, protocol.IntID(c.nextID), false
	c.pending[k.id] = k
}

// refusal returns why the client does not send a request; nil: the client does.
func (c *Client) refusal(method string) error {
	if c.err == nil && c.closing && method != protocol.MethodSessionClose {
		return ErrClosed
	}
	return c.err
}

// kick wakes the writer.
func (c *Client) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}
