package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/workers"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
)

// forWorker are the flags that --worker goes with. All else comes from the controller.
var forWorker = []string{"worker", "secret-file", "findings", "quiet", "tls-ca", "tls-cert", "tls-key"}

var errNoServer = errors.New("--workers need a server that each of them reaches: name it with --url")

// workerFlags refuses flags that do not go with --worker or --workers.
func (o *loadFlags) workerFlags(cmd *cobra.Command) (err error) {
	switch {
	case o.worker != "":
		cmd.Flags().Visit(func(f *pflag.Flag) {
			if !slices.Contains(forWorker, f.Name) && err == nil {
				err = fmt.Errorf("--%s is for the controller: a worker takes only --%s", f.Name, strings.Join(forWorker[1:], ", --"))
			}
		})
		if o.argv != nil && err == nil {
			err = errors.New("a worker gets its COMMAND from the controller: leave it out")
		}
		return err
	case len(o.workers) == 0:
		if o.secretFile != "" {
			return errors.New("--secret-file is for --worker and --workers")
		}
	case o.findings != "":
		return errors.New("--findings is for the machines that run the load: give it to each --worker")
	case o.target.URL == "" && o.target.Server == "" && o.file == "":
		return errNoServer
	}
	return nil
}

// runWorker is the command with --worker.
func (o *loadFlags) runWorker(ctx context.Context, stdout, stderr io.Writer) error {
	note := o.noteTo(stderr)
	ctx, ending := o.signals(ctx, note)
	defer ending()
	if err := o.work(ctx, stdout, note); err != nil {
		return exitError{exitFailed, err}
	}
	return interrupted(ctx)
}

// secret returns the secret of controller and workers.
func (o *loadFlags) secret() ([]byte, error) {
	if o.secretFile == "" {
		return nil, errors.New("controller and workers need a common secret: write a line of 16 characters or more to a file, and name it with --secret-file")
	}
	data, err := os.ReadFile(o.secretFile)
	if err != nil {
		return nil, fmt.Errorf("--secret-file: %w", err)
	}
	if data = bytes.TrimSpace(data); len(data) < workers.MinSecret {
		return nil, fmt.Errorf("--secret-file %s: the secret has %d bytes, expected %d or more", o.secretFile, len(data), workers.MinSecret)
	}
	if othersMay(0o006, o.secretFile) {
		return nil, fmt.Errorf("--secret-file %s: other users of this machine can use the secret, and run programs as you: run chmod o= %[1]s", o.secretFile)
	}
	return data, nil
}

// work serves controllers until ctx is done.
func (o *loadFlags) work(ctx context.Context, stdout io.Writer, note func(string)) error {
	secret, err := o.secret()
	if err != nil {
		return err
	}
	host, port, err := net.SplitHostPort(o.worker)
	if err != nil {
		return fmt.Errorf("--worker %s: expected HOST:PORT, or :PORT for this machine only", o.worker)
	}
	if host == "" {
		host = "127.0.0.1"
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return fmt.Errorf("--worker %s: %w", o.worker, err)
	}
	fmt.Fprintf(stdout, "worker at %s\n", l.Addr())
	w := &workers.Worker{Secret: secret, Build: version(), Run: o.workerRun, Dir: o.workerDir, Stop: o.stopped, Note: note}
	return w.Serve(ctx, l)
}

// workerRun runs the part of a worker. The servers' tokens and certificates are those of this machine.
func (o *loadFlags) workerRun(ctx context.Context, p plan.Plan, stop <-chan struct{}, rec *figures.Recorder) (*result.Commands, error) {
	part := &loadFlags{target: o.target, stops: o.stops, servers: make(map[string]*target.Target)}
	for _, url := range p.Servers {
		t, err := o.target.For(url).Target()
		if err != nil {
			return nil, err
		}
		part.servers[url] = t
	}
	return part.do(ctx, p, rec, stop)
}

// workerDir returns the directory for the findings of one run.
func (o *loadFlags) workerDir() (string, func(), error) {
	if o.findings == "" {
		return o.findingsDir()
	}
	dir, err := filepath.Abs(o.findings) // the controller tells the path
	if err == nil {
		err = os.MkdirAll(dir, 0o755)
	}
	if err != nil {
		return "", nil, err
	}
	dir, err = os.MkdirTemp(dir, "run-")
	return dir, func() { os.Remove(dir) }, err // only if it is empty
}

// control runs the plan on workers. If one of them does not bring its part to an end, o.lost says why, and the result has the rest.
func (o *loadFlags) control(ctx context.Context, p plan.Plan, stderr io.Writer) (*result.Result, error) {
	secret, err := o.secret()
	if err != nil {
		return nil, err
	}
	c, err := workers.Dial(ctx, p, o.workers, secret, version())
	if err != nil {
		return nil, err
	}
	endView := o.follow(c, stderr)
	res, err := c.Run(ctx, o.stopped)
	endView()
	if err != nil && len(res.Hosts) == 0 { // no worker has begun
		return nil, err
	}
	o.lost = err
	return res, nil
}
