//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/run"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/show"
)

// workerCommand is what troupe load --workers starts on a server, and talks to by its stdin and stdout. Both are of the same build:
//
//	stdin   a workerJob, a line of JSON
//	stdout  a workerReady, a line of JSON
//	stdin   an empty line: begin
//	stdout  the result, as of troupe load --json -
//
// Its environment has the token for the server under load. SIGINT ends it as it ends troupe load.
const workerCommand = "load-worker"

// A workerJob is the part of a worker. It comes by stdin: the password of a URL and the key of a certificate are for nobody's eyes.
type workerJob struct {
	Plan  plan.Plan  `json:"plan"` // with one server
	TLS   target.PEM `json:"tls"`
	Quiet bool       `json:"quiet"`
}

// A workerReady says that the worker has found its server in order, and can begin.
type workerReady struct {
	Version string    `json:"version"`
	Now     time.Time `json:"now"` // by the clock of the worker's machine
}

// maxJob is the length of the longest workerJob, in bytes. A plan comes from a file of 1 MiB at most, and from flags.
const maxJob = 8 << 20

// newLoadWorker returns the command workerCommand.
func newLoadWorker() *cobra.Command {
	return &cobra.Command{
		Use:         workerCommand,
		Hidden:      true,
		Args:        cobra.NoArgs,
		Annotations: exitsAsProgram,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return new(loadFlags).work(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

// work is the whole life of a worker.
func (o *loadFlags) work(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	o.stops = new(run.Stops)
	ctx, ending := o.signals(ctx, func(string) {})
	defer ending()
	in := bufio.NewReader(io.LimitReader(stdin, maxJob))
	p, err := o.takeJob(in)
	if err != nil {
		return exitError{exitFailed, err}
	}
	o.begin = func(ctx context.Context) error { return awaitBegin(ctx, in, stdout) }
	res, err := o.load(ctx, p, nil, stderr)
	if _, err = o.end(ctx, nil, res, err); err != nil {
		return err
	}
	if err := show.JSON(stdout, res); err != nil {
		return exitError{exitFailed, err}
	}
	return nil // the result says what was wrong
}

// awaitBegin says that the worker is ready, and waits for the begin.
func awaitBegin(ctx context.Context, in *bufio.Reader, stdout io.Writer) error {
	ready, err := json.Marshal(workerReady{version(), time.Now()})
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "%s\n", ready); err != nil {
		return err
	}
	begin := make(chan error, 1)
	go func() {
		_, err := in.ReadByte()
		begin <- err
	}()
	select {
	case err := <-begin:
		if err != nil {
			return fmt.Errorf("the begin did not come: %w", err)
		}
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// takeJob reads the job, and returns its plan.
func (o *loadFlags) takeJob(in *bufio.Reader) (p plan.Plan, err error) {
	line, err := in.ReadBytes('\n')
	if err != nil {
		return p, fmt.Errorf("the job did not come: %w", err)
	}
	var job workerJob
	if err := json.Unmarshal(line, &job); err != nil {
		return p, fmt.Errorf("the job: %w", err)
	}
	if err := job.Plan.Complete(); err != nil {
		return p, fmt.Errorf("the job: %w", err)
	}
	if len(job.Plan.Servers) != 1 {
		return p, errors.New("the job names more than one server")
	}
	config, err := job.TLS.Config()
	if err != nil {
		return p, err
	}
	url := job.Plan.Servers[0]
	o.quiet = job.Quiet
	o.servers = map[string]*target.Target{url: {URL: url, TLS: config, Token: client.TokenFromEnv}}
	return job.Plan, nil
}
