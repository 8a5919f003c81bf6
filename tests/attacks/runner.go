package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

// A runner makes attacks.
type runner struct {
	binary   string // path of the server
	self     string // path of this program, where any user may run it
	dir      string // temporary files
	quick    bool
	door     door
	progress io.Writer
}

// newRunner returns a runner that writes below dir, which the caller removes. newRunner builds the server, unless binary is given.
func newRunner(ctx context.Context, dir, binary string, progress io.Writer) (*runner, error) {
	r := &runner{dir: dir, progress: progress}
	if err := os.Chmod(r.dir, 0o755); err != nil {
		return nil, err
	}
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	r.self = filepath.Join(r.dir, "attacks")
	if err := copyProgram(r.self, self); err != nil {
		return nil, err
	}
	r.binary = filepath.Join(r.dir, "troupe")
	if binary != "" {
		return r, copyProgram(r.binary, binary)
	}
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", r.binary, "github.com/b6f6fdd7/troupe/cmd/troupe")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return r, os.Chmod(r.binary, 0o755)
}

func copyProgram(to, from string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o755)
}

// A result is the result of an attack.
type result struct {
	attack              *attack
	before, most, after facts
	back                time.Duration // the time until the facts were as before
	p99                 time.Duration
	rounds, errors      int // of the well-behaved client
	refusals, resumes   int
	checked             int64 // right bytes of its stream
	notes               []string
	skipped             string
	wrong               []error // nil: the server withstood the attack
}

// target makes a target without a server, whose files are below dir.
func (r *runner) target(dir string, d door) (*target, error) {
	dir, err := os.MkdirTemp(dir, "target-")
	if err != nil {
		return nil, err
	}
	tmp := dir + "-tmp"
	// A server of any user makes its own directory there.
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(dir+"/runtime", 0o777), os.Chmod(dir+"/runtime", 0o777|os.ModeSticky), os.Mkdir(tmp, 0o755)); err != nil {
		return nil, err
	}
	t := &target{binary: r.binary, self: r.self, dir: dir, tmp: tmp, token: newToken(), quick: r.quick}
	if t.keys, err = newKeyring(d, dir); err != nil {
		return nil, err
	}
	if d >= tokenDoor {
		t.bearer = tokenOf(attackerName)
	}
	return t, nil
}

// release ends everything that an attack started, also after a failure.
func (t *target) release() {
	t.end()
	for _, pid := range t.kin() {
		system.KillKin(pid, t.token)
	}
	os.RemoveAll(t.dir)
	os.RemoveAll(t.tmp)
}

// attack makes an attack on a new server.
func (r *runner) attack(ctx context.Context, a *attack) (res result) {
	res.attack = a
	if a.skip != nil {
		if res.skipped = a.skip(); res.skipped != "" {
			return res
		}
	}
	begin := time.Now()
	if err := r.against(ctx, a, &res); err != nil {
		res.wrong = append(res.wrong, err)
	}
	fmt.Fprintf(r.progress, "%s: %.1f s\n", a.name, time.Since(begin).Seconds())
	return res
}

// against returns an error if the attack could not be judged. res gets the rules that were broken.
func (r *runner) against(ctx context.Context, a *attack, res *result) error {
	bound := cmp.Or(a.bound, attackWithin)
	ctx, cancel := context.WithTimeoutCause(ctx, bound+stopWithin+2*giveBackWithin, errors.New("the attack took too long"))
	defer cancel()
	d := max(r.door, a.door)
	if slices.Contains(a.flags, "--listen") {
		d = openDoor // the flags say how the server is exposed
	}
	t, err := r.target(r.dir, d)
	if err != nil {
		return err
	}
	defer t.release()
	defer func() { res.notes = append(res.notes, t.notes...) }()
	wrong := func(err error) {
		if err != nil {
			res.wrong = append(res.wrong, err)
		}
	}

	flags := slices.Concat(t.keys.flags(), a.flags)
	for i := range flags {
		flags[i] = strings.ReplaceAll(flags[i], "DIR", t.dir)
	}
	t.args = flags
	var configured error
	s, err := t.serve(func(cmd *exec.Cmd) {
		if a.configure != nil {
			configured = a.configure(t, cmd)
		}
	}, flags...)
	if configured != nil {
		return configured
	}
	if err != nil {
		return err
	}
	defer s.kill()
	t.server = s
	beside, side := t.as(goodName), t.as(operatorName) // the targets of the well-behaved client and the monitor
	defer beside.end()
	defer side.end()
	looking, endLooking := context.WithCancel(ctx)
	defer endLooking()
	go func() { // end all waits if the server is gone
		select {
		case <-s.exited:
			cancel()
			endLooking()
		case <-ctx.Done():
		}
	}()
	w, err := newWitness(looking, beside, a.harms)
	if err != nil {
		return fmt.Errorf("the well-behaved client: %w", err)
	}
	defer w.close()
	t.others = w
	witnessed := make(chan struct{})
	go func() {
		w.run(looking)
		close(witnessed)
	}()
	m := &monitor{t: side}
	if err := w.warm(ctx); err != nil {
		return fmt.Errorf("the well-behaved client, before the attack: %w", err)
	}
	w.pause()
	res.before, err = m.settled(ctx)
	w.resume()
	if err != nil {
		return fmt.Errorf("before the attack: %w", err)
	}
	m.peak = res.before
	os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", s.pid()), []byte("5"), 0) // resets VmHWM
	w.forget()
	watching := make(chan struct{})
	go func() {
		m.watch(looking)
		close(watching)
	}()

	bounded, cancelRun := context.WithTimeoutCause(ctx, bound, fmt.Errorf("the attack was not done within %v", bound))
	wrong(a.run(bounded, t))
	cancelRun()
	res.p99 = w.p99()
	t.end()
	if high, err := system.Number(s.pid(), "status", "VmHWM"); err == nil {
		m.mu.Lock()
		m.peak.RSS = max(m.peak.RSS, high*1024)
		m.mu.Unlock()
	}

	if s.alive() {
		wrong(t.closeSessions(ctx))
		wrong(r.restored(ctx, m, w, res))
		endLooking()
		<-witnessed
		<-watching
		finishing, cancel := context.WithTimeout(ctx, answerWithin)
		if err := w.finish(finishing); err != nil {
			w.wrong("end", err)
		}
		cancel()
		wrong(s.stop())
	} else {
		wrong(fmt.Errorf("the server died: %v: %s", s.cmd.ProcessState, s.reason()))
	}
	endLooking()
	<-witnessed
	<-watching
	res.most = m.peak
	r.judge(a, t, w, res)
	return nil
}

// restored waits until the server uses no more than before.
func (r *runner) restored(ctx context.Context, m *monitor, w *witness, res *result) error {
	begin := time.Now()
	var left error
	for m.t.server.alive() {
		w.pause()
		now, err := m.settled(ctx)
		w.resume()
		if err != nil {
			return fmt.Errorf("after the attack: %w", err)
		}
		res.after, res.back = now, time.Since(begin)
		if left = now.leftovers(res.before); left == nil || time.Since(begin) > giveBackWithin {
			break
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), left)
		case <-time.After(250 * time.Millisecond):
		}
	}
	return left
}

// judge checks the rules for every attack.
func (r *runner) judge(a *attack, t *target, w *witness, res *result) {
	wrong := func(format string, args ...any) { res.wrong = append(res.wrong, fmt.Errorf(format, args...)) }
	w.mu.Lock()
	res.errors, res.refusals, res.resumes = w.errors, w.refusals, w.resumes
	res.checked = w.check.Bytes()
	for _, n := range w.rounds {
		res.rounds += n
	}
	first := w.first
	w.mu.Unlock()
	if first != nil {
		wrong("the well-behaved client had %d errors, the first: %w", res.errors, first)
	}
	if res.refusals > 0 && !a.refusals {
		wrong("the well-behaved client had %d programs refused", res.refusals)
	}
	mayUse := mostUsed
	if a.mayUse.RSS != 0 {
		mayUse.RSS = a.mayUse.RSS
	}
	if a.mayUse.Threads != 0 {
		mayUse.Threads = a.mayUse.Threads
	}
	if grown := res.most.RSS - res.before.RSS; grown > mayUse.RSS {
		wrong("memory grew by %d MiB, bound %d MiB", grown>>20, mayUse.RSS>>20)
	}
	if grown := res.most.Threads - res.before.Threads; grown > mayUse.Threads {
		wrong("threads grew by %d, bound %d", grown, mayUse.Threads)
	}
	if line := t.server.stderr.alarm(); line != "" {
		wrong("the server logged: %s", line)
	}
	if left := t.kin(); len(left) > 0 {
		wrong("%d programs outlived the server", len(left))
	}
	if dirs, _ := system.Cgroups(t.server.holder()); len(dirs) > 0 {
		wrong("%d cgroups outlived the server", len(dirs))
	}
	if n, lines := t.server.stderr.size(); lines > 500 {
		res.notes = append(res.notes, fmt.Sprintf("log: %d lines, %d KiB", lines, n>>10))
	}
}

// table writes a line for each result.
type table struct{ w io.Writer }

const tableFormat = "%-24s %-18s %-16s %-14s %-20s %9s %7s %9s  %s\n"

func (t table) header() {
	fmt.Fprintf(t.w, tableFormat, "attack", "RSS MiB", "descriptors", "threads", "goroutines", "p99 ms", "errors", "right MiB", "verdict")
	fmt.Fprintf(t.w, tableFormat, "", "before/most/after", "b/m/a", "b/m/a", "b/m/a", "", "", "", "")
}

func (t table) line(r result) {
	if r.skipped != "" {
		fmt.Fprintf(t.w, "%-24s skipped: %s\n", r.attack.name, r.skipped)
		return
	}
	three := func(b, m, a, per int64) string { return fmt.Sprintf("%d/%d/%d", b/per, m/per, a/per) }
	verdict := "held"
	if len(r.wrong) > 0 {
		verdict = "FAILED"
	}
	if r.back > 3*time.Second {
		verdict += fmt.Sprintf("; back in %.0f s", r.back.Seconds())
	}
	if r.refusals > 0 {
		r.notes = append(r.notes, fmt.Sprintf("%d starts refused", r.refusals))
	}
	if len(r.notes) > 0 {
		verdict += "; " + strings.Join(r.notes, "; ")
	}
	fmt.Fprintf(t.w, tableFormat, r.attack.name,
		three(r.before.RSS, r.most.RSS, r.after.RSS, 1<<20),
		three(r.before.Files, r.most.Files, r.after.Files, 1),
		three(r.before.Threads, r.most.Threads, r.after.Threads, 1),
		three(r.before.Goroutines, r.most.Goroutines, r.after.Goroutines, 1),
		fmt.Sprintf("%.1f", float64(r.p99.Microseconds())/1000), fmt.Sprint(r.errors), fmt.Sprint(r.checked>>20), verdict)
	for _, err := range r.wrong {
		fmt.Fprintf(t.w, "    ✗ %s\n", strings.ReplaceAll(err.Error(), "\n", "\n      "))
	}
}
