package child

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/internal/sandbox/mode"
	"github.com/b6f6fdd7/troupe/internal/sandbox/placeholder"
)

// Start starts a child and calls done with the child, or with the reason for the failure. Nothing
// of the child reaches in before done is called. done must not block. Start never blocks either;
// the caller must have at most one outstanding start for each process.
//
// If a holder has a child with this name, nothing is started: done gets that child.
func (h *Host) Start(spec Spec, in *Intake, done func(Handle, error)) {
	if h.startFound(&spec, in, done) {
		return
	}
	h.enter(&spec, func(ctx context.Context, t *turn, after time.Duration, answer func(func())) {
		h.start(ctx, t, after, &spec, in, func(b Born, tree *trees.Tree, err error) {
			if err != nil {
				answer(func() { done(nil, err) })
				return
			}
			p := h.adopt(b, tree, in, spec.StdinRate)
			answer(func() {
				done(p, nil)
				p.watch()
			})
		})
	}, func(err error) { done(nil, err) })
}

// Ask calls ask, which may wait for files and for the database of users, and then done with the error of ask. The
// time and the turns of a start hold for ask: if ask hangs, done gets ErrNoAnswer, which names the step that ask has told last (at the
// beginning the look-up of the user). Ask uses spec.Owner and spec.Context alone. Neither Ask nor done may block.
func (h *Host) Ask(spec Spec, ask func(step func(what string)) error, done func(error)) {
	h.enter(&spec, func(ctx context.Context, t *turn, after time.Duration, answer func(func())) {
		err := t.call(ctx, after, func(step func(string)) (err error) {
			defer h.recovered(nil, &err)
			step("look-up of the user")
			return ask(step)
		})
		t.leave()
		answer(func() { done(err) })
	}, done)
}

// enter queues for a turn, and calls run on a goroutine. after is how long run may wait for a filesystem. In the end run, or another goroutine,
// calls answer with the function that answers. If the host is closing, or if run hangs, refused is called instead of that function.
func (h *Host) enter(spec *Spec, run func(ctx context.Context, t *turn, after time.Duration, answer func(func())), refused func(error)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closing {
		go refused(ErrClosed)
		return
	}
	ctx, cancel := context.WithCancelCause(h.open)
	t, after := h.turns.enter(spec.Owner), h.answerTime
	h.starts.Add(1)
	var once sync.Once
	first := func(f func()) {
		once.Do(func() {
			defer h.starts.Done()
			f()
		})
	}
	t.giveUp = func(why error) { first(func() { refused(why) }) }
	left := func() bool { return true }
	if outer := spec.Context; outer != nil {
		left = context.AfterFunc(outer, func() { cancel(context.Cause(outer)) })
	}
	go run(ctx, t, after, func(f func()) {
		first(f)
		left()
		cancel(nil)
	})
}

// Born is a child whose program runs, as plain data: what another process needs to take it over.
type Born struct {
	trees.Trace     // finds the child and its descendants
	PID         int // of a direct child of this program that nobody has waited for

	// Our ends of its streams, in non-blocking mode. Nil: the child has no such stream. With a TTY there is no other.
	TTY, Stdin, Stdout, Stderr *os.File
	StdinQueue                 int // as Spec.StdinQueue

	held *placeholder.Held // of the sandbox; nil: none

	// Jail is the socket on which the jail of the child tells how the program has ended; nil: the child has none.
	Jail *os.File
	// Sandbox and SandboxLevel are as of Handle.Sandbox.
	Sandbox, SandboxLevel string
	IsInit                bool // the child is process 1 of a sandbox, and the program its first child
}

// undo has what a start must give back if it fails.
type undo []func()

func (u *undo) add(f func()) { *u = append(*u, f) }

// all gives back everything, the newest first.
func (u undo) all() {
	for _, f := range slices.Backward(u) {
		f()
	}
}

// start starts a child, and calls done, which may be on another goroutine. A failed start leaves nothing behind, with one exception: a child
// that hangs before its program runs is killed, and keeps the turn t and its tree to its end. after is how long each of two steps may wait
// for a filesystem: the look-up, and the execution of the program.
func (h *Host) start(ctx context.Context, t *turn, after time.Duration, spec *Spec, in *Intake, done func(Born, *trees.Tree, error)) {
	// The program, its directory, its user and its sandbox, as far as the rule allows them. No other program has the name.
	var path string
	apart := false // the child may hang before its program runs, or has steps of its own
	err := t.call(ctx, after, func(step func(string)) (err error) {
		defer h.recovered(spec.Argv, &err)
		step("end of what dead servers have left")
		h.awaitTidy() // a cgroup that no tree has yet would be taken for a lost one
		if err := h.awaitStray(spec.Name, step); err != nil {
			return err
		}
		path, apart, err = h.look(spec, step)
		return err
	})
	bear := func(thread *forker) {
		if spec.Forks != nil {
			spec.Forks()
		}
		done(h.bear(ctx, t, after, spec, in, path, thread))
	}
	switch {
	case err != nil:
		h.releasePlaces(spec.held)
		spec.closeDir()
		t.leave()
		done(Born{}, nil, err)
	case apart:
		bear(nil)
	default: // the number of threads bounds the starts from here on, and that of turns those that may hang
		t.leave()
		h.poolFor(spec).use(bear)
	}
}

// bear is the part of start after the look-up. A nil thread: the child may hang before its program runs, or has steps of its own.
func (h *Host) bear(ctx context.Context, t *turn, after time.Duration, spec *Spec, in *Intake, path string, thread *forker) (b Born, _ *trees.Tree, err error) {
	var back undo
	hangs := false
	defer func() {
		if err != nil {
			back.all() // before the error is told
		}
		if !hangs {
			t.leave()
		}
	}()
	defer h.recovered(spec.Argv, &err)
	defer spec.closeDir()
	back.add(func() { h.releasePlaces(spec.held) })
	if ctx.Err() != nil {
		return b, nil, context.Cause(ctx)
	}

	// Room for the child, its output and its limits.
	if err := cmp.Or(h.Allows(spec.Limits), h.trees.Room()); err != nil {
		return b, nil, err
	}
	if err := in.OpenSpool(); err != nil {
		return b, nil, trees.NoDescriptor(err)
	}

	// Its streams.
	ends, err := h.openEnds(spec)
	if err != nil {
		return b, nil, err
	}
	defer ends.closeTheirs()
	back.add(ends.closeOurs)
	if err := ends.give(spec.User); err != nil {
		return b, nil, err
	}

	// Its cgroup and its tag.
	tree, err := h.trees.Make(spec.Name, spec.Limits)
	if err != nil {
		return b, nil, err
	}
	back.add(func() {
		if !hangs {
			h.notRemoved(tree.Remove(), spec.Name)
		}
	})

	// The fork. The program runs when fork returns.
	argv := slices.Clone(spec.Argv)
	if spec.Arg0 != nil {
		argv[0] = *spec.Arg0
	}
	b = Born{
		Trace: tree.Trace(), TTY: ends.tty, Stdin: ends.stdin, Stdout: ends.stdout, Stderr: ends.stderr, StdinQueue: spec.StdinQueue,
		Sandbox: mode.Of(spec.Sandbox), IsInit: spec.policy != nil && spec.policy.Files, held: spec.held,
	}
	restrain := spec.Limits.Processes == nil && spec.policy == nil // a jail is restrained before its program runs
	kept, err := h.keep(&b, spec, restrain)
	if err != nil {
		return b, nil, err
	}
	back.add(kept.forget)
	if kept == nil {
		tree.Own()
	}
	f := &birth{spec: spec, path: path, argv: argv, theirs: ends.theirs[:], tree: tree, after: after, thread: thread, kept: kept}
	pid, err := h.fork(ctx, f)
	if errors.Is(err, ErrNoAnswer) {
		hangs = true
		t.hangs()
		go h.buryLate(t, pid, tree, spec, path)
	}
	if err != nil {
		return b, nil, startError(err, spec, h.trees.NoRoom)
	}
	if restrain {
		h.trees.Restrain(pid)
	}

	// What is left of the start.
	b.PID, b.Jail, b.SandboxLevel = pid, f.jail, f.level
	kept.born(&b)
	return b, tree, nil
}

// openSpool opens the spool of the adopted child with a name. The child lives on without one.
func (h *Host) openSpool(name string, in *Intake) {
	if err := in.OpenSpool(); err != nil {
		h.log.Warn("no spool for an adopted child: its output stays in memory", "name", name, "err", err)
	}
}

// look looks up the program, the working directory and the sandbox of spec.
func (h *Host) look(spec *Spec, step func(what string)) (path string, apart bool, err error) {
	if spec.Serve != nil {
		return "/", true, h.resolveServe(spec, step)
	}
	path, apart, err = h.allowed(spec, step)
	if err == nil && spec.confined() {
		return path, true, h.resolve(spec, step)
	}
	return path, apart, err
}

// allowed drops credentials of the server from spec, looks up the program, and gives the child the sandbox of the operator.
func (h *Host) allowed(spec *Spec, step func(what string)) (path string, apart bool, err error) {
	spec.NoNewPrivs = spec.NoNewPrivs || h.noNewPrivs
	if spec.User != nil {
		if err := mayBecome(spec.User); err != nil {
			return "", false, err
		}
	}
	var rule *rules.Rule
	if spec.Rule != nil {
		step("look-up of the policy")
		rule = spec.Rule().Resolve() // as the server, which may look everywhere
	}
	spec.Env = withoutWithheld(spec.Env, rule)
	// As the user: an error about a path closed to the user does not tell whether the path exists.
	refused := LookAs(spec.User, func() {
		defer h.recovered(spec.Argv, &err)
		if path, err = programUnder(rule, spec, step); err == nil {
			apart = spec.User != nil || mayHang(spec.Dir, path)
		}
	})
	if err = cmp.Or(refused, err); err == nil {
		err = spec.confine(rule)
	}
	return path, apart, err
}

// Look returns why Start would not try to start the child: the policy, or the look-up of the program or the working
// directory, refuses. Look waits for files. Call Look from the function of Ask, with its step.
func (h *Host) Look(spec Spec, step func(what string)) error {
	_, _, err := h.allowed(&spec, step)
	spec.closeDir()
	return err
}

func (h *Host) recovered(argv []string, err *error) {
	if r := recover(); r != nil {
		h.log.Error("panic recovered", "in", "start", "panic", r, "stack", string(debug.Stack()))
		*err = fmt.Errorf("%w in the start of %q", errInternal, argv)
	}
}

// buryLate waits for the end of a killed child, which may depend on a filesystem, and ends its tree and its turn.
func (h *Host) buryLate(t *turn, pid int, tree *trees.Tree, spec *Spec, path string) {
	left, err := tree.BuryLate(pid, func() {
		h.log.Warn("a killed child ends only when its filesystem answers", "pid", pid, "program", path, "dir", spec.Dir)
	})
	if left != nil {
		h.log.Warn("a failed start has left processes", "name", spec.Name, "err", left)
	}
	h.notRemoved(err, spec.Name)
	t.leave()
}

func (h *Host) notRemoved(err error, name string) {
	if err != nil {
		h.log.Warn("containment of a failed start was not removed", "name", name, "err", err)
	}
}
