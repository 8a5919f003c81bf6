//go:build unix

// Package program has the programs that run on a server under load: troupe load-program. Programs write streams that the client can predict
// byte by byte, and compare their stdin with a predicted stream. Package stream defines the streams.
//
// A program needs little memory, whatever the length of its output and input. A program ends when nobody can read its output any more. On a
// terminal, a program sets the terminal raw, so bytes pass unchanged in both directions.
package program

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/stream"
)

// Command is the argument of troupe that runs a program.
const Command = "load-program"

// Variable is an environment variable of all programs of a load run. Its value is the id of the run.
const Variable = "TROUPE_LOAD"

// A Mode says how a program behaves.
type Mode string

const (
	Burst  Mode = "burst"  // writes Bytes of content and Stderr bytes to stderr, and exits
	Lines  Mode = "lines"  // writes a line of Size bytes each Every, until SIGTERM or SIGINT; then the end
	Flood  Mode = "flood"  // writes content in pieces of Size bytes, as fast as possible, until SIGTERM or SIGINT, or Bytes; then the end
	Echo   Mode = "echo"   // writes its stdin to stdout
	Upload Mode = "upload" // writes an answer (package stream) after each Size bytes of stdin, and at its end
	Idle   Mode = "idle"   // writes a hello and the end of no content, and waits for a signal; catches no signal

	// Census prints the pids of this machine's programs with Run in their Variable, one a line, and "end COUNT".
	Census Mode = "census"
	// Clock prints the time in the form of AppendClock, once at the start, and once for each byte of stdin.
	Clock Mode = "clock"
)

// The modes with stdin (Echo, Upload, Clock) end at its end, or at the byte EOT. The other modes do not read stdin.
const EOT = 0x04

// Exit codes for failures. A Code cannot have these values: see MaxCode.
const (
	CodeUsage  = 120 // wrong arguments; stderr says why
	CodeStdin  = 121 // a byte of stdin was wrong
	CodeFailed = 122 // a system call failed; stderr says why
	MaxCode    = 119
)

// MaxSize bounds Size.
const MaxSize = 1 << 20

// Options are the arguments of a program.
type Options struct {
	Mode   Mode
	Key    stream.Key    // of the process, see package stream
	OwnRun bool          // the program makes up the number of its run, because the process has several runs; false: the number is 1
	Size   int           // see Mode; for Lines at least MinLine, for Flood and Upload 1 to MaxSize
	Bytes  int64         // of Burst and Flood; of Flood, 0: without end
	Stderr int64         // of Burst
	Every  time.Duration // of Lines: above 0
	Code   int           // the exit code, 0 to MaxCode
	Run    string        // of Census
}

// MinLine is the smallest Size of lines: a body needs at least a byte.
const MinLine = stream.LineExtra + 1

// number is an argument of a program and its place in Options.
type number struct {
	name     string
	min, max int64
	get      func(o *Options) int64
	set      func(o *Options, n int64)
}

const maxTime = int64(7 * 24 * time.Hour)

var numbers = []number{
	{"size", 0, MaxSize, func(o *Options) int64 { return int64(o.Size) }, func(o *Options, n int64) { o.Size = int(n) }},
	{"bytes", 0, 1 << 62, func(o *Options) int64 { return o.Bytes }, func(o *Options, n int64) { o.Bytes = n }},
	{"stderr", 0, 1 << 62, func(o *Options) int64 { return o.Stderr }, func(o *Options, n int64) { o.Stderr = n }},
	{"every", 0, maxTime, func(o *Options) int64 { return int64(o.Every) }, func(o *Options, n int64) { o.Every = time.Duration(n) }},
	{"code", 0, MaxCode, func(o *Options) int64 { return int64(o.Code) }, func(o *Options, n int64) { o.Code = int(n) }},
}

// Argv returns the command line of a program. path is the path of troupe on the server.
func (o Options) Argv(path string) []string {
	argv := []string{path, Command, string(o.Mode)}
	switch o.Mode {
	case Census:
		return append(argv, o.Run)
	case Clock:
		return argv
	}
	argv = append(argv, "key="+strconv.FormatUint(uint64(o.Key), 16))
	if o.OwnRun {
		argv = append(argv, "own-run")
	}
	for _, n := range numbers {
		if v := n.get(&o); v != 0 {
			argv = append(argv, n.name+"="+strconv.FormatInt(v, 10))
		}
	}
	return argv
}

// Parse reads the arguments after Command.
func Parse(args []string) (o Options, err error) {
	if len(args) == 0 {
		return o, errors.New("the mode is missing: " + Usage)
	}
	o.Mode, args = Mode(args[0]), args[1:]
	switch o.Mode {
	case Census:
		if len(args) != 1 || args[0] == "" {
			return o, errors.New("census needs one argument, the id of a load run")
		}
		o.Run = args[0]
		return o, nil
	case Clock:
		if len(args) != 0 {
			return o, errors.New("clock has no arguments, but was given " + strconv.Quote(args[0]))
		}
		return o, nil
	case Burst, Lines, Flood, Echo, Upload, Idle:
	default:
		return o, errors.New("there is no mode " + strconv.Quote(string(o.Mode)) + ": " + Usage)
	}
	for _, a := range args {
		if err := o.set(a); err != nil {
			return o, err
		}
	}
	return o, o.check()
}

// Usage explains the arguments to people.
const Usage = "troupe " + Command + " burst|lines|flood|echo|upload|idle key=HEX [own-run] [size=N] [bytes=N] [stderr=N] [every=NANOSECONDS] [code=N], or census RUN, or clock"

func (o *Options) set(arg string) error {
	name, value, _ := strings.Cut(arg, "=")
	switch name {
	case "own-run":
		o.OwnRun = true
		return nil
	case "key":
		key, err := strconv.ParseUint(value, 16, 64)
		o.Key = stream.Key(key)
		if err != nil {
			return errors.New("key " + strconv.Quote(value) + " is not a number of 64 bits in hexadecimal")
		}
		return nil
	}
	for _, n := range numbers {
		if n.name != name {
			continue
		}
		v, err := strconv.ParseInt(value, 10, 64)
		if err != nil || v < n.min || v > n.max {
			return errors.New(name + " " + strconv.Quote(value) + " is not a number from " + strconv.FormatInt(n.min, 10) + " to " + strconv.FormatInt(n.max, 10))
		}
		n.set(o, v)
		return nil
	}
	return errors.New("there is no argument " + strconv.Quote(arg) + ": " + Usage)
}

func (o *Options) check() error {
	switch {
	case o.Mode == Lines && (o.Size < MinLine || o.Every <= 0):
		return errors.New("lines needs size, at least " + strconv.Itoa(MinLine) + ", and every, above 0")
	case (o.Mode == Flood || o.Mode == Upload) && o.Size == 0:
		return errors.New(string(o.Mode) + " needs size, above 0")
	}
	return nil
}

// Environment returns the environment of the programs of a load run. Each program uses a single core, so thousands of programs have few
// threads.
func Environment(run string) map[string]string {
	return map[string]string{Variable: run, "GOMAXPROCS": "1"}
}

// Main runs the program of args, the arguments after Command, and returns the exit code.
func Main(args []string) int {
	o, err := Parse(args)
	if err != nil {
		return complain(CodeUsage, err)
	}
	if err := raw(); err != nil {
		return complain(CodeFailed, err)
	}
	switch o.Mode {
	case Census:
		err = census(os.Stdout, o.Run)
	case Clock:
		err = tellTimes(os.Stdout, os.Stdin)
	default:
		return o.run()
	}
	if err != nil {
		return complain(CodeFailed, err)
	}
	return 0
}

func complain(code int, err error) int {
	os.Stderr.WriteString("troupe " + Command + ": " + err.Error() + "\n")
	return code
}
