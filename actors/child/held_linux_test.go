package child

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
	"github.com/b6f6fdd7/troupe/internal/sandbox/jail"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
)

// heldVar is the variable with the role and the play of a test binary in these tests.
const heldVar = "TROUPE_CHILD_HELD"

// play is what the servers of a holder do.
type play struct {
	Story   string
	Mode    Containment
	Kind    string   // pipes, terminal, jail, becomes: a jail that leaves files as they are; or user: pipes, as another user
	Strikes []string // the first server dies at the first point, the second at the second …
	Dir     string   // for files of the play
}

func init() {
	if fd, _, _, ok := jail.Serving(); ok { // a jail of servesPlay serves nothing
		jail.Ready(nil)
		unix.Read(fd, make([]byte, 1)) // until its server is gone
		os.Exit(0)
	}
	role, text, _ := strings.Cut(os.Getenv(heldVar), ":")
	if role == "holder" {
		runtime.LockOSThread() // init is on the main thread
		os.Setenv(heldVar, "server:"+text)
		code, err := holder.Run(holder.Config{
			Path: "/proc/self/exe", Argv: []string{"server", "-test.run=^TestServerOfHolder$"}, Env: os.Environ(), Log: func(string, ...any) {},
			Beat: time.Hour, // a play answers no questions
		})
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
		}
		os.Exit(code)
	}
}

// held is a holder with its servers.
type held struct {
	*exec.Cmd
	out *bufio.Scanner
}

// hold starts a holder, whose servers act out a play.
func hold(t testing.TB, p play) held {
	t.Helper()
	if p.Mode == ContainCgroup {
		needs.Cgroup(t)
	}
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), heldVar+"=holder:"+string(text))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return held{cmd, bufio.NewScanner(out)}
}

// line returns the next line that a server has told; "": there is none.
func (h held) line() string {
	for h.out.Scan() {
		if text, ok := strings.CutPrefix(h.out.Text(), "> "); ok {
			return text
		}
		if text := h.out.Text(); text != "PASS" && !strings.HasPrefix(text, "ok") {
			fmt.Fprintln(os.Stderr, "server:", text)
		}
	}
	return ""
}

// wantAll fails the test unless the servers tell these lines, and the holder ends well.
func (h held) wantAll(t *testing.T, lines ...string) {
	t.Helper()
	var got []string
	for line := h.line(); line != ""; line = h.line() {
		got = append(got, line)
	}
	h.Wait()
	if !slices.Equal(got, lines) {
		t.Errorf("the servers tell\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(lines, "\n"))
	}
	if code := h.ProcessState.ExitCode(); code != 0 {
		t.Errorf("the holder has ended with %d", code)
	}
}

// endWithHolder keeps a server from outliving a failed test.
func endWithHolder(s *holder.Server) {
	<-s.Lost()
	os.Exit(1)
}

func tell(format string, args ...any) { fmt.Printf("> "+format+"\n", args...) }

func die() {
	unix.Kill(os.Getpid(), unix.SIGKILL)
	select {}
}

var plays = map[string]func(t *testing.T, s *holder.Server, h *Host, p play){
	"lives": livesPlay, "ends": livesPlay, "reaped": livesPlay, "start": startPlay, "failure": failurePlay, "strays": straysPlay, "streams": streamsPlay,
	"chaos": chaosPlay, "tags": tagsPlay, "serves": servesPlay, "left": leftPlay, "many": manyPlay, "places": placesPlay,
}

// TestServerOfHolder is a server of a play, in a process of its own.
func TestServerOfHolder(t *testing.T) {
	role, text, _ := strings.Cut(os.Getenv(heldVar), ":")
	if role != "server" {
		return
	}
	os.Unsetenv(heldVar)
	var p play
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	socket, ok := holder.Socket()
	if !ok {
		t.Fatal("no holder")
	}
	s, err := holder.Attach(socket)
	if err != nil {
		t.Fatal(err)
	}
	go endWithHolder(s)
	t.Cleanup(func() {
		if t.Failed() {
			s.Stop() // no other server follows
		}
	})
	if s.Number <= len(p.Strikes) {
		strike = func(point string) {
			if point == p.Strikes[s.Number-1] {
				die()
			}
		}
	}
	if slices.Contains(p.Strikes, "plan sent") {
		graceOfStart = 100 * time.Millisecond // nobody sends the plan
	}
	if err := s.Up(); err != nil {
		t.Fatal(err)
	}
	if s.Number == 2 && (p.Story == "lives" || p.Story == "ends") {
		alone(t, p, s)
	}
	cfg := HostConfig{Containment: p.Mode, Holder: s, Found: s.Found, Log: slog.New(slog.NewTextHandler(io.Discard, nil))}
	if p.Story == "places" {
		cfg.StateDir = p.Dir + "/state"
	}
	h, err := NewHost(cfg)
	if err != nil {
		t.Fatal(err)
	}
	plays[p.Story](t, s, h, p)
	if err := h.Close(context.Background()); err != nil {
		t.Error("close:", err)
	}
	nothingLeft(t, s)
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}

// nothingLeft waits until the holder has neither a child but this program, nor a descriptor of a child.
func nothingLeft(t *testing.T, s *holder.Server) {
	t.Helper()
	name := strconv.Itoa(s.PID())
	own := fmt.Sprint(os.Getpid())
	look := func() (children, files string) {
		list, err := os.ReadFile("/proc/" + name + "/task/" + name + "/children")
		if err != nil {
			t.Fatal(err)
		}
		fds, err := os.ReadDir("/proc/" + name + "/fd")
		if err != nil {
			t.Fatal(err)
		}
		for _, fd := range fds {
			link, _ := os.Readlink("/proc/" + name + "/fd/" + fd.Name())
			if n, _ := strconv.Atoi(fd.Name()); n > 2 && (strings.HasPrefix(link, "pipe:") || strings.Contains(link, "ptmx") || strings.Contains(link, "placeholder")) {
				files += link + " "
			}
		}
		return strings.TrimSpace(string(list)), files
	}
	children, files := look()
	for begun := time.Now(); (children != own || files != "") && time.Since(begun) < time.Minute; time.Sleep(10 * time.Millisecond) {
		children, files = look()
	}
	if children != own || files != "" {
		for pid := range strings.FieldsSeq(children) {
			stat, err := os.ReadFile("/proc/" + pid + "/stat")
			t.Logf("%s, %v", stat, err)
		}
		t.Errorf("the holder has the children %s, and this program is %s; it has the files %q", children, own, files)
	}
}

// spec returns the spec of a script that is the child one of a play.
func (p play) spec(text string) Spec {
	spec := piped(sh("one", text))
	spec.Dir = p.Dir
	switch p.Kind {
	case "terminal":
		spec = tty(sh("one", "stty -echo -onlcr; "+text))
		spec.Dir = p.Dir
	case "jail":
		spec.policy = &sandbox.Policy{Files: true, Root: sandbox.Write, Network: true}
	case "becomes":
		spec.policy = &sandbox.Policy{}
	case "user":
		spec.User = &User{Name: "nobody of this machine", UID: unusedID, GID: unusedID}
	}
	return spec
}

// output is all output in the order of the streams.
func output(w *watched) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.out[protocol.Stdout]) + string(w.out[protocol.PTY]) + string(w.out[protocol.Stderr])
}

// adopted adopts the found child one.
func adopted(t *testing.T, h *Host) *watched {
	t.Helper()
	all := h.Found()
	if len(all) != 1 || all[0].Name != "one" {
		t.Fatalf("found %+v", all)
	}
	return adopt(t, h, all[0])
}

func finished(t *testing.T, w *watched) {
	t.Helper()
	done := make(chan error)
	w.Finish(func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// ended tells how a child has ended.
func ended(t *testing.T, w *watched) {
	t.Helper()
	w.untilClosed()
	tell("exit code %d, usage %v", w.status.ExitCode, w.status.Rusage.MaxRSSBytes > 0)
	finished(t, w)
}

// alone lets the child go on while no server has its streams, and returns when it has.
func alone(t *testing.T, p play, s *holder.Server) {
	if err := os.WriteFile(p.Dir+"/alone", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for {
		if _, err := os.Stat(p.Dir + "/said"); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if p.Story == "ends" {
		for _, f := range s.Found {
			if f.ID == "one" {
				untilExited(f.PID)
			}
		}
	}
}

// livesPlay: the first server dies while a child lives; in the story "ends" the child ends before the next server serves, and in the story "reaped" the first server
// has seen the end.
func livesPlay(t *testing.T, s *holder.Server, h *Host, p play) {
	if s.Number == 1 {
		text := `echo run >>runs; echo before; echo wrong >&2; until [ -e alone ]; do sleep 0.01; done; echo between; (setsid sleep 1000 >/dev/null 2>&1 &) ; touch said; `
		if p.Story == "lives" {
			text += `read line; echo "got $line"; `
		}
		w := start(t, h, p.spec(text+"exit 3"))
		w.until(func() bool {
			return strings.Contains(string(w.out[protocol.Stdout])+string(w.out[protocol.PTY]), "before")
		})
		w.until(func() bool {
			return strings.Contains(string(w.out[protocol.Stderr])+string(w.out[protocol.PTY]), "wrong")
		})
		tell("started")
		if p.Story == "reaped" {
			alone(t, p, s)
			w.until(w.has(FactExited))
		}
		die()
	}
	h.awaitTidy() // kills what seems to be nobody's
	w := adopted(t, h)
	if p.Story == "lives" {
		if w.Stopped() {
			t.Error("the child is stopped")
		}
		w.Signal(syscall.SIGSTOP)
		for p.Kind != "jail" && !w.Stopped() { // a jail ignores the signal
			time.Sleep(time.Millisecond)
		}
		w.Signal(syscall.SIGCONT)
		if n, err := w.Write([]byte("it\n")); n != 3 || err != nil {
			t.Errorf("stdin takes %d bytes, %v", n, err)
		}
	}
	w.until(w.has(FactExited))
	tell("%q", output(w))
	if p.Kind != "jail" && w.TreeEmpty() {
		t.Error("a descendant is not seen")
	}
	ended(t, w)
}

// A server is killed while its child runs. The child goes on alone, and the next server goes on with the child: its streams, its exit status and usage,
// and its descendants.
func TestHeldLives(t *testing.T) {
	for _, mode := range []Containment{ContainCgroup, ContainMarker, ContainGroup} {
		if mode == ContainCgroup && os.Geteuid() != 0 {
			continue // an ordinary user has no cgroup here
		}
		for _, kind := range []string{"pipes", "terminal", "jail"} {
			if mode == ContainMarker && kind != "pipes" {
				continue // as with the others
			}
			for story, want := range map[string]string{"lives": `"between\ngot it\n"`, "ends": `"between\n"`, "reaped": `""`} {
				t.Run(string(mode)+" "+kind+" "+story, func(t *testing.T) {
					if kind == "jail" {
						needs.Namespaces(t, os.Getuid())
					}
					hold(t, play{Story: story, Mode: mode, Kind: kind, Dir: t.TempDir()}).
						wantAll(t, "started", want, "exit code 3, usage true")
				})
			}
		}
	}
}

// startPlay: each server starts the child one.
func startPlay(t *testing.T, s *holder.Server, h *Host, p play) {
	found := len(h.Found())
	w := start(t, h, p.spec(`echo run >>runs; echo hello; read line; echo "got $line"; exit 3`))
	w.until(func() bool {
		return strings.Contains(string(w.out[protocol.Stdout])+string(w.out[protocol.PTY]), "hello")
	})
	w.Write([]byte("it\n"))
	w.until(w.has(FactExited))
	runs, _ := os.ReadFile(p.Dir + "/runs")
	tell("found %d, runs %q", found, runs)
	if out := output(w); out != "hello\ngot it\n" {
		t.Errorf("the output is %q", out)
	}
	ended(t, w)
}

// A server dies at each step of a start. The next server starts the child again, or finds the child: its program runs once. The third is like the second, if the
// second dies on its way.
func TestDeathWithinAStart(t *testing.T) {
	// The points of the first death, or of the first and the second.
	kinds := map[string][]string{
		"pipes":    {"named", "kept", "forked", "runs", "born", "done", "forked/found born", "runs/found born", "kept/forked"},
		"terminal": {"kept", "forked", "born"},
		"user":     {"kept", "forked", "runs", "born", "forked/found born"},
		"jail": {"named", "kept", "jail kept", "forked", "jail prepared", "plan sent", "runs", "born", "done",
			"forked/found unborn", "jail prepared/found buried", "runs/found born"},
		"becomes": {"jail kept", "forked", "jail prepared", "plan sent", "runs", "born", "done", "plan sent/found unborn", "runs/found born"},
	}
	finds := map[string]int{"forked": 1, "runs": 1, "born": 1, "done": 1}
	for kind, points := range kinds {
		if kind == "user" && os.Geteuid() != 0 {
			continue // only root starts children as others
		}
		for _, point := range points {
			t.Run(kind+" "+point, func(t *testing.T) {
				isJail := kind == "jail" || kind == "becomes"
				if isJail {
					needs.Namespaces(t, os.Getuid())
				}
				points := strings.Split(point, "/")
				found := finds[points[0]] + finds[points[len(points)-1]]
				if isJail && points[0] == "forked" { // "plan sent" is before the plan is sent
					found = 0
				}
				mode, dir := ContainGroup, t.TempDir()
				if os.Geteuid() == 0 {
					mode = ContainCgroup
				}
				if kind == "user" {
					dir = testroot.Dir(t, "/tmp")
					if err := os.Chown(dir, unusedID, unusedID); err != nil {
						t.Fatal(err)
					}
				}
				hold(t, play{Story: "start", Mode: mode, Kind: kind, Strikes: points, Dir: dir}).
					wantAll(t, fmt.Sprintf(`found %d, runs "run\n"`, min(found, 1)), "exit code 3, usage true")
			})
		}
	}
}

// failurePlay: each server starts a child that fails before its program runs.
func failurePlay(t *testing.T, s *holder.Server, h *Host, p play) {
	if len(h.Found()) > 0 {
		t.Errorf("found %+v", h.Found())
	}
	for _, spec := range []Spec{p.spec("exit 3"), {Name: "one", Argv: []string{p.Dir + "/noexec"}}} {
		if spec.Argv[0] == "/bin/sh" {
			spec.Limits.NoFile = new(uint64(1 << 40)) // more than the kernel allows anybody
		}
		w, err := tryStart(t, h, spec, 1<<20)
		if err == nil {
			t.Errorf("%q has started", spec.Argv)
			finished(t, w)
			continue
		}
		tell("%v", errors.Is(err, ErrLimitRefused) || errors.Is(err, ErrExecFormat))
	}
}

// A server dies at each step of a start that fails. Nothing is left of the child, and the next server may start it again.
func TestDeathWithinAFailure(t *testing.T) {
	for _, point := range []string{"", "named", "kept", "forked", "failed", "unborn", "buried", "forgotten"} {
		t.Run(point, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(dir+"/noexec", []byte("\x7fELF, but no program"), 0o755); err != nil {
				t.Fatal(err)
			}
			hold(t, play{Story: "failure", Mode: ContainMarker, Kind: "pipes", Strikes: []string{point}, Dir: dir}).wantAll(t, "true", "true")
		})
	}
}

// straysPlay: the second server adopts nothing.
func straysPlay(t *testing.T, s *holder.Server, h *Host, p play) {
	if s.Number == 1 {
		for _, name := range []string{"one", "two"} {
			spec := p.spec("sleep 1000 & sleep 1000 & wait")
			spec.Name = name
			w := start(t, h, spec)
			tell("%d", w.PID())
		}
		die()
	}
	if n := len(h.Found()); n != 2 {
		t.Errorf("found %d", n)
	}
	if p.Kind == "terminal" {
		return // Close ends them, too
	}
	// A child with the name of a stray starts when the stray is gone.
	waits := make(chan struct{})
	started := make(chan *watched, 1)
	one := sync.OnceFunc(func() {
		go func() {
			spec := p.spec("exit 6")
			w, err := tryStart(t, h, spec, 1<<20)
			if err != nil {
				t.Error(err)
			}
			started <- w
			close(started)
		}()
		select {
		case <-waits:
		case <-started: // and the holder would forget its end with the stray
			tell("a child starts before the stray of its name is gone")
			s.Stop()
			die()
		}
	})
	strike = func(point string) {
		switch point {
		case "stray awaited":
			close(waits)
		case "stray adopted":
			one()
		}
	}
	gone := h.EndStrays(nil)
	if n := len(h.Found()); n > 0 {
		t.Errorf("%d are found", n)
	}
	if err := gone(); err != nil {
		t.Error(err)
	}
	ended(t, <-started)
	if n := h.Live(); n > 0 {
		t.Errorf("%d live", n)
	}
	nothingLeft(t, s)
}

// Children that nobody adopts are killed, with their descendants, by EndStrays, or at the end of the host. A child with the name of one starts later.
func TestStrays(t *testing.T) {
	for _, kind := range []string{"pipes", "terminal"} {
		h := hold(t, play{Story: "strays", Mode: ContainGroup, Kind: kind, Dir: t.TempDir()})
		var pids []string
		for line := h.line(); line != ""; line = h.line() {
			pids = append(pids, line)
		}
		h.Wait()
		if kind == "pipes" {
			if last := len(pids) - 1; last < 0 || pids[last] != "exit code 6, usage true" {
				t.Errorf("the child with the name of a stray has not run: %q", pids)
			}
			pids = pids[:max(len(pids)-1, 0)]
		}
		if len(pids) != 2 || h.ProcessState.ExitCode() != 0 {
			t.Errorf("%s: %v, %v", kind, pids, h.ProcessState)
		}
		for _, pid := range pids {
			if _, err := os.Stat("/proc/" + pid); err == nil {
				t.Errorf("%s: %s is left", kind, pid)
			}
		}
	}
}

// streamsPlay: what the server closes ends, although the holder has copies.
func streamsPlay(t *testing.T, s *holder.Server, h *Host, p play) {
	w := start(t, h, p.spec("cat; exec >&- 2>&-; until [ -e alone ]; do sleep 0.01; done; exit 4"))
	w.Write([]byte("it\n"))
	w.CloseStdin()
	w.untilOutput(protocol.Stdout, "it\n")
	copies := func() (n int) {
		name := strconv.Itoa(s.PID())
		fds, _ := os.ReadDir("/proc/" + name + "/fd")
		for _, fd := range fds {
			if link, _ := os.Readlink("/proc/" + name + "/fd/" + fd.Name()); strings.HasPrefix(link, "pipe:") && len(fd.Name()) > 1 {
				n++
			}
		}
		return n
	}
	for copies() > 0 { // the child runs, and none of its streams
		time.Sleep(time.Millisecond)
	}
	if err := os.WriteFile(p.Dir+"/alone", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	ended(t, w)

	// The holder keeps no streams of a child that is released.
	w = start(t, h, p.spec("exit 6"))
	for ended(t, w); copies() > 0; time.Sleep(time.Millisecond) {
	}

	// A flood that nobody reads does not keep its writer from ending, once the child is ended.
	w = start(t, h, p.spec("(trap '' HUP TERM; yes) & exit 5"))
	w.set(true)
	finished(t, w)
	w.set(false)
	tell("ended")
}

// What a server closes ends, although the holder has copies.
func TestHeldStreamsEnd(t *testing.T) {
	hold(t, play{Story: "streams", Mode: ContainMarker, Kind: "pipes", Dir: t.TempDir()}).wantAll(t, "exit code 4, usage true", "exit code 6, usage true", "ended")
}

// servesPlay: the first server starts a jail that serves files, and a child.
func servesPlay(t *testing.T, s *holder.Server, h *Host, p play) {
	if s.Number == 1 {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		theirs := os.NewFile(uintptr(pair[1]), "serve")
		w := start(t, h, Spec{Name: "serves", Serve: theirs, policy: &sandbox.Policy{Files: true, Root: sandbox.Read, Network: true}})
		theirs.Close()
		start(t, h, p.spec("read line; exit 3"))
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", w.PID()))
		if err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(string(stat))
		tell("its parent is the server: %v", fields[3] == fmt.Sprint(os.Getpid()))
		if err := os.WriteFile(p.Dir+"/pid", []byte(strconv.Itoa(w.PID())), 0o600); err != nil {
			t.Fatal(err)
		}
		die()
	}
	text, err := os.ReadFile(p.Dir + "/pid")
	if err != nil {
		t.Fatal(err)
	}
	pid, _ := strconv.Atoi(string(text))
	for !trees.Ended(pid) {
		time.Sleep(time.Millisecond)
	}
	w := adopted(t, h) // and no other
	w.Write([]byte("\n"))
	ended(t, w)
}

// A jail that serves files ends with its server.
func TestServingEndsWithTheServer(t *testing.T) {
	needs.Namespaces(t, os.Getuid())
	for _, mode := range []Containment{ContainCgroup, ContainMarker} {
		hold(t, play{Story: "serves", Mode: mode, Kind: "pipes", Dir: t.TempDir()}).wantAll(t, "its parent is the server: true", "exit code 3, usage true")
	}
}

// tagsPlay: the second server starts another child beside that of the first.
func tagsPlay(t *testing.T, s *holder.Server, h *Host, p play) {
	if s.Number == 1 {
		start(t, h, p.spec("read line; exit 3"))
		die()
	}
	w := adopted(t, h)
	spec := script("sleep 1000")
	spec.Name = "two"
	finished(t, start(t, h, spec))
	w.Write([]byte("\n"))
	ended(t, w)
}

// The end of a child ends no child of an earlier server.
func TestHeldTags(t *testing.T) {
	hold(t, play{Story: "tags", Mode: ContainMarker, Kind: "pipes", Dir: t.TempDir()}).wantAll(t, "exit code 3, usage true")
}

const chaosChildren = 40

// chaosPlay starts children of all kinds, and kills itself at random.
func chaosPlay(t *testing.T, s *holder.Server, h *Host, p play) {
	killer := time.AfterFunc(time.Hour, die)
	if s.Number < 5 { // after more deaths the holder waits before the next server
		killer.Reset(rand.N(60 * time.Millisecond))
	}
	done := func(i int) string { return fmt.Sprintf("%s/done%d", p.Dir, i) }
	for _, f := range h.Found() {
		i, _ := strconv.Atoi(f.Name)
		if _, err := os.Stat(done(i)); err == nil {
			finished(t, adopt(t, h, f))
		}
	}
	var all sync.WaitGroup
	for i := range chaosChildren {
		if _, err := os.Stat(done(i)); err == nil {
			continue
		}
		all.Go(func() {
			spec := sh(strconv.Itoa(i), fmt.Sprintf("echo run >>run%d; exit %d", i, i))
			spec.Dir = p.Dir
			switch kind := i % 5; {
			case kind == 1:
				spec.TTY = true
			case kind == 2 && p.Kind == "jail":
				spec.policy = &sandbox.Policy{Files: true, Root: sandbox.Write, Network: true}
			case kind == 3:
				spec.Argv[2] = "read line; " + spec.Argv[2]
				spec.Stdin = true
			}
			w := start(t, h, spec)
			if spec.Stdin {
				w.CloseStdin()
			}
			w.untilClosed()
			if w.status.ExitCode != i || w.status.Reason != "" {
				t.Errorf("child %d has ended as %+v", i, w.status)
			}
			if err := os.WriteFile(done(i), nil, 0o600); err != nil {
				t.Error(err)
			}
			finished(t, w)
		})
	}
	all.Wait()
	if !killer.Stop() {
		select {}
	}
	tell("all have ended")
}

// Servers are killed at random while they start children, and while children end: each program runs once, and each exit status is told.
func TestHeldChaos(t *testing.T) {
	for _, mode := range []Containment{ContainCgroup, ContainMarker, ContainGroup} {
		if mode == ContainCgroup && os.Geteuid() != 0 {
			continue
		}
		t.Run(string(mode), func(t *testing.T) {
			p := play{Story: "chaos", Mode: mode, Dir: t.TempDir()}
			if needs.ProbeNamespaces(os.Getuid()) == nil {
				p.Kind = "jail"
			}
			hold(t, p).wantAll(t, "all have ended")
			for i := range chaosChildren {
				if runs, _ := os.ReadFile(fmt.Sprintf("%s/run%d", p.Dir, i)); string(runs) != "run\n" {
					t.Errorf("child %d has run as %q", i, runs)
				}
			}
		})
	}
}

// leftPlay: the child has a descendant that does not die with the holder.
func leftPlay(t *testing.T, s *holder.Server, h *Host, p play) {
	w := start(t, h, p.spec("setsid sleep 1000 & echo $!; wait"))
	w.until(func() bool { return strings.Contains(string(w.out[protocol.Stdout]), "\n") })
	tell("%d", w.PID())
	tell("%s", strings.TrimSpace(output(w)))
	select {}
}

// The end of a holder is the end of its children. What they leave is killed by the next server of another holder, or without one.
func TestHolderDies(t *testing.T) {
	for _, mode := range []Containment{ContainCgroup, ContainMarker} {
		h := hold(t, play{Story: "left", Mode: mode, Kind: "pipes", Dir: t.TempDir()})
		child, _ := strconv.Atoi(h.line())
		left, _ := strconv.Atoi(h.line())
		newHost(t, HostConfig{Containment: mode})
		if left == 0 || trees.Ended(left) || trees.Ended(child) {
			t.Fatalf("%s: a living holder has lost a child", mode)
		}
		h.Process.Kill()
		h.Wait()
		for !trees.Ended(child) {
			time.Sleep(time.Millisecond)
		}
		newHost(t, HostConfig{Containment: mode})
		if !trees.Ended(left) {
			t.Errorf("%s: %d is left", mode, left)
		}
	}
}

const manyChildren = 150

// manyPlay measures the holder.
func manyPlay(t *testing.T, s *holder.Server, h *Host, p play) {
	size := func() int {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.PID()))
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(status), "RssAnon:")
		n := 0
		fmt.Sscan(rest, &n)
		return n << 10
	}
	before := size()
	var all []*watched
	for i := range manyChildren {
		spec := piped(sh(fmt.Sprintf("01J0000000000000000000%04d", i), "read line"))
		all = append(all, start(t, h, spec))
	}
	tell("%d %d", before, (size()-before)/manyChildren)
	for _, w := range all {
		finished(t, w)
	}
}

// A child costs the holder little memory.
func TestHeldMemory(t *testing.T) {
	h := hold(t, play{Story: "many", Dir: t.TempDir(), Mode: ContainMarker})
	var before, each int
	if _, err := fmt.Sscan(h.line(), &before, &each); err != nil {
		t.Fatal(err)
	}
	t.Logf("the holder has %d KiB of its own, and %d bytes for each child", before>>10, each)
	if each > 4<<10 && !underRace {
		t.Errorf("%d bytes for each child", each)
	}
	for h.line() != "" {
	}
	h.Wait()
}

// placesPlay: a child in a sandbox with a placeholder.
func placesPlay(t *testing.T, s *holder.Server, h *Host, p play) {
	missing := filepath.Join(p.Dir, "work", "missing")
	exists := func() bool { _, err := os.Stat(missing); return err == nil }
	if s.Number == 1 {
		for _, name := range []string{"one", "two"} {
			spec := p.spec("echo ready; read line; exit 3")
			spec.Name = name
			spec.policy = &sandbox.Policy{Files: true, Root: sandbox.Write, Network: true, Paths: []sandbox.Path{{Path: missing, Access: sandbox.Read, Kind: sandbox.Missing}}}
			w := start(t, h, spec)
			w.untilOutput(protocol.Stdout, "ready\n")
		}
		tell("placeholder %v", exists())
		die()
	}
	for left := 2; left > 1; time.Sleep(time.Millisecond) { // the host removes what the dead server has left, and its journal at last
		journals, _ := os.ReadDir(p.Dir + "/state")
		left = len(journals)
	}
	tell("placeholder %v", exists())
	for _, b := range h.Found() {
		w := adopt(t, h, b)
		w.Write([]byte("\n"))
		w.until(w.has(FactExited))
		tell("placeholder %v", exists())
		ended(t, w)
	}
}

// A placeholder outlives the server with the sandbox that needs it, and goes with its last sandbox.
func TestHeldPlaceholders(t *testing.T) {
	needs.Namespaces(t, os.Getuid())
	dir := t.TempDir()
	for _, name := range []string{"state", "work"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	hold(t, play{Story: "places", Mode: ContainMarker, Kind: "jail", Dir: dir}).wantAll(t,
		"placeholder true", "placeholder true", "placeholder true", "exit code 3, usage true", "placeholder false", "exit code 3, usage true")
}
