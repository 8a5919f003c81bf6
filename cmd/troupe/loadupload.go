//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/internal/show"
)

const (
	uploadTime   = 5 * time.Minute  // for the copy to a server
	removeTime   = 20 * time.Second // for the removal of all copies
	removeAtOnce = 2 * time.Second  // for the removal, once the run ends at once
)

// The copy goes through a program, since every server of the wire has programs. The directory is only for the user of the server. Two servers of
// one machine share it.
const (
	uploadScript = `if mkdir -m 700 "$0"; then cat >"$0/troupe" && chmod 700 "$0/troupe"; fi && "$0/troupe" version`
	removeScript = `rm -rf "$0"`
)

// upload copies this program to the servers of the plan, and sets the plan's path of it. remove removes the copies.
func (o *loadFlags) upload(ctx context.Context, p *plan.Plan, note func(string)) (remove func(), err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	dir := "/tmp/troupe-load-" + strings.ToLower(rand.Text()[:16])
	var done []string
	remove = func() {
		for i, err := range o.remove(done, dir) {
			if err != nil {
				note(fmt.Sprintf("the copy of troupe in %s of %s is still there: %v", dir, done[i], err))
			}
		}
	}
	for _, server := range p.Servers {
		f, err := os.Open(self)
		if err != nil {
			remove()
			return nil, err
		}
		done = append(done, server)
		out, err := o.script(ctx, server, uploadScript, dir, f)
		f.Close()
		if err != nil {
			remove()
			return nil, fmt.Errorf("--upload to %s: %w", server, err)
		}
		if want := "troupe " + version(); out != want {
			remove()
			return nil, fmt.Errorf("--upload to %s: the copy printed %q, expected %q", server, out, want)
		}
	}
	p.Program = dir + "/troupe"
	return remove, nil
}

// remove removes a directory from servers, also after the run was interrupted. The errors are those of the servers.
func (o *loadFlags) remove(servers []string, dir string) []error {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	late := time.AfterFunc(removeTime, func() { cancel(fmt.Errorf("no answer within %v", removeTime)) })
	defer late.Stop()
	defer context.AfterFunc(o.hard, func() {
		time.AfterFunc(removeAtOnce, func() { cancel(fmt.Errorf("the run was ended at once, and no answer came within %v", removeAtOnce)) })
	})()
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, server := range servers {
		all.Go(func() { _, errs[i] = o.script(ctx, server, removeScript, dir, nil) })
	}
	all.Wait()
	return errs
}

// script runs a script of sh on a server, with $0 and a stdin, and returns what it prints.
func (o *loadFlags) script(ctx context.Context, server, script, arg string, stdin *os.File) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
	c, err := o.dial(ctx, server, &client.Options{Name: "troupe-load", SessionName: "load upload"})
	if err != nil {
		return "", err
	}
	defer c.CloseSession(ctx)
	cmd := c.Command("sh", "-c", script, arg)
	cmd.Dir = "/"
	if stdin != nil {
		cmd.Stdin = stdin
	}
	var out, errs bytes.Buffer // of a few words; a program that prints more than the client holds waits
	cmd.Stdout, cmd.Stderr = &limited{&out}, &limited{&errs}
	if err := cmd.Run(ctx); err != nil {
		if text := strings.TrimSpace(errs.String()); text != "" {
			err = fmt.Errorf("%w: %s", err, show.Harmless(text))
		}
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}

// limited takes the first bytes of an output, and drops the rest.
type limited struct{ *bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	l.Buffer.Write(p[:min(len(p), max(0, 4<<10-l.Len()))])
	return len(p), nil
}

// checkProgram returns an error if a server of the plan is on another machine, and the path of troupe there is not known.
func checkProgram(p *plan.Plan) error {
	if p.Program != "" || p.Command != nil {
		return nil
	}
	for _, server := range p.Servers {
		u, err := url.Parse(server)
		if err != nil || strings.HasPrefix(u.Scheme, "unix") || u.Hostname() == "localhost" {
			continue
		}
		if ip := net.ParseIP(u.Hostname()); ip == nil || !ip.IsLoopback() {
			return fmt.Errorf("the server %s may be on another machine: say with --program where troupe is there, or copy it there with --upload", server)
		}
	}
	return nil
}

var errUpload = errors.New("--upload and --program both say which troupe runs on the server: leave one out")
