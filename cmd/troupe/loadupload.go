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
	"github.com/b6f6fdd7/troupe/internal/nodeid"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
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

// newUploadDir returns the path of a new directory for a copy.
func newUploadDir() string { return "/tmp/troupe-load-" + strings.ToLower(rand.Text()[:16]) }

// upload copies this program to the servers of the plan, and sets the plan's path of it. remove removes the copies.
func (o *loadFlags) upload(ctx context.Context, p *plan.Plan, note func(string)) (remove func(), err error) {
	dir := newUploadDir()
	placement, err := p.Placement()
	if err != nil {
		return nil, err
	}
	var done []string
	remove = func() {
		for i, err := range o.remove(done, placement, dir) {
			if err != nil {
				note(fmt.Sprintf("the copy of troupe in %s of %s is still there: %v", dir, done[i], err))
			}
		}
	}
	for _, server := range p.Servers {
		err := o.on(ctx, server, placement, func(c *client.Client) error {
			if nodeid.Of(c.SessionID()) != "" && p.Node == "" {
				return errors.New("this is a cluster, and the copy would be on one of its servers: name with --program where troupe is on all of them, or choose one with --node")
			}
			done = append(done, server)
			return copyTo(ctx, c, dir)
		})
		if err != nil {
			remove()
			return nil, fmt.Errorf("--upload to %s: %w", server, err)
		}
	}
	p.Program = dir + "/troupe"
	return remove, nil
}

// copyTo copies this program into a new directory of a server.
func copyTo(ctx context.Context, c *client.Client, dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	f, err := os.Open(self)
	if err != nil {
		return err
	}
	defer f.Close()
	out, err := script(ctx, c, uploadScript, dir, f)
	if want := "troupe " + version(); err == nil && out != want {
		err = fmt.Errorf("the copy printed %q, expected %q", out, want)
	}
	return err
}

// remove removes a directory from servers, also after the run was interrupted. The errors are those of the servers.
func (o *loadFlags) remove(servers []string, placement *protocol.Placement, dir string) []error {
	ctx, cancel := o.within(removeTime, removeAtOnce)
	defer cancel()
	errs := make([]error, len(servers))
	var all sync.WaitGroup
	for i, server := range servers {
		all.Go(func() {
			errs[i] = o.on(ctx, server, placement, func(c *client.Client) error {
				_, err := script(ctx, c, removeScript, dir, nil)
				return err
			})
		})
	}
	all.Wait()
	return errs
}

// within returns a context, also after the run was interrupted. It ends after most, and soon after the run ends at once: after atOnce.
func (o *loadFlags) within(most, atOnce time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	late := time.AfterFunc(most, func() { cancel(fmt.Errorf("no answer within %v", most)) })
	unhook := context.AfterFunc(o.hard, func() {
		time.AfterFunc(atOnce, func() { cancel(fmt.Errorf("the run was ended at once, and no answer came within %v", atOnce)) })
	})
	return ctx, func() {
		late.Stop()
		unhook()
		cancel(nil)
	}
}

// on calls use with a session on a server.
func (o *loadFlags) on(ctx context.Context, server string, placement *protocol.Placement, use func(*client.Client) error) error {
	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
	c, err := o.dial(ctx, server, &client.Options{Name: "troupe-load", SessionName: "load upload", Placement: placement})
	if err != nil {
		return err
	}
	defer c.CloseSession(ctx)
	return use(c)
}

// script runs a script of sh on a server, with $0 and a stdin, and returns what it prints.
func script(ctx context.Context, c *client.Client, script, arg string, stdin *os.File) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, uploadTime)
	defer cancel()
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
		if isElsewhere(server) {
			return unknownProgram(server)
		}
	}
	return nil
}

// isElsewhere reports whether a server may be on another machine.
func isElsewhere(server string) bool {
	u, err := url.Parse(server)
	if err != nil || strings.HasPrefix(u.Scheme, "unix") || u.Hostname() == "localhost" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return ip == nil || !ip.IsLoopback()
}

func unknownProgram(server string) error {
	return fmt.Errorf("the server %s may be on another machine: say with --program where troupe is there, or copy it there with --upload", server)
}

var errUpload = errors.New("--upload and --program both say which troupe runs on the server: leave one out")
