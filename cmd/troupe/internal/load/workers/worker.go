package workers

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
)

// maxStrangers bounds the connections whose other side has not proved its knowledge of the secret yet.
const maxStrangers = 16

// A Worker runs parts of loads for controllers that know the secret, one part at a time.
type Worker struct {
	Secret []byte // MinSecret bytes or more
	Build  string // the version of troupe: a controller of another version is refused

	// Run runs a plan and records its figures in rec. Run ends early when ctx is done, and at once when stop is closed. commands is nil
	// unless the plan has a Command.
	Run func(ctx context.Context, p plan.Plan, stop <-chan struct{}, rec *figures.Recorder) (commands *result.Commands, err error)

	// Dir returns a directory for the findings of a run, and a function to call after the run. Nil: findings are kept in the result only.
	Dir func() (dir string, clean func(), err error)

	// Stop is closed, after the end of the ctx of Serve, to end a running load at once. nil: never.
	Stop <-chan struct{}

	// Note gets log messages, each without a newline. Nil: nobody gets them.
	Note func(string)

	every time.Duration // from one update to the next; 0: a second. For tests
	busy  atomic.Bool
}

func (w *Worker) note(format string, a ...any) {
	if w.Note != nil {
		w.Note(fmt.Sprintf(format, a...))
	}
}

func checkSecret(secret []byte) error {
	if len(secret) < MinSecret {
		return fmt.Errorf("the secret has %d bytes, expected %d or more", len(secret), MinSecret)
	}
	return nil
}

// Serve serves controllers until ctx is done. Then Serve ends a running load, closes the listener and returns.
func (w *Worker) Serve(ctx context.Context, l net.Listener) error {
	defer l.Close()
	if err := checkSecret(w.Secret); err != nil {
		return err
	}
	config, err := serverTLS()
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { l.Close() })()
	var all sync.WaitGroup
	defer all.Wait()
	strangers := make(chan struct{}, maxStrangers)
	for {
		conn, err := l.Accept()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, net.ErrClosed):
			return err
		case err != nil: // such as a lack of descriptors, which may be temporary
			w.note("accept: %v", err)
			time.Sleep(100 * time.Millisecond)
			continue
		}
		strangers <- struct{}{}
		all.Go(func() {
			defer conn.Close()
			if err := w.serve(ctx, tls.Server(conn, config), sync.OnceFunc(func() { <-strangers })); err != nil {
				w.note("%s: %v", conn.RemoteAddr(), err)
			}
		})
	}
}

func (w *Worker) serve(ctx context.Context, conn *tls.Conn, known func()) error {
	defer known()
	hangUp := context.AfterFunc(ctx, func() { conn.NetConn().Close() })
	defer hangUp()
	mine := false
	free := sync.OnceFunc(func() {
		if mine {
			w.busy.Store(false)
		}
	})
	defer free()
	c, err := meet(conn, w.Secret, workerSide, w.Build, func() string {
		if mine = w.busy.CompareAndSwap(false, true); mine {
			return ""
		}
		return "it runs a load of another controller: wait for its end"
	})
	if err != nil || !mine {
		return err
	}
	known()
	w.note("%s is the controller", conn.RemoteAddr())
	return w.job(ctx, c, hangUp, free)
}

// job receives a job and runs the job until the controller has its result. Until keep is called, the end of ctx closes the connection. job
// calls keep when the run begins: from then on the controller gets a result even if ctx ends. job calls free before the last message: a
// controller that has got this message may begin the next load.
func (w *Worker) job(ctx context.Context, c *channel, keep func() bool, free func()) error {
	refuse := func(err error) error {
		free()
		c.write(&message{Update: &update{Done: true, Error: err.Error()}})
		return err
	}
	m, err := c.read()
	if err != nil {
		return fmt.Errorf("wait for a job: %w", err)
	}
	p := m.Job
	if p == nil {
		return errors.New("the controller sends no job")
	}
	if err := p.Check(); err != nil {
		return refuse(fmt.Errorf("the plan is refused: %w", err))
	}
	if err := c.write(&message{Ready: &struct{}{}}); err != nil {
		return err
	}
	for m.Start == nil {
		if m, err = c.read(); err != nil {
			return fmt.Errorf("wait for the start: %w", err)
		}
		switch {
		case m.Ping != nil:
			if err := c.write(&message{Pong: m.Ping}); err != nil {
				return err
			}
		case m.End != nil:
			return errors.New("the controller gave up before the start")
		}
	}
	start := time.NewTimer(min(time.Duration(*m.Start), lostAfter))
	defer start.Stop()
	select {
	case <-start.C:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if !keep() {
		return context.Cause(ctx)
	}

	dir, clean := "", func() {}
	if w.Dir != nil {
		if dir, clean, err = w.Dir(); err != nil {
			return refuse(err)
		}
	}
	defer clean()
	rec, err := figures.New(*p, dir)
	if err != nil {
		return refuse(err)
	}
	w.note("runs %d sessions with %d processes each", p.Sessions, p.Processes)
	err = w.run(ctx, c, *p, rec, free, dir)
	w.note("the run has ended")
	return errors.Join(err, rec.Close())
}

// run runs a plan. The controller ends the run by a message or by the end of the connection. The recorder writes its findings to a file in dir.
func (w *Worker) run(ctx context.Context, c *channel, p plan.Plan, rec *figures.Recorder, free func(), dir string) error {
	working := ctx // until this worker is ended
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop := make(chan struct{})
	stopNow := sync.OnceFunc(func() { close(stop) })
	var lost error // the error of the reader; valid after heard is closed
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		for {
			m, err := c.read()
			if err != nil {
				lost = fmt.Errorf("the controller is lost: %w", err)
				cancel(lost)
				return
			}
			if m.End == nil {
				continue // a ping: the controller lives
			}
			cancel(errors.New("the controller ends the run"))
			if m.End.Now {
				stopNow()
			}
		}
	}()

	type outcome struct {
		commands *result.Commands
		err      error
	}
	ended := make(chan outcome, 1)
	go func() {
		commands, err := w.Run(ctx, p, stop, rec)
		ended <- outcome{commands, err}
	}()
	tick := time.NewTicker(cmp.Or(w.every, time.Second))
	defer tick.Stop()
	var s sender
	stopped := w.Stop
	for {
		select {
		case <-stopped:
			stopped = nil
			stopNow()
		case <-tick.C:
			if err := s.send(c, rec.Now(), nil); err != nil {
				cancel(err) // the reader gets an error, too
			}
		case o := <-ended:
			r := rec.Now()
			r.Commands = o.commands
			file := filepath.Join(dir, figures.FindingsName)
			if _, err := os.Stat(file); err == nil && dir != "" {
				found := fmt.Sprintf("What was wrong in the part of worker %d is in %s on %s: troupe load --replay checks it again there.", p.Worker, file, r.Hosts[0].Name)
				r.Notes = append(r.Notes, found)
				w.note("%s", found)
			}
			last := &update{Done: true}
			switch {
			case o.err != nil:
				last.Error = o.err.Error()
			case working.Err() != nil:
				last.Error = "somebody ended this worker during the run"
			}
			free()
			err := s.send(c, r, last)
			c.conn.CloseWrite()
			<-heard // the controller closes the connection after it has received the result
			if err != nil {
				return fmt.Errorf("the controller did not get the result: %w", err)
			}
			return nil
		}
	}
}

// A sender remembers what the controller has: how many seconds, of which length, and how many findings.
type sender struct {
	seconds, findings int
	step              time.Duration
}

// send sends the figures r, with the new ones of its seconds and findings only.
func (s *sender) send(c *channel, r *result.Result, u *update) error {
	if u == nil {
		u = &update{}
	}
	s.cut(r, u)
	return c.write(&message{Update: u})
}

// cut puts r into u without the seconds and findings that the controller has. The last second may still change, so the next update repeats it.
// In a run longer than its plan the recorder joins its seconds to longer ones: then the update has them all.
func (s *sender) cut(r *result.Result, u *update) {
	if r.Step != s.step {
		s.seconds, s.step = 0, r.Step
	}
	u.Seconds, u.Findings = min(s.seconds, len(r.Seconds)), min(s.findings, len(r.Findings))
	s.seconds, s.findings = max(0, len(r.Seconds)-1), len(r.Findings)
	r.Seconds, r.Findings = r.Seconds[u.Seconds:], r.Findings[u.Findings:]
	u.Result = r
}
