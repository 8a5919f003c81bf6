//go:build unix

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/spec"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/nodeid"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	workerTTL   = 2 * time.Minute  // of a worker's session without this program
	workerStart = 2 * time.Minute  // for a worker to say that it can begin, and the time of an answer of the server under load
	workerEnd   = 15 * time.Second // for the end of a worker that need not begin, for the end of a session, and for a signal to get there
	workerHard  = 5 * time.Second  // for the result of a worker, once the run ends at once
	// workerSlack is how long a worker may run beyond the time of its phases. troupe load itself gives up earlier, at each of its steps.
	workerSlack = 10 * time.Minute

	maxWorkerResult = 256 << 20 // bytes of JSON
	maxWorkerLine   = 4 << 10   // bytes of a line of stderr
)

// A loadWorker is a troupe load on a server. Its session is of this program alone.
type loadWorker struct {
	n    int // from 1 on
	plan plan.Plan

	client  *client.Client
	node    string // the id of the node; "": the server is alone
	program string // the path of troupe there
	cmd     *client.Cmd
	in      io.WriteCloser
	pipe    io.Closer     // of stdout
	out     *bufio.Reader // of pipe
	errs    *prefixed
	ahead   time.Duration // what to add to a time of the worker's clock for that of ours
	started time.Time     // by our clock
}

func (w *loadWorker) String() string { return fmt.Sprintf("worker %d", w.n) }

// loadByWorkers does the load of p by p.Workers workers, and returns the sum of their results. An error means that the load did not begin, or
// that no worker has a result.
func (o *loadFlags) loadByWorkers(ctx context.Context, p plan.Plan, own *loadServer, stderr io.Writer) (*result.Result, error) {
	if err := p.Complete(); err != nil {
		return nil, err
	}
	at, err := o.workersTarget(ctx, &p)
	if err != nil {
		return nil, err
	}
	stderr = &locked{to: stderr}
	note := o.noteTo(stderr)
	var workers []*loadWorker
	for i, part := range p.Deal() {
		w := &loadWorker{n: i + 1, plan: part}
		w.errs = &prefixed{to: stderr, prefix: w.String() + ": "}
		workers = append(workers, w)
	}
	defer o.endWorkers(workers)
	if err := o.openWorkers(ctx, workers, at); err != nil {
		return nil, err
	}
	remove, err := o.uploadToWorkers(ctx, workers, at, note)
	if err != nil {
		return nil, err
	}
	defer remove()
	if err := o.startWorkers(ctx, workers); err != nil {
		o.dismissWorkers(workers)
		return nil, err
	}
	if nodes := nodesOf(workers); nodes != "" {
		note("the workers run on " + nodes)
	}
	if own != nil {
		over := make(chan struct{})
		defer close(over)
		go func() {
			select {
			case <-own.Ended: // with the workers: nobody waits for a link that will not come back
				leaveWorkers(workers)
			case <-over:
			}
		}()
	}
	return o.workersResult(ctx, p, workers, note)
}

// workersTarget returns where the workers start.
func (o *loadFlags) workersTarget(ctx context.Context, p *plan.Plan) (*target.Target, error) {
	if o.workersAt == "" {
		return o.servers[p.Servers[0]], nil
	}
	f := o.target.For(o.workersAt)
	t, err := f.Target()
	if err != nil {
		return nil, fmt.Errorf("--workers-at: %w", err)
	}
	if t.Local {
		c, err := f.Control(ctx) // starts it when needed
		if err != nil {
			return nil, fmt.Errorf("--workers-at: %w", err)
		}
		c.Close()
	}
	if p.Program == "" && !o.copied && isElsewhere(t.URL) {
		return nil, unknownProgram(t.URL)
	}
	if o.servers[t.URL] == nil {
		o.servers[t.URL] = t
	}
	return t, nil
}

// openWorkers opens the sessions of the workers.
func (o *loadFlags) openWorkers(ctx context.Context, workers []*loadWorker, at *target.Target) error {
	open := func(ctx context.Context, w *loadWorker, key string) (err error) {
		placement, err := spec.Placement(o.workersLabels, "", key)
		if err != nil {
			return err
		}
		w.client, err = o.dial(ctx, at.URL, &client.Options{Name: "troupe-load", SessionName: "load " + w.String(), DetachedTTL: workerTTL, Placement: placement})
		if err != nil {
			return fmt.Errorf("%v: no session on %s: %w", w, at.URL, err)
		}
		w.node = nodeid.Of(w.client.SessionID())
		return nil
	}
	all, opening := errgroup.WithContext(ctx)
	for _, w := range workers {
		all.Go(func() error { return open(opening, w, "") })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	spread(workers, func(w *loadWorker, key string) (other loadWorker, err error) {
		other = *w
		err = open(ctx, &other, key)
		return other, err
	}, func(w *loadWorker) { w.client.CloseSession(ctx) })
	return nil
}

// maxMoves is how often spread looks for another node.
const maxMoves = 32

// spread moves workers from nodes with many of them to nodes with few. The cluster does not spread them by itself: a worker that has not begun is no load.
// A session with a new key comes to any node. open returns the worker with such a session, and end ends one that is not needed.
// After an error of open, the workers stay where they are.
func spread(workers []*loadWorker, open func(w *loadWorker, key string) (loadWorker, error), end func(*loadWorker)) {
	count := make(map[string]int)
	for _, w := range workers {
		count[w.node]++
	}
	for range maxMoves {
		from := slices.MaxFunc(workers, func(a, b *loadWorker) int { return count[a.node] - count[b.node] })
		if from.node == "" || count[from.node] == 1 {
			return
		}
		to, err := open(from, rand.Text())
		if err != nil {
			return
		}
		if count[to.node]+1 < count[from.node] {
			count[from.node]--
			count[to.node]++
			from.client, to.client, from.node = to.client, from.client, to.node
		}
		end(&to)
	}
}

// uploadToWorkers sets the paths of troupe. With --upload, it copies troupe once to each node. The caller calls remove before the sessions end.
func (o *loadFlags) uploadToWorkers(ctx context.Context, workers []*loadWorker, at *target.Target, note func(string)) (remove func(), err error) {
	remove = func() {}
	self, err := os.Executable()
	if err != nil {
		return remove, err
	}
	if alone := workers[0].node == ""; !o.copied || alone && at.URL == workers[0].plan.Servers[0] { // the copy for the load is there
		for _, w := range workers {
			w.program = cmp.Or(w.plan.Program, self)
		}
		return remove, nil
	}
	first := make(map[string]*loadWorker) // by node
	for _, w := range workers {
		if first[w.node] == nil {
			first[w.node] = w
			w.program = newUploadDir() + "/troupe"
		}
		w.program = first[w.node].program
	}
	remove = func() {
		ctx, cancel := o.within(removeTime, removeAtOnce)
		defer cancel()
		var all sync.WaitGroup
		for _, w := range first {
			all.Go(func() {
				if _, err := script(ctx, w.client, removeScript, path.Dir(w.program), nil); err != nil {
					note(fmt.Sprintf("%v: the copy of troupe in %s is still there: %v", w, path.Dir(w.program), err))
				}
			})
		}
		all.Wait()
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, w := range first {
		all.Go(func() error {
			if err := copyTo(ctx, w.client, path.Dir(w.program)); err != nil {
				return fmt.Errorf("%v: --upload to %s: %w", w, at.URL, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		remove()
		return func() {}, err
	}
	return remove, nil
}

// startWorkers starts the workers, and lets them begin together once each is ready.
func (o *loadFlags) startWorkers(ctx context.Context, workers []*loadWorker) error {
	t := o.servers[workers[0].plan.Servers[0]]
	token := ""
	var err error
	if t.Token != nil {
		if token, err = t.Token(); err != nil {
			return err
		}
	}
	pem, err := t.PEM()
	if err != nil {
		return err
	}
	all, ctx := errgroup.WithContext(ctx)
	for _, w := range workers {
		all.Go(func() error {
			if err := w.start(ctx, token, workerJob{Plan: w.plan, TLS: pem, Quiet: o.quiet}); err != nil {
				return fmt.Errorf("%v: %s %s: %w", w, w.program, workerCommand, err)
			}
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for _, w := range workers {
		w.started = time.Now()
		if _, err := io.WriteString(w.in, "\n"); err != nil {
			return fmt.Errorf("%v did not begin: %w", w, err)
		}
	}
	return nil
}

// command returns the command of a worker.
func (w *loadWorker) command(token string) *client.Cmd {
	cmd := w.client.Command(w.program, workerCommand)
	cmd.ID, cmd.Dir, cmd.EnvPolicy, cmd.Stderr = "load-worker", "/", client.InheritEnv(), w.errs
	if token != "" {
		cmd.Env = []string{"TROUPE_TOKEN=" + token}
	}
	return cmd
}

// start starts the program of the worker, and waits until the program is ready.
func (w *loadWorker) start(ctx context.Context, token string, job workerJob) error {
	within := workerStart + time.Duration(w.plan.AnswerWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, within, fmt.Errorf("it was not ready within %v", within))
	defer cancel()
	text, err := json.Marshal(job)
	if err != nil {
		return err
	}
	w.cmd = w.command(token)
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	w.pipe, w.out = out, bufio.NewReader(io.LimitReader(out, maxWorkerResult))
	if err := w.cmd.Start(ctx); err != nil {
		return err
	}
	unhook := context.AfterFunc(ctx, func() { out.Close() }) // ends the Read, whatever the server does
	go w.in.Write(append(text, '\n'))
	line, err := w.out.ReadBytes('\n')
	if !unhook() {
		return context.Cause(ctx)
	}
	var ready workerReady
	switch {
	case errors.Is(err, io.EOF):
		return cmp.Or(w.failure(ctx), errors.New("it ended"))
	case err != nil:
		return err
	case json.Unmarshal(line, &ready) != nil || ready.Now.IsZero():
		return fmt.Errorf("it printed %q: both must be the same build of troupe", show.Cut(string(bytes.TrimSpace(line)), 80))
	case ready.Version != version():
		return fmt.Errorf("it is troupe %s, and this is troupe %s: both must be the same build", show.Cut(ready.Version, 40), version())
	}
	w.ahead = time.Since(ready.Now)
	return nil
}

// failure returns why the program of the worker ended.
func (w *loadWorker) failure(ctx context.Context) error {
	err := w.cmd.Wait(ctx)
	if last := w.errs.last(); err != nil && last != "" {
		err = fmt.Errorf("%w: %s", err, last)
	}
	return err
}

// workersResult waits for the results of the workers, and adds them up. A worker without a result is a problem of the sum.
func (o *loadFlags) workersResult(ctx context.Context, p plan.Plan, workers []*loadWorker, note func(string)) (*result.Result, error) {
	defer context.AfterFunc(ctx, func() { signalWorkers(workers, protocol.SignalInterrupt) })()
	defer context.AfterFunc(o.hard, func() {
		signalWorkers(workers, protocol.SignalInterrupt)
		time.AfterFunc(workerHard, func() {
			signalWorkers(workers, protocol.SignalKill)
			time.AfterFunc(removeAtOnce, func() { leaveWorkers(workers) })
		})
	})()
	late := time.AfterFunc(time.Duration(p.Ramp)+p.Took()+workerSlack, func() {
		note(fmt.Sprintf("workers that have not ended %v after the last phase are killed", workerSlack))
		signalWorkers(workers, protocol.SignalKill)
	})
	defer late.Stop()
	results, errs := make([]*result.Result, len(workers)), make([]error, len(workers))
	var all sync.WaitGroup
	for i, w := range workers {
		all.Go(func() { results[i], errs[i] = w.result() })
	}
	all.Wait()
	return sumOfWorkers(p, workers, results, errs)
}

// result waits for the result of the worker.
func (w *loadWorker) result() (*result.Result, error) {
	text, err := io.ReadAll(w.out)
	w.in.Close()
	w.pipe.Close() // at the limit, there is more
	if err != nil {
		return nil, err
	}
	r := new(result.Result)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, cmp.Or(w.failure(context.Background()), fmt.Errorf("its result of %d bytes is not readable: %w", len(text), err))
	}
	r.Began = r.Began.Add(w.ahead)
	return r, nil
}

// sumOfWorkers adds up the results of workers. nil: this worker has none, and errs says why.
func sumOfWorkers(p plan.Plan, workers []*loadWorker, results []*result.Result, errs []error) (*result.Result, error) {
	var parts []result.Part
	var lost []string
	for i, w := range workers {
		if results[i] != nil {
			parts = append(parts, result.Part{File: w.String(), Node: w.node, Result: results[i]})
			continue
		}
		where := ""
		if w.node != "" {
			where = " on " + w.node
		}
		errs[i] = fmt.Errorf("%v%s was lost, with its part of the figures: %w", w, where, errs[i])
		lost = append(lost, errs[i].Error())
	}
	if len(parts) == 0 {
		return nil, errors.Join(errs...)
	}
	sum := result.MergeWorkers(p, parts)
	sum.Problems = append(lost, sum.Problems...)
	for i, w := range workers {
		if results[i] == nil {
			sum.Runs = append(sum.Runs, result.Run{File: w.String(), Node: w.node, Sessions: w.plan.Sessions, Began: w.started, Seed: w.plan.Seed})
		}
	}
	return sum, nil
}

// signalWorkers sends a signal to each worker that runs, and does not wait.
func signalWorkers(workers []*loadWorker, sig protocol.Signal) {
	for _, w := range workers {
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), workerEnd)
			defer cancel()
			w.cmd.Signal(ctx, sig) // a worker that cannot be reached is lost soon
		}()
	}
}

// dismissWorkers ends workers that need not begin, and gives them time to close their sessions on the server under load.
func (o *loadFlags) dismissWorkers(workers []*loadWorker) {
	ctx, cancel := o.within(workerEnd, removeAtOnce)
	defer cancel()
	var all sync.WaitGroup
	for _, w := range workers {
		if w.cmd != nil {
			all.Go(func() {
				if w.cmd.Signal(ctx, protocol.SignalInterrupt) == nil {
					go io.Copy(io.Discard, w.out)
					w.cmd.Wait(ctx)
				}
			})
		}
	}
	all.Wait()
}

// leaveWorkers closes the connections to the workers, and does not wait: nothing more comes from them.
func leaveWorkers(workers []*loadWorker) {
	for _, w := range workers {
		go w.client.Close()
	}
}

// endWorkers ends the sessions of the workers, with what still runs there.
func (o *loadFlags) endWorkers(workers []*loadWorker) {
	ctx, cancel := o.within(workerEnd, removeAtOnce)
	defer cancel()
	var all sync.WaitGroup
	for _, w := range workers {
		if w.client != nil {
			all.Go(func() { w.client.CloseSession(ctx) }) // otherwise it ends after workerTTL
		}
	}
	all.Wait()
	for _, w := range workers {
		w.errs.flush()
	}
}

// nodesOf returns the nodes of the workers, as in "a-1 (2), b-1"; "": they are on no nodes.
func nodesOf(workers []*loadWorker) string {
	count := make(map[string]int)
	for _, w := range workers {
		count[w.node]++
	}
	if count[""] > 0 {
		return ""
	}
	var nodes []string
	for _, node := range slices.Sorted(maps.Keys(count)) {
		if n := count[node]; n > 1 {
			node += fmt.Sprintf(" (%d)", n)
		}
		nodes = append(nodes, node)
	}
	return strings.Join(nodes, ", ")
}

// locked is a Writer for several goroutines.
type locked struct {
	mu sync.Mutex
	to io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.to.Write(p)
}

// prefixed writes whole lines, each with a prefix and harmless for a terminal. Any goroutine may call any method.
type prefixed struct {
	to     io.Writer
	prefix string

	mu   sync.Mutex
	open []byte // of a line, at most maxWorkerLine
	line string // the last whole one
}

func (p *prefixed) Write(text []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for line := range bytes.Lines(text) {
		ended := line[len(line)-1] == '\n'
		line = bytes.TrimRight(line, "\r\n")
		p.open = append(p.open, line[:min(len(line), maxWorkerLine-len(p.open))]...)
		if ended {
			p.end()
		}
	}
	return len(text), nil // nobody ends a worker because stderr is full
}

// end writes the line that is open. The caller holds mu.
func (p *prefixed) end() {
	p.line = show.Harmless(string(p.open))
	p.open = p.open[:0]
	fmt.Fprintf(p.to, "%s%s\n", p.prefix, p.line)
}

// flush writes a last line without its end.
func (p *prefixed) flush() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.open) > 0 {
		p.end()
	}
}

// last returns the last line.
func (p *prefixed) last() string {
	p.flush()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.line
}
