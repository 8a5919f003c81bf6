package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/tests/internal/stream"
	"github.com/b6f6fdd7/troupe/transport"
)

// A witness is the well-behaved client beside an attack. A witness types at a terminal, and reads a
// stream of known bytes. Every few seconds the connection of the stream is cut, and the witness
// resumes. The witness also opens new sessions, runs a program and looks at a file in each, and asks
// for the server's health. The witness counts every error.
type witness struct {
	t     *target          // for the witness alone
	harms func(error) bool // reports whether an error does not count against the server; may be nil

	// Each short action of the witness holds round for reading; pause holds round for writing.
	round sync.RWMutex

	typist, reader *client.Client
	stream         *client.Cmd
	end            io.Closer // of the stream's stdin
	check          *stream.Checker
	wire           atomic.Pointer[transport.Conn] // the connection of reader

	mu       sync.Mutex
	echoes   []time.Duration
	errors   int
	first    error // the first of errors that is not among harms
	refusals int   // refused starts
	rounds   [4]int
	cuts     int // cuts of the stream's connection
	resumes  int // resumes after these cuts
}

// The kinds of rounds.
const (
	echoRound = iota
	sessionRound
	healthRound
	cutRound
)

// streamRate limits the witness's reading of its stream, in bytes a second.
const streamRate = 2 << 20

// slowly is a Writer limited to streamRate.
type slowly struct {
	w    io.Writer
	bad  func(error)
	next time.Time
}

func (s *slowly) Write(p []byte) (int, error) {
	n, err := s.w.Write(p)
	if err != nil {
		s.bad(err)
		return len(p), nil // read on: everything after a wrong byte is the same error
	}
	if now := time.Now(); s.next.Before(now) {
		s.next = now
	}
	s.next = s.next.Add(time.Duration(n) * time.Second / streamRate)
	time.Sleep(time.Until(s.next))
	return n, nil
}

func newWitness(ctx context.Context, t *target, harms func(error) bool) (w *witness, err error) {
	w = &witness{t: t, harms: harms}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.typist, err = client.Dial(ctx, t.server.url, &client.Options{Name: "typist", Token: func() (string, error) { return t.bearer, nil }, TLS: t.keys.tls()}); err != nil {
		return nil, err
	}
	w.reader, err = client.Dial(ctx, t.server.url, &client.Options{Name: "reader", Dialer: func(ctx context.Context) (transport.Conn, error) {
		c, err := transport.Dial(ctx, t.server.url, &transport.DialOptions{Subprotocols: []string{transport.SubprotocolMsgpack}, Header: header(t.bearer), TLS: t.keys.tls()})
		if err == nil {
			w.wire.Store(&c)
		}
		return c, err
	}, Resumed: func() { w.count(func() { w.resumes++ }) }})
	if err != nil {
		return nil, err
	}
	w.stream = w.reader.Command(t.self, childArg, "stream", "source", "-1")
	w.check = stream.NewChecker(1)
	once := sync.Once{}
	w.stream.Stdout = &slowly{w: w.check, bad: func(err error) { once.Do(func() { w.wrong("stream", err) }) }}
	stdin, stdinEnd := io.Pipe()
	w.stream.Stdin, w.end = stdin, stdinEnd
	return w, w.stream.Start(ctx)
}

func (w *witness) close() {
	for _, c := range []*client.Client{w.typist, w.reader} {
		if c != nil {
			c.Close()
		}
	}
}

func (w *witness) count(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// wrong counts an error.
func (w *witness) wrong(what string, err error) {
	w.count(func() {
		w.errors++
		if err := fmt.Errorf("%s: %w", what, err); w.first == nil && (w.harms == nil || !w.harms(err)) {
			w.first = err
		}
	})
}

// pause waits for the end of the running rounds, and prevents new rounds until resume. Three
// connections, their sessions and the stream remain.
func (w *witness) pause()  { w.round.Lock() }
func (w *witness) resume() { w.round.Unlock() }

// run makes rounds until ctx is done.
func (w *witness) run(ctx context.Context) {
	var rounds sync.WaitGroup
	repeat := func(kind int, every time.Duration, round func(context.Context) error) {
		rounds.Go(func() {
			tick := time.NewTicker(every)
			defer tick.Stop()
			for ctx.Err() == nil && w.t.server.alive() {
				w.round.RLock()
				if ctx.Err() == nil {
					bounded, cancel := context.WithTimeout(ctx, answerWithin)
					err := round(bounded)
					cancel()
					w.count(func() { w.rounds[kind]++ })
					if err != nil && ctx.Err() == nil {
						w.wrong(roundNames[kind], err)
					}
				}
				w.round.RUnlock()
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	if keyboard, err := w.newKeyboard(ctx); err != nil {
		w.wrong("terminal", err)
	} else {
		repeat(echoRound, 20*time.Millisecond, keyboard.press)
	}
	repeat(sessionRound, 250*time.Millisecond, w.session)
	repeat(healthRound, 500*time.Millisecond, w.t.healthz)
	repeat(cutRound, time.Second, func(context.Context) error {
		w.mu.Lock()
		back := w.resumes >= w.cuts
		if back {
			w.cuts++
		}
		w.mu.Unlock()
		if wire := w.wire.Load(); back && wire != nil {
			(*wire).Close(transport.CloseGoingAway, "")
		}
		return nil
	})
	rounds.Wait()
}

var roundNames = [...]string{"echo", "session", "healthz", "cut"}

// warm waits until every kind of round was made.
func (w *witness) warm(ctx context.Context) error {
	for {
		w.mu.Lock()
		done, err := w.rounds[echoRound] >= 10 && w.rounds[sessionRound] > 1 && w.rounds[healthRound] > 0, w.first
		w.mu.Unlock()
		if done || err != nil {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.t.server.exited:
			return fmt.Errorf("the server has ended: %s", w.t.server.reason())
		}
	}
}

// goesOn waits until the witness has made another round of each kind without an error, and has resumed
// once more.
func (w *witness) goesOn(ctx context.Context) error {
	look := func() (made [5]int, errors int) {
		w.mu.Lock()
		defer w.mu.Unlock()
		copy(made[:], w.rounds[:])
		made[4] = w.resumes
		return made, w.errors
	}
	begin, failed := look()
	return eventually(ctx, answerWithin, func() error {
		now, errors := look()
		for i, name := range []string{"echo", "new session", "answer to /healthz", "cut", "resume"} {
			// The round already running at the beginning does not count.
			if more := now[i] - begin[i]; errors == failed && (more == 0 || more == 1 && i < cutRound) {
				return fmt.Errorf("the well-behaved client had no %s", name)
			}
		}
		return nil
	})
}

// echoed returns how many echoes have come.
func (w *witness) echoed() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.echoes)
}

// forget drops the echo times so far.
func (w *witness) forget() { w.count(func() { w.echoes = nil }) }

// p99 returns the 99th percentile of the echo times, or 0 without echoes.
func (w *witness) p99() time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.echoes) == 0 {
		return 0
	}
	slices.Sort(w.echoes)
	return w.echoes[len(w.echoes)*99/100]
}

// session opens a session, runs a program, looks at a file and closes the session.
func (w *witness) session(ctx context.Context) error {
	closed := make(chan struct{})
	var once sync.Once
	p, err := w.t.dialOnce(ctx)
	if err != nil {
		return err
	}
	defer p.cut()
	p.notify = func(n peerNotice) {
		if n.Method == "process/closed" {
			once.Do(func() { close(closed) })
		}
	}
	go p.read()
	if err := p.initialize(ctx, obj{"session": obj{"detachedTtlMs": 5000}}); err != nil {
		return err
	}
	err = p.call(ctx, "process/start", program("true", "/bin/true"), nil)
	if e := refusal(err); e != nil && (e.Code == -32603 || e.Code == -32600) {
		w.count(func() { w.refusals++ })
	} else if err != nil {
		return err
	} else {
		select {
		case <-closed:
		case <-p.done:
			return fmt.Errorf("/bin/true: %w", p.ended())
		case <-ctx.Done():
			return errors.New("/bin/true was started, and has not closed in time")
		}
	}
	if err := p.call(ctx, "fs/getMetadata", obj{"path": "file:///etc/passwd"}, nil); err != nil {
		return err
	}
	return p.call(ctx, "session/close", obj{}, nil)
}

// dialOnce is dial for a connection that the caller ends.
func (t *target) dialOnce(ctx context.Context) (*peer, error) {
	once := &target{server: t.server, keys: t.keys, bearer: t.bearer}
	return once.dial(ctx, dialOptions{deaf: true})
}

// A keyboard is a terminal whose program reads silently, so each byte that comes back is an echo of the
// terminal.
type keyboard struct {
	w      *witness
	typed  chan byte
	echoed chan struct{} // a token for each byte
	n      int
}

func (w *witness) newKeyboard(ctx context.Context) (*keyboard, error) {
	k := &keyboard{w: w, typed: make(chan byte, 64), echoed: make(chan struct{}, 64)}
	cmd := w.typist.Command("/bin/sh", "-c", "exec cat >/dev/null")
	cmd.TTY = true
	cmd.Stdin, cmd.Stdout = k, k
	return k, cmd.Start(ctx)
}

// Read passes a key on to the server. Read never returns an end: the goroutine of the client waiting in
// Read ends with this program.
func (k *keyboard) Read(p []byte) (int, error) {
	p[0] = <-k.typed
	return 1, nil
}

func (k *keyboard) Write(p []byte) (int, error) {
	for range p {
		select {
		case k.echoed <- struct{}{}:
		default: // later than answerWithin: already counted as an error
		}
	}
	return len(p), nil
}

// press types a key and waits for the echo. Now and then the key is a newline: a line of a terminal is
// limited to 4 KiB.
func (k *keyboard) press(ctx context.Context) error {
	k.n++
	key, echo := byte('k'), 1
	if k.n%1000 == 0 {
		key, echo = '\n', 2
	}
	begin := time.Now()
	select {
	case k.typed <- key:
	case <-ctx.Done():
		return fmt.Errorf("no key was taken within %v", answerWithin)
	}
	for range echo {
		select {
		case <-k.echoed:
		case <-ctx.Done():
			return fmt.Errorf("no echo within %v", answerWithin)
		}
	}
	k.w.count(func() { k.w.echoes = append(k.w.echoes, time.Since(begin)) })
	return nil
}

// finish ends the stream, checks for its last byte, and closes the sessions.
func (w *witness) finish(ctx context.Context) error {
	defer w.close()
	w.end.Close()
	if err := w.stream.Wait(ctx); err != nil {
		return fmt.Errorf("the stream: %w", err)
	}
	if err := w.check.End(); err != nil {
		return err
	}
	if err := w.reader.CloseSession(ctx); err != nil {
		return fmt.Errorf("closing the stream's session: %w", err)
	}
	if err := w.typist.CloseSession(ctx); err != nil {
		return fmt.Errorf("closing the terminal's session: %w", err)
	}
	return nil
}
