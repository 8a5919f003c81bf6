// Command bench measures a troupe server from outside. In the same run, bench also measures the raw
// limit: the same work on the same machine without a server.
//
//	go run ./tests/bench                      every row, some 20 minutes
//	go run ./tests/bench --rows 'start|echo'  these rows
//	go run ./tests/bench --rows growth        the cost of a process among few and many
//
// The bench builds the server from the module in the working directory. For each measurement the bench
// starts a server on a port of 127.0.0.1. The server gets the bench's environment, so GOGC and GODEBUG
// reach the server. Client, server and programs share the machine, and the figures include this cost.
// The bench needs Linux.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	rows    *regexp.Regexp
	runs    int
	quick   bool
	server  string // path of a troupe binary; "": build the module
	json    string // path of a file, or "-"; "": no JSON
	timeout time.Duration
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		childMain(os.Args[2:])
	}
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2) // parse has printed the error
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program
	if err := run(ctx, o, os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{rows: regexp.MustCompile("")}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	names := ""
	for _, r := range rows {
		names += " " + r.name
	}
	f.Func("rows", "measure only rows whose names match this `regexp`:"+names+" growth", func(s string) (err error) {
		o.rows, err = regexp.Compile(s)
		return err
	})
	f.IntVar(&o.runs, "runs", 5, "how often to measure each row, long rows 3 times at most")
	f.BoolVar(&o.quick, "quick", false, "small numbers: they show that each row works, and nothing else")
	f.StringVar(&o.server, "server", "", "measure this troupe `binary`; default: built from the module")
	f.StringVar(&o.json, "json", "", "write the figures to this `file`, too; - is stdout, in place of the table")
	f.DurationVar(&o.timeout, "timeout", time.Hour, "give up after this time")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 || o.runs < 1 {
		err := errors.New("bench: no arguments are expected, and at least 1 run; see -h")
		fmt.Fprintln(os.Stderr, err)
		return nil, err
	}
	return o, nil
}

// A bench is the state shared by all rows.
type bench struct {
	ctx    context.Context // done: give up
	quick  bool
	self   string // path of this program, for its child modes
	troupe string // path of the server
	dir    string // temporary files; removed at the end

	progress io.Writer
}

// n returns full, or quick with --quick.
func (b *bench) n(full, quick int) int {
	if b.quick {
		return quick
	}
	return full
}

// run measures and reports. After the failure of a row, run still measures the other rows.
func run(ctx context.Context, o *options, stdout, progress io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done within --timeout %v", o.timeout))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		time.AfterFunc(2*stopWithin, func() { panic("a measurement does not heed its context") })
	})()
	dir, err := os.MkdirTemp("", "troupe-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{ctx: ctx, quick: o.quick, dir: dir, progress: progress}
	if b.self, err = os.Executable(); err != nil {
		return err
	}
	if b.troupe, err = serverBinary(ctx, o.server, dir); err != nil {
		return err
	}
	report := newReport(o)
	for _, r := range rows {
		if o.rows.MatchString(r.name) {
			report.Lines = append(report.Lines, b.measure(&r, o.runs)...)
		}
	}
	if o.rows.MatchString("growth") {
		if report.Growth, err = b.measureGrowth(); err != nil && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		if skip, ok := errors.AsType[skipped](err); ok {
			fmt.Fprintf(progress, "growth: skipped: %v\n", skip)
		} else if err != nil {
			report.GrowthFailed = err.Error()
		}
	}
	if o.json != "-" {
		report.print(stdout)
	}
	if o.json != "" {
		if err := report.write(o.json, stdout); err != nil {
			return err
		}
	}
	return report.failed()
}

// serverBinary returns the absolute path of the binary given, or builds the server in dir.
func serverBinary(ctx context.Context, given, dir string) (string, error) {
	if given != "" {
		return filepath.Abs(given)
	}
	path := filepath.Join(dir, "troupe")
	build := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-o", path, "github.com/b6f6fdd7/troupe/cmd/troupe")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", build, err, out)
	}
	return path, nil
}

// measure measures a row a number of times.
func (b *bench) measure(r *row, runs int) []lineReport {
	reports := make([]lineReport, len(r.lines))
	for i, l := range r.lines {
		reports[i] = newLineReport(r.name, l)
	}
	if r.runs > 0 {
		runs = min(runs, r.runs)
	}
	for n := range runs {
		begin := time.Now()
		readings, err := r.measure(b)
		if b.ctx.Err() != nil {
			err = context.Cause(b.ctx)
		}
		fmt.Fprintf(b.progress, "%s: run %d of %d, %.1f s\n", r.name, n+1, runs, time.Since(begin).Seconds())
		var skip skipped
		for i := range reports {
			switch {
			case errors.As(err, &skip):
				reports[i].Skipped = string(skip)
			case err != nil:
				reports[i].Failed = err.Error()
			default:
				reports[i].add(readings[i])
			}
		}
		if err != nil {
			break
		}
	}
	return reports
}
