//go:build unix

package program_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/program"
	_ "github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/program/early" // the test binary is the programs
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

const key = stream.Key(0x123456789abc)

// patience bounds waits that take milliseconds on a quiet machine.
const patience = time.Minute

func command(t *testing.T, o program.Options) *exec.Cmd {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	argv := o.Argv(path)
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	for name, value := range program.Environment(t.Name()) {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.WaitDelay = patience
	return cmd
}

// output is the output of a program.
type output struct {
	run     uint64
	pid     int
	content []byte
}

// parse takes a whole output apart, without a hello for stderr.
func parse(t *testing.T, p []byte, name string) (o output) {
	t.Helper()
	ok := true
	o.run = 1
	if name == "stdout" {
		if len(p) < stream.HelloSize {
			t.Fatalf("the output %q has no hello", p)
		}
		if o.run, o.pid, _, ok = key.ParseHello(p[:stream.HelloSize]); !ok {
			t.Fatalf("%q is no hello", p[:stream.HelloSize])
		}
		p = p[stream.HelloSize:]
	}
	if len(p) < stream.EndSize {
		t.Fatalf("the output %q has no end", p)
	}
	o.content = p[:len(p)-stream.EndSize]
	if n, _, ok := key.Run(o.run, name).ParseEnd(p[len(o.content):]); !ok || n != int64(len(o.content)) {
		t.Fatalf("the end %q after %d bytes of content", p[len(o.content):], len(o.content))
	}
	return o
}

func content(k stream.Key, n int64) []byte {
	p := make([]byte, n)
	k.Fill(p, 0)
	return p
}

func same(t *testing.T, what string, got, want []byte) {
	t.Helper()
	if !bytes.Equal(got, want) {
		t.Errorf("%s has %d bytes, want %d; or others: %.80q, want %.80q", what, len(got), len(want), got, want)
	}
}

func wantCode(t *testing.T, err error, want int) {
	t.Helper()
	code := 0
	if e, ok := errors.AsType[*exec.ExitError](err); ok {
		code = e.ExitCode()
	} else if err != nil {
		t.Fatal(err)
	}
	if code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
}

func TestArguments(t *testing.T) {
	for _, o := range []program.Options{
		{Mode: program.Burst, Key: 1<<64 - 1, OwnRun: true, Bytes: 1 << 40, Stderr: 3, Code: program.MaxCode},
		{Mode: program.Lines, Key: key, Size: program.MinLine, Every: 1},
		{Mode: program.Flood, Size: program.MaxSize},
		{Mode: program.Echo}, {Mode: program.Upload, Size: 1, Code: 7}, {Mode: program.Idle},
		{Mode: program.Census, Run: "r-1"}, {Mode: program.Clock},
	} {
		argv := o.Argv("/x/troupe")
		got, err := program.Parse(argv[2:])
		if argv[0] != "/x/troupe" || argv[1] != program.Command || err != nil || !reflect.DeepEqual(got, o) {
			t.Errorf("%q: parsed %+v, %v", argv, got, err)
		}
	}
	for args, want := range map[string]string{
		"": "the mode is missing", "fly": `"fly"`, "census": "id of a load run", "census a b": "id of a load run", "clock x": `"x"`,
		"lines key=1 size=10 every=1": "at least 39", "lines key=1 size=100": "every", "flood key=1": "size", "upload": "size",
		"flood size=1048577": "1048576", "burst code=120": "119", "burst bytes=-1": `"-1"`, "burst bytes=x": `"x"`, "burst key=xyz": `"xyz"`,
		"burst speed=1": `"speed=1"`,
	} {
		if _, err := program.Parse(strings.Fields(args)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want an error with %s", args, err, want)
		}
	}
	cmd := command(t, program.Options{Mode: program.Flood, Key: key})
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	wantCode(t, cmd.Run(), program.CodeUsage)
	if !strings.Contains(stderr.String(), "size") {
		t.Errorf("stderr %q", &stderr)
	}
}

func TestBurst(t *testing.T) {
	cmd := command(t, program.Options{Mode: program.Burst, Key: key, Bytes: 100_001, Stderr: 70_000, Code: 42})
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	wantCode(t, cmd.Run(), 42)
	o := parse(t, stdout.Bytes(), "stdout")
	if o.run != 1 || o.pid != cmd.Process.Pid {
		t.Errorf("run %d, pid %d; want 1, %d", o.run, o.pid, cmd.Process.Pid)
	}
	same(t, "stdout", o.content, content(key.Run(1, "stdout"), 100_001))
	same(t, "stderr", parse(t, stderr.Bytes(), "stderr").content, content(key.Run(1, "stderr"), 70_000))
}

// A program with runs of its own writes another stream in each run.
func TestOwnRun(t *testing.T) {
	var runs []uint64
	for range 2 {
		out, err := command(t, program.Options{Mode: program.Burst, Key: key, OwnRun: true, Bytes: 50}).Output()
		if err != nil {
			t.Fatal(err)
		}
		o := parse(t, out, "stdout")
		same(t, "stdout", o.content, content(key.Run(o.run, "stdout"), 50))
		runs = append(runs, o.run)
	}
	if runs[0] == runs[1] || runs[0] < 2 {
		t.Errorf("runs %d", runs)
	}
}

// start starts a program, and returns its output as well.
func start(t *testing.T, o program.Options) (*exec.Cmd, io.ReadCloser) {
	t.Helper()
	cmd := command(t, o)
	r, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, r
}

// readHello reads a hello.
func readHello(t *testing.T, r io.Reader) []byte {
	t.Helper()
	p := make([]byte, stream.HelloSize)
	if _, err := io.ReadFull(r, p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestLines(t *testing.T) {
	const size, every = 100, 10 * time.Millisecond
	began := time.Now()
	cmd, r := start(t, program.Options{Mode: program.Lines, Key: key, Size: size, Every: every, Code: 9})
	out := readHello(t, r)
	lines := make([]byte, 3*size)
	if _, err := io.ReadFull(r, lines); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGTERM)
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, cmd.Wait(), 9)
	o := parse(t, slices.Concat(out, lines, rest), "stdout")
	last, k := began.Truncate(time.Microsecond), key.Run(1, "stdout")
	for i := int64(0); len(o.content) > 0; i++ {
		n, at, body, ok := k.ParseLine(o.content[:size])
		want := make([]byte, size-stream.LineExtra)
		k.FillBody(want, i)
		if n != i || !ok || !bytes.Equal(body, want) || at.Before(last) || at.After(time.Now()) {
			t.Fatalf("line %d is %q", i, o.content[:size])
		}
		if due := began.Add(time.Duration(i) * every).Truncate(time.Microsecond); i < 3 && at.Before(due) {
			t.Errorf("line %d came %v before it was due", i, due.Sub(at))
		}
		o.content, last = o.content[size:], at
	}
}

func TestFlood(t *testing.T) {
	cmd, r := start(t, program.Options{Mode: program.Flood, Key: key, Size: 5000})
	out := make([]byte, 1_000_000)
	if _, err := io.ReadFull(r, out); err != nil {
		t.Fatal(err)
	}
	cmd.Process.Signal(syscall.SIGINT)
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	wantCode(t, cmd.Wait(), 0)
	o := parse(t, append(out, rest...), "stdout")
	same(t, "stdout", o.content, content(key.Run(1, "stdout"), int64(len(o.content))))
	if len(o.content)%5000 != 0 {
		t.Errorf("%d bytes of content: the last piece is not whole", len(o.content))
	}
}

// A program ends when nobody reads its output any more, even if it has nothing more to write.
func TestGone(t *testing.T) {
	for _, o := range []program.Options{
		{Mode: program.Idle, Key: key}, {Mode: program.Flood, Key: key, Size: 100},
		{Mode: program.Lines, Key: key, Size: 100, Every: time.Hour},
	} {
		t.Run(string(o.Mode), func(t *testing.T) {
			t.Parallel()
			cmd, r := start(t, o)
			readHello(t, r)
			r.Close()
			ended := make(chan error, 1)
			go func() { ended <- cmd.Wait() }()
			select {
			case err := <-ended:
				if err == nil {
					t.Error("the program ended as if all were well")
				}
			case <-time.After(patience):
				cmd.Process.Kill()
				t.Error("the program goes on")
			}
		})
	}
}

func TestIdleEndsBySignal(t *testing.T) {
	cmd, r := start(t, program.Options{Mode: program.Idle, Key: key})
	hello := readHello(t, r)
	cmd.Process.Signal(syscall.SIGTERM)
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "stdout", parse(t, append(hello, rest...), "stdout").content, nil)
	cmd.Wait()
	if s := cmd.ProcessState.Sys().(syscall.WaitStatus); !s.Signaled() || s.Signal() != syscall.SIGTERM {
		t.Errorf("ended with %v", cmd.ProcessState)
	}
}

func TestEcho(t *testing.T) {
	typed := content(key.Run(0, "stdin"), 100_000)
	wrong := bytes.Clone(typed)
	wrong[70_000] ^= 1
	for name, test := range map[string]struct {
		stdin, want []byte
		code        int
	}{
		"end":   {typed, typed, 3},
		"EOT":   {append(bytes.Clone(typed), program.EOT, 'x'), typed, 3},
		"wrong": {wrong, wrong, program.CodeStdin},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command(t, program.Options{Mode: program.Echo, Key: key, Code: 3})
			cmd.Stdin = bytes.NewReader(test.stdin)
			out, err := cmd.Output()
			wantCode(t, err, test.code)
			same(t, "stdout", parse(t, out, "stdout").content, test.want)
		})
	}
}

func TestUpload(t *testing.T) {
	const size, line = 10_000, stream.LineExtra + stream.AnswerSize
	for name, test := range map[string]struct {
		change func([]byte) []byte
		wrong  int64
	}{
		"right":   {func(p []byte) []byte { return p }, stream.NoneWrong},
		"altered": {func(p []byte) []byte { p[12_345] ^= 1; return p }, 12_345},
		"missing": {func(p []byte) []byte { return slices.Delete(p, 20_000, 20_016) }, 20_000},
	} {
		t.Run(name, func(t *testing.T) {
			stdin := test.change(content(key.Run(0, "stdin"), 3*size+77))
			cmd := command(t, program.Options{Mode: program.Upload, Key: key, Size: size})
			cmd.Stdin = bytes.NewReader(stdin)
			out, err := cmd.Output()
			code := 0
			if test.wrong != stream.NoneWrong {
				code = program.CodeStdin
			}
			wantCode(t, err, code)
			p := parse(t, out, "stdout").content
			for i := range int64(4) {
				if len(p) < line {
					t.Fatalf("%d answers, and %q", i, p)
				}
				n, _, body, ok1 := key.Run(1, "stdout").ParseLine(p[:line])
				a, ok2 := stream.ParseAnswer(body)
				read := min((i+1)*size, int64(len(stdin)))
				want := stream.Answer{End: i == 3, Bytes: read, Digest: stream.Digest(0).Add(stdin[:read]), Wrong: stream.NoneWrong}
				// A program reports a wrong byte as soon as it has read the byte, possibly with an earlier block.
				if read > test.wrong || a.Wrong != stream.NoneWrong {
					want.Wrong = test.wrong
				}
				if n != i || !ok1 || !ok2 || a != want {
					t.Fatalf("answer %d: %d, %+v, %v, %v, want %+v", i, n, a, ok1, ok2, want)
				}
				p = p[line:]
			}
			if len(p) > 0 {
				t.Errorf("after the answers came %q", p)
			}
		})
	}
}

// On a terminal all bytes pass unchanged, and ^D ends stdin.
func TestTerminal(t *testing.T) {
	cmd := command(t, program.Options{Mode: program.Echo, Key: key, Code: 5})
	master, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer master.Close()
	out := readHello(t, master)
	typed := content(key.Run(0, "stdin"), 3000)
	if _, err := master.Write(append(typed, program.EOT)); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(master) // its end is EIO
	wantCode(t, cmd.Wait(), 5)
	same(t, "the terminal", parse(t, append(out, rest...), "stdout").content, typed)
}

func TestCensus(t *testing.T) {
	_, err := os.Stat("/proc/self/environ")
	needs.Feature(t, err) // Linux has it
	idle, r := start(t, program.Options{Mode: program.Idle, Key: key})
	readHello(t, r)
	for run, want := range map[string][]int{t.Name(): {idle.Process.Pid}, t.Name() + "x": nil, "": nil} {
		cmd := command(t, program.Options{Mode: program.Census, Run: run}) // is in the run itself
		out, err := cmd.Output()
		if run == "" {
			wantCode(t, err, program.CodeUsage)
			continue
		}
		pids, err := program.ParseCensus(out)
		if err != nil || !slices.Equal(pids, want) {
			t.Errorf("the census %q gives %d, %v; want %d", out, pids, err, want)
		}
	}
	idle.Process.Kill()
	idle.Wait()
	for _, bad := range []string{"", "1\n2\n", "1\nend 2\n", "x\nend 1\n", "1\nend 1"} {
		if pids, err := program.ParseCensus([]byte(bad)); err == nil {
			t.Errorf("the census %q gives %d", bad, pids)
		}
	}
}

func TestClock(t *testing.T) {
	cmd := command(t, program.Options{Mode: program.Clock})
	cmd.Stdin = strings.NewReader("ab")
	last := time.Now().Truncate(time.Microsecond)
	out, err := cmd.Output()
	if err != nil || len(out) != 3*program.ClockSize {
		t.Fatalf("%q, %v", out, err)
	}
	for p := range slices.Chunk(out, program.ClockSize) {
		at, ok := program.ParseClock(p)
		if !ok || at.Before(last) || at.After(time.Now()) {
			t.Errorf("%q tells %v", p, at)
		}
		last = at
	}
	for _, bad := range []string{"", "1795275525604123 ", "179527552560412\n", "-795275525604123\n", "x795275525604123\n"} {
		if at, ok := program.ParseClock([]byte(bad)); ok {
			t.Errorf("%q tells %v", bad, at)
		}
	}
	if p := string(program.AppendClock(nil, time.UnixMicro(5))); p != "0000000000000005\n" {
		t.Errorf("the fifth microsecond is %q", p)
	}
}
