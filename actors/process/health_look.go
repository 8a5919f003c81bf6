package process

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"syscall"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/protocol"
)

// How the server looks whether a run is ready: at a port, a socket or a file.

// pace is the time from a look to the next: at first, and at most.
type pace struct{ first, most time.Duration }

// lookout looks, on a goroutine, until the run is ready or has ended. While the server
// itself stands in the way, time does not count.
func (p *process) lookout(ctx actor.Context, look func(context.Context) error, every pace) {
	self, root, run, watched, blind := ctx.Self(), ctx.ActorSystem().Root, p.life.Run(), p.health.watched, p.health.blind
	p.env.Run(root, self, "ready", func() {
		var told error
		for pause := every.first; ; pause = min(pause*3/2, every.most) {
			begun, err := time.Now(), look(watched)
			if err == nil {
				root.Send(self, readyNow{run})
				return
			}
			if !lacking(err) && !errors.Is(err, errLooks) && !errors.Is(err, errProbe) {
				err = nil
			}
			if (err == nil) != (told == nil) {
				told = err
				root.Send(self, blinded{run, err})
			}
			select {
			case <-watched.Done():
				return
			case <-time.After(pause):
			}
			if err != nil {
				blind.Add(int64(time.Since(begun)))
			}
		}
	})
}

// A look at a file, or at a socket by its path, holds a thread until the filesystem answers. A filesystem may never
// answer. looksEach and looksAll bound how many looks wait at a time.
const (
	looksEach = 8 // of a session
	looksAll  = 64
)

// errLooks means: too many looks wait already, and there was no look.
var errLooks = fmt.Errorf("%d looks at files of this session, or %d in all, wait for a filesystem", looksEach, looksAll)

func (p *process) bounded(look func(context.Context) error) func(context.Context) error {
	each, all := &p.gauge.Looks, &p.env.Counts.Looks
	return func(ctx context.Context) error {
		defer each.Add(-1)
		defer all.Add(-1)
		if n, of := each.Add(1), all.Add(1); n > looksEach || of > looksAll {
			return errLooks
		}
		return look(ctx)
	}
}

// as returns look with the file permissions of u: a client must not learn which files are closed to its programs.
func as(u *child.User, look func(context.Context) error) func(context.Context) error {
	if u == nil {
		return look
	}
	return func(ctx context.Context) (err error) {
		if refused := child.LookAs(u, func() { err = look(ctx) }); refused != nil {
			return refused
		}
		return err
	}
}

// lookFor returns a function that looks once whether a run is ready; a nil error means: ready. Tests
// replace lookFor.
var lookFor = func(r *protocol.Ready) func(context.Context) error {
	switch {
	case r.TCP != "":
		return func(ctx context.Context) error { return dial(ctx, "tcp", r.TCP) }
	case r.Unix != "":
		path, _ := protocol.ParseFileURI(r.Unix) // checked at the start
		return func(ctx context.Context) error { return dial(ctx, "unix", path) }
	}
	path, _ := protocol.ParseFileURI(r.File)
	return func(context.Context) error {
		_, err := os.Lstat(path)
		return err
	}
}

// dial opens a connection, and closes it.
func dial(ctx context.Context, network, address string) error {
	d := net.Dialer{Timeout: lookTime}
	conn, err := d.DialContext(ctx, network, address)
	if err == nil {
		conn.Close()
	}
	return err
}

// lacking reports whether an error says that the server lacks descriptors, memory or local ports.
// Such an error tells nothing about the program.
func lacking(err error) bool {
	return slices.ContainsFunc([]syscall.Errno{syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, syscall.ENOBUFS, syscall.EADDRNOTAVAIL},
		func(e syscall.Errno) bool { return errors.Is(err, e) })
}
