//go:build unix

package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/profile"
	"github.com/b6f6fdd7/troupe/internal/rpc"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A call is a request without an answer.
type call struct {
	n      uint64
	method string
	params any // repeatable has set an id, by which the server recognizes a repetition
	result any
	write  bool
	done   func(error)

	// Guarded by calls.mu.
	on    *link // the connection on which the request was sent; nil: no living connection
	sent  time.Time
	sends int
}

// calls has the requests of a session. Any goroutine may call any method.
type calls struct {
	mu       sync.Mutex
	err      error            // why the session has ended; nil: the session lives
	pending  map[uint64]*call // requests without an answer
	outbound []*call          // the pending requests not sent on the present connection, in order
	last     uint64           // the n of the newest request
	inFlight int              // requests sent on the present connection
	writes   int              // of pending
}

func newCalls() *calls { return &calls{pending: make(map[uint64]*call)} }

// add queues a request. run is the id of the load run.
func (c *calls) add(k *call, run string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case k.write && c.writes >= profile.MaxWrites:
		return fmt.Errorf("%d writes of this session wait for their answers: wait for some", c.writes)
	case k.write:
		c.writes++
	}
	c.last++
	k.n = c.last
	k.params = repeatable(k.params, run+"."+strconv.FormatUint(k.n, 36))
	c.pending[k.n] = k
	c.outbound = append(c.outbound, k)
	return nil
}

// claim takes k out of the pending requests, and reports whether k was pending. Whoever has claimed k calls k.done, or ignores the answer.
func (c *calls) claim(k *call) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.claimed(k)
}

// claimed works as claim. The caller holds c.mu.
func (c *calls) claimed(k *call) bool {
	if c.pending[k.n] != k {
		return false
	}
	delete(c.pending, k.n)
	if k.write {
		c.writes--
	}
	return true
}

// next takes the next request to send on l; nil: there is no request, or too many requests have no answer.
func (c *calls) next(l *link) *call {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.outbound) > 0 && c.inFlight < maxInFlight {
		k := c.outbound[0]
		c.outbound[0] = nil
		c.outbound = c.outbound[1:]
		if c.pending[k.n] != k {
			continue // the caller has given up
		}
		k.on, k.sent = l, time.Now()
		k.sends++
		c.inFlight++
		return k
	}
	return nil
}

// notSent counts k of next as not sent. With again, k is the next request again.
func (c *calls) notSent(k *call, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.on = nil
	c.inFlight--
	if again {
		c.outbound = slices.Insert(c.outbound, 0, k)
	}
}

// answered counts k as answered on l. lost means that the connection ended instead of an answer, or has lost the session to a takeover: the
// next connection sends k again. claimed says that the caller of answered has claimed k. again says that k was sent several times.
func (c *calls) answered(l *link, k *call, lost bool) (claimed, again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if k.on != l {
		return false, false
	}
	k.on = nil
	c.inFlight--
	return !lost && c.claimed(k), k.sends > 1
}

// overdue claims the requests sent on l that have no answer in time: the server owes their answers, and nobody waits for them any more.
func (c *calls) overdue(l *link, now time.Time, within time.Duration) (owed []*call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.pending {
		if k.on == l && now.Sub(k.sent) > k.within(within) {
			k.on = nil
			c.inFlight--
			c.claimed(k)
			owed = append(owed, k)
		}
	}
	return owed
}

// within returns how long the server may take to answer the request, if most requests have the time d. A start has more: beside the server, it
// needs the machine, where all other programs of the run start, too.
func (k *call) within(d time.Duration) time.Duration {
	if k.method == protocol.MethodProcessStart {
		return 3 * d
	}
	return d
}

// again makes all pending requests due on the next connection.
func (c *calls) again() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.outbound = c.outbound[:0]
	for _, k := range c.pending {
		c.outbound = append(c.outbound, k)
	}
	slices.SortFunc(c.outbound, func(a, b *call) int { return cmp.Compare(a.n, b.n) })
}

// none reports whether no request is pending.
func (c *calls) none() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.pending) == 0
}

// end refuses further requests with err, and fails the pending requests.
func (c *calls) end(err error) {
	c.mu.Lock()
	c.err = err
	pending := c.pending
	c.pending, c.outbound, c.writes = make(map[uint64]*call), nil, 0
	c.mu.Unlock()
	for _, k := range pending {
		k.done(fmt.Errorf("%s: %w", k.method, err))
	}
}

// collect reports the requests without an answer on l within answerWithin. After a cut, a request counts from its repetition.
func (s *session) collect(l *link) {
	for _, k := range s.calls.overdue(l, time.Now(), s.answerWithin) {
		s.owe(k, fmt.Sprintf("no answer within %v", k.within(s.answerWithin)))
	}
}

// owe reports a request whose answer is not there or cannot be right, and ends the wait for the answer.
func (s *session) owe(k *call, why string) {
	err := fmt.Errorf("%s: %s", k.method, why)
	s.foundAnswer(k.process(), err.Error())
	k.done(fmt.Errorf("%w: %w", err, profile.ErrAnswer))
}

// process returns the process that the request is about; "": none.
func (k *call) process() string {
	if p, ok := k.params.(interface{ Process() string }); ok {
		return p.Process()
	}
	return ""
}

// Call implements profile.Session.
func (s *session) Call(ctx context.Context, method string, params, result any) error {
	var failure error
	answered := make(chan struct{})
	k := &call{method: method, params: params, result: result, done: func(err error) {
		failure = err
		close(answered)
	}}
	if err := s.add(k); err != nil {
		return fmt.Errorf("%s: %w", method, err)
	}
	select {
	case <-answered:
	case <-ctx.Done():
		if s.calls.claim(k) {
			return fmt.Errorf("%s: no answer: %w", method, context.Cause(ctx))
		}
		<-answered
	}
	return failure
}

// Write implements profile.Session.
func (s *session) Write(process string, data []byte, done func(error)) error {
	answer := new(protocol.ProcessWriteResult)
	k := &call{
		method: protocol.MethodProcessWrite,
		params: protocol.ProcessWriteParams{ProcessID: process, Chunk: slices.Clone(data)},
		result: answer,
		write:  true,
		done: func(err error) {
			if err == nil && answer.Status != protocol.WriteAccepted {
				err = fmt.Errorf("process/write: the server answered %s", answer.Status)
			}
			done(err)
		},
	}
	if err := s.add(k); err != nil {
		return fmt.Errorf("process/write: %w", err)
	}
	return nil
}

// add queues a request.
func (s *session) add(k *call) error {
	err := s.calls.add(k, s.runID)
	if err == nil {
		s.signal()
	}
	return err
}

func (s *session) signal() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// repeatable returns params with an id by which our server recognizes a repetition (PROTOCOL.md, section 10.4): writeId, startToken or
// requestId. Other servers ignore startToken and requestId. An id set by the caller stays.
func repeatable(params any, id string) any {
	v := reflect.ValueOf(params)
	if v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return params
	}
	for _, name := range []string{"WriteID", "StartToken", "RequestID"} {
		if f := v.FieldByName(name); f.IsValid() && f.Kind() == reflect.String && f.Len() == 0 {
			own := reflect.New(v.Type()).Elem()
			own.Set(v)
			own.FieldByName(name).SetString(id)
			return own.Interface()
		}
	}
	return params
}

// send sends k on l. It returns false if the connection takes no more requests at the moment.
func (s *session) send(l *link, k *call) bool {
	err := l.conn.Go(k.method, k.params, func(payload []byte, err error) { s.answered(l, k, payload, err) })
	if err == nil {
		return true
	}
	busy := errors.Is(err, rpc.ErrBusy)
	s.calls.notSent(k, busy)
	if busy {
		return false
	}
	select { // the connection has ended, or params cannot be encoded
	case <-l.ended:
	case <-time.After(time.Second):
		if s.calls.claim(k) {
			k.done(fmt.Errorf("%s: %w", k.method, err))
		}
	}
	return true
}

// answered takes the answer to k, on the reading goroutine of l.
func (s *session) answered(l *link, k *call, payload []byte, err error) {
	var refused *protocol.Error
	lost := err != nil && (!errors.As(err, &refused) || refused.Kind() == protocol.KindEvicted)
	claimed, again := s.calls.answered(l, k, lost)
	s.signal()
	switch {
	case !claimed:
		return
	case err != nil && again && !s.Ours() && k.method == protocol.MethodProcessStart && strings.Contains(refused.Message, "already exists"):
		err = nil // the peer knows no startToken: the first start has reached the peer, and its answer was lost
	case err != nil:
		err = fmt.Errorf("%s: %w", k.method, refused)
	case k.result != nil:
		if wrong := l.conn.Unmarshal(payload, k.result); wrong != nil {
			err = fmt.Errorf("%s: the answer cannot be read: %w", k.method, wrong)
			s.foundAnswer(k.process(), err.Error())
		} else if r, ok := k.result.(*protocol.ProcessStartResult); ok && r.ProcessID != k.process() {
			s.owe(k, fmt.Sprintf("the answer names the process %q", r.ProcessID))
			return
		}
	}
	k.done(err)
}
