//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/run"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/spec"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
)

// loadFlags are the flags of troupe load.
type loadFlags struct {
	target *target.Flags
	also   []string // more servers: URLs, or names of the config file

	profile       string
	file          string // --profile-file
	duration      time.Duration
	rate, arrival string
	copied        bool // --upload
	pids          []int
	timeout       time.Duration // of a command
	labels        []string      // of the servers that get the sessions, KEY=VALUE

	workersAt     string   // a URL, or a name of the config file; "": where the load goes
	workersLabels []string // of the servers that get the workers

	json, html string
	slos       []result.SLO
	compare    string
	share      string  // --threshold
	threshold  float64 // of share
	pictures   string  // a directory
	replay     string
	findings   string
	quiet      bool

	argv  []string // of troupe load -- COMMAND
	flags *pflag.FlagSet

	begin   func(context.Context) error // of run.Access
	hard    context.Context             // done when the run ends at once
	stops   *run.Stops                  // continued before an exit in the middle of the run
	server  atomic.Pointer[loadServer]  // nil: no server was started
	servers map[string]*target.Target   // by URL
	own     bool                        // programs run as this user on this machine
}

// register registers the flags. Flags without a field are members of the plan, by the same names.
func (o *loadFlags) register(fs *pflag.FlagSet) {
	fs.StringArrayVar(&o.also, "also", nil, "put the load on this server, too: a `URL`, or a name of the config file; repeatable")
	fs.StringArrayVar(&o.labels, "label", nil, "in a cluster, put the load on the servers with the label `KEY=VALUE`; repeatable")
	fs.String("node", "", "in a cluster, put the load on the server with this `NAME`")
	fs.Int("workers", 0, "share the load among `N` troupe load on servers, at most 64; default: this troupe load is alone")
	fs.StringVar(&o.workersAt, "workers-at", "", "start the workers at this `URL`, or name of the config file; default: where the load goes")
	fs.StringArrayVar(&o.workersLabels, "workers-label", nil, "in a cluster, start the workers on servers with the label `KEY=VALUE`; repeatable")
	fs.Int("sessions", 10, "`N` sessions, each with its own connection; default with a COMMAND: 1")
	fs.Int("processes", 5, "`N` processes in each session at a time; default with a COMMAND: 10")
	fs.StringVar(&o.profile, "profile", "mixed", "what programs and clients do: `PROFILES` as in mixed, echo, or lines=3:every=50ms:size=200,echo=1")
	fs.StringVar(&o.file, "profile-file", "", "read the plan from this YAML `FILE`: sessions, processes, phases with their profiles, chaos …;\nflags override the file")
	fs.DurationVar(&o.duration, "duration", 30*time.Second, "load the server for this `TIME`, above 0; the phases of a file are stretched to it; with a COMMAND: start ended commands\nagain for this time")
	fs.Duration("ramp", 0, "begin the sessions, or start the commands, evenly over this `TIME`; 0: all at once")
	fs.StringVar(&o.rate, "rate", "", "begin operations at this `RATE` over all sessions, as in 500/s; default: each process begins\nthe next operation after the last")
	fs.StringVar(&o.arrival, "arrival", "", "how operations with a rate come: `ARRIVAL` is poisson (as clients who know nothing of each other;\nthe default) or even")
	fs.String("may-miss", "0", "exit with 1 if more than this `SHARE` of the operations of a rate is missed, as in 1% or 0.01")
	fs.Duration("answer-within", 30*time.Second, "a request without an answer for this `TIME` is a finding")
	fs.BoolP("tty", "t", false, "give the programs terminals instead of pipes")
	fs.String("encoding", "msgpack", "the `ENCODING` of the connections: json or msgpack")
	fs.String("chaos", "", "disturb the run: `CHAOS` as in cut=20/s,stall=1/s,stall-for=2s or rst=5/s,delay=20ms,loss=1%")
	fs.Uint64("seed", 0, "the `SEED` of the bytes, the arrivals and the chaos, to repeat a run; default: any")
	fs.String("program", "", "the `PATH` of troupe on the server; default: this program, on servers of this machine")
	fs.BoolVar(&o.copied, "upload", false, "copy this program to the servers for the run, and remove it at the end")
	fs.IntSliceVar(&o.pids, "server-pid", nil, "the `PID` of a server on this machine, for its use of CPU and memory, and for chaos that stops it;\nrepeatable")
	fs.String("metrics", "", "the `URL` of the server's Prometheus metrics, for its use of CPU and memory")
	fs.DurationVar(&o.timeout, "timeout", 0, "end a COMMAND after this `TIME`; 0: never")

	o.registerReport(fs)
	fs.Lookup("html").Usage += ";\nwith two files to compare: their comparison"
	fs.StringVar(&o.compare, "compare", "", "print the result beside that of a JSON `FILE` of another run; with a second file as the argument:\ncompare the two, and run nothing")
	fs.StringVar(&o.share, "threshold", "10%", "in a comparison, a figure is better or worse only if it differs by this `SHARE` or more")
	fs.StringVar(&o.replay, "replay", "", "check the findings in this `FILE` of another run again, without a server")
	fs.StringVar(&o.findings, "findings", "", "write what is wrong to findings.jsonl in this `DIR`; default: a new directory, if something is wrong")
	fs.BoolVarP(&o.quiet, "quiet", "q", false, "show no progress")
}

// registerReport registers the flags about a report.
func (o *loadFlags) registerReport(fs *pflag.FlagSet) {
	fs.StringVar(&o.json, "json", "", "write the result to this `FILE` as JSON; -: to stdout, and the report to stderr")
	fs.StringVar(&o.html, "html", "", "write the report with its pictures to this HTML `FILE`, which opens without a network")
	fs.StringVar(&o.pictures, "pictures", "", "write each picture of the report as an SVG file to this `DIR`, for documents")
	fs.Func("slo", "exit with 1 unless this `SLO` is met, such as 'echo.p99<50ms', 'wrong=0' or 'starts/s>100'; repeatable", func(text string) error {
		slo, err := result.ParseSLO(text)
		o.slos = append(o.slos, slo)
		return err
	})
}

// arguments takes the command, and refuses flags that contradict each other.
func (o *loadFlags) arguments(cmd *cobra.Command, args []string) error {
	o.flags = cmd.Flags()
	var err error
	if o.threshold, err = plan.ParseShare(o.share); err != nil || !(o.threshold >= 0) {
		return fmt.Errorf("--threshold is %q, expected a share such as 10%% or 0.1", o.share)
	}
	if o.set("threshold") && o.compare == "" {
		return errors.New("--threshold is for a comparison: name the other run with --compare")
	}
	if dash := cmd.ArgsLenAtDash(); dash >= 0 {
		if dash > 0 {
			return fmt.Errorf("%q is before the --: write all of the command after it", args[:dash])
		}
		if o.argv = args; len(args) == 0 {
			return errors.New("no command after the --: write one, such as troupe load -- true, or leave the -- out")
		}
	} else if len(args) > 0 && !(len(args) == 1 && o.compare != "") {
		return fmt.Errorf("the arguments %q are given, expected none; a command is written after --: troupe load -- COMMAND", args)
	}
	switch {
	case o.replay != "":
		if err := only(cmd, "a replay", "replay", "quiet"); err != nil {
			return err
		}
	case o.argv == nil && len(args) == 1:
		if err := only(cmd, "a comparison of two files", "compare", "threshold", "html", "slo", "quiet"); err != nil {
			return err
		}
	}
	alone := func(flag, why string, others ...string) error {
		for _, other := range others {
			if o.set(flag) && o.set(other) {
				return fmt.Errorf("--%s and --%s exclude each other: %s", flag, other, why)
			}
		}
		return nil
	}
	if o.argv != nil {
		for _, f := range []string{"profile", "profile-file", "rate", "arrival", "may-miss", "answer-within", "program", "upload", "chaos", "encoding", "replay"} {
			if o.set(f) {
				return fmt.Errorf("--%s is for a load without a COMMAND: leave it out", f)
			}
		}
	} else if o.set("timeout") {
		return errors.New("--timeout is for a COMMAND: troupe load --timeout 1m -- COMMAND")
	}
	if err := errors.Join(
		alone("profile-file", "the file has the profiles", "profile", "rate", "arrival"),
		alone("server-pid", "both say what the server uses", "metrics"),
	); err != nil {
		return err
	}
	if o.copied && o.set("program") {
		return errUpload
	}
	if len(o.also) > 0 && o.target.URL == "" && o.target.Server == "" {
		return errors.New("--also names more servers beside that of --url or --server: name the first one with --url")
	}
	return o.checkFiles()
}

// checkFiles refuses files that cannot be written.
func (o *loadFlags) checkFiles() error {
	for name, path := range map[string]string{"json": o.json, "html": o.html} {
		if path == "" || path == "-" {
			continue
		}
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
			return fmt.Errorf("--%s %s: there is no directory %s: make it first", name, path, filepath.Dir(path))
		}
	}
	if o.html == "-" {
		return errors.New("--html -: name a file, since the report for people goes to stdout")
	}
	return nil
}

// only refuses flags without an effect: all but those of allowed.
func only(cmd *cobra.Command, what string, allowed ...string) (err error) {
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if err == nil && !slices.Contains(allowed, f.Name) {
			err = fmt.Errorf("--%s has no effect on %s, which runs nothing: leave it out", f.Name, what)
		}
	})
	return err
}

func (o *loadFlags) set(name string) bool { return o.flags.Changed(name) }

// plan makes the plan from the file and the flags. It has no servers yet.
func (o *loadFlags) plan() (p plan.Plan, err error) {
	take := func(f *pflag.Flag) {
		if _, e := p.Set(f.Name, f.Value.String(), "--"+f.Name); e != nil {
			err = cmp.Or(err, e)
		}
	}
	o.flags.VisitAll(take) // the defaults
	p.Seed = rand.Uint64()
	if o.argv != nil {
		p.Sessions, p.Processes = 1, 10
		p.Command = &plan.Command{Argv: o.argv, Timeout: plan.Duration(o.timeout), Again: o.set("duration")}
	}
	if o.file != "" {
		if err := plan.Read(o.file, &p); err != nil {
			return p, fmt.Errorf("--profile-file: %w", err)
		}
	}
	o.flags.Visit(take)
	if o.set("server-pid") {
		p.PIDs = o.pids
	}
	if o.set("label") {
		p.Labels = o.labels
	}
	if err = cmp.Or(err, o.checkWorkers(&p)); err != nil {
		return p, err
	}
	return p, o.phases(&p)
}

// checkWorkers refuses what workers cannot do.
func (o *loadFlags) checkWorkers(p *plan.Plan) error {
	with := func(flag, why string) error {
		return fmt.Errorf("--%s and --workers exclude each other: %s", flag, why)
	}
	switch {
	case p.Workers == 0 && (o.set("workers-at") || o.set("workers-label")):
		return errors.New("--workers-at and --workers-label say where workers start: say with --workers how many")
	case p.Workers == 0:
		return nil
	case len(o.also) > 0 || len(p.Servers) > 1:
		return with("also", "workers put the load on one address")
	case o.set("server-pid") || len(p.PIDs) > 0:
		return with("server-pid", "the workers may be on other machines; --metrics says what the server uses")
	case o.set("findings"):
		return with("findings", "each worker says where its findings are on its machine")
	case o.workersAt != "" && o.target.URL == "" && o.target.Server == "" && len(p.Servers) == 0:
		return errors.New("--workers-at needs --url or --server: workers elsewhere cannot reach a server of the load's own")
	}
	_, err := spec.Placement(o.workersLabels, "", "")
	if err != nil {
		err = fmt.Errorf("--workers-label: %w", err)
	}
	return err
}

// phases sets the phases, or stretches those of the file to --duration.
func (o *loadFlags) phases(p *plan.Plan) error {
	if o.set("duration") && o.duration <= 0 {
		return fmt.Errorf("--duration is %v, expected more than 0", o.duration)
	}
	switch {
	case p.Command != nil && !p.Command.Again:
		return nil
	case len(p.Phases) == 0:
		mix, err := plan.ParseMix(o.profile)
		if err != nil {
			return fmt.Errorf("--profile: %w", err)
		}
		ph := plan.Phase{Duration: plan.Duration(o.duration), Mix: mix, Arrival: plan.Arrival(o.arrival)}
		if o.rate != "" {
			if ph.Rate, err = plan.ParseRate(o.rate); err != nil {
				return fmt.Errorf("--rate: %w", err)
			}
		}
		p.Phases = []plan.Phase{ph}
	case o.set("duration"):
		if total := p.Took(); total > 0 {
			for i := range p.Phases {
				d := &p.Phases[i].Duration
				*d = plan.Duration(float64(*d) * (float64(o.duration) / float64(total)))
			}
		}
	}
	return nil
}
