package process

import (
	"slices"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process/launch"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/actors/screen"
	"github.com/b6f6fdd7/troupe/protocol"
)

// display is what a process knows about the screen of its PTY.
type display struct {
	sizes []message.ScreenSize // of the PTY, from the oldest that the log has on; empty: there was no resize

	pid    *actor.PID      `lost:"made again"`          // of the actor; nil: there is none
	made   int             `lost:"of this server"`      // actors so far
	asked  uint64          `lost:"of this server"`      // requests that the actor has got
	room   *screen.Room    `lost:"of this server"`      // of the actor; or taken by the start
	failed *protocol.Error `lost:"fails again, or not"` // the answer to all requests; nil: none
}

// maxSizes is how many sizes a process remembers. A screen that begins later is drawn with them.
const maxSizes = 32

// displayFor returns what a process with the member screen needs; nil: the start does not ask for a screen.
func displayFor(e *env.Env, g *message.Gauge, l *launch.Launch) (*display, *protocol.Error) {
	params := l.Params
	switch {
	case params.Screen == nil:
		return nil, nil
	case !params.TTY:
		return nil, noTTY(params.ProcessID, "give it a screen")
	}
	room, err := screen.NewRoom(e, g, l.Spec.Size, scrollbackOf(params.Screen, 0))
	if err != nil && params.Screen.IfRoom {
		return nil, nil // a later request may find room
	}
	return &display{room: room}, err
}

// scrollbackOf returns the scrollback of a screen that a start asks for, and of another one.
func scrollbackOf(s *protocol.StartScreen, asked uint64) int {
	n := max(asked, protocol.DefaultScrollback)
	if s != nil && s.Scrollback != nil {
		n = *s.Scrollback
	}
	return int(min(n, protocol.MaxScrollback))
}

// noTTY refuses what only a process on a PTY can do.
func noTTY(id, what string) *protocol.Error {
	return protocol.Errorf(protocol.KindNoTTY, protocol.CodeInvalidRequest, "process %s is not attached to a PTY: start it with tty true to %s", id, what)
}

// isScreen reports whether pid is the screen of the process.
func (p *process) isScreen(pid *actor.PID) bool {
	return p.display != nil && p.display.pid != nil && pid != nil && pid.Id == p.display.pid.Id
}

// resumeScreen begins the screen that the start asks for.
func (p *process) resumeScreen(ctx actor.Context) {
	if d := p.display; d != nil { // the actor has ended with the last instance
		d.pid, d.failed = nil, nil
		if d.made > 0 {
			d.room.Close()
			d.room = nil
		}
	}
	if asked := p.launch.Params.Screen; asked != nil && (p.display != nil || !asked.IfRoom) {
		if err := p.beginScreen(ctx, 0); err != nil {
			p.logErr("the screen of a process", err)
		}
	}
}

// beginScreen spawns the actor of the screen, unless there is one.
func (p *process) beginScreen(ctx actor.Context, scrollback uint64) *protocol.Error {
	if p.display == nil {
		p.display = new(display)
	}
	d, asked := p.display, p.launch.Params.Screen
	switch {
	case d.failed != nil:
		return d.failed
	case d.pid != nil:
		return nil
	}
	lines := scrollbackOf(asked, scrollback)
	if d.room == nil {
		room, err := screen.NewRoom(p.env, p.gauge.Gauge, p.launch.Spec.Size, lines)
		if err != nil {
			return err
		}
		d.room = room
	}
	d.made++
	sizes := d.sizes
	if len(sizes) == 0 {
		sizes = []message.ScreenSize{{Size: p.launch.Spec.Size}}
	}
	props := screen.New(p.env, screen.Options{
		Process: p.ref(ctx), Instance: p.instance(), Scrollback: lines, Sizes: sizes, Kept: asked != nil, Room: d.room,
	})
	pid, err := ctx.SpawnNamed(props, "screen-"+strconv.Itoa(d.made))
	if err != nil {
		d.room.Close()
		d.room = nil
		return protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "spawn the screen of process %s: %v", p.id, err)
	}
	d.pid, d.asked = pid, 0
	return nil
}

// askScreen passes a process/screen on to the screen, and makes one if there is none.
func (p *process) askScreen(ctx actor.Context, r *parked, m message.Request) {
	if !p.launch.Spec.TTY {
		p.reply(ctx, r, nil, noTTY(p.id, "see its screen"))
		return
	}
	if err := screen.TooLarge(p.launch.Spec.Size); err != nil {
		p.reply(ctx, r, nil, err)
		return
	}
	if err := p.beginScreen(ctx, m.Params.(protocol.ProcessScreenParams).Scrollback); err != nil {
		p.reply(ctx, r, nil, err)
		return
	}
	p.display.asked++
	ctx.RequestWithCustomSender(p.display.pid, message.ScreenAsk{
		Of: m, UpTo: p.feed.Log.Last(), Run: p.life.Run(), Exited: p.life.Phase() >= life.Exited, Closed: p.life.Phase() >= life.Closed, HeardAt: p.health.HeardAt(),
	}, r.sender)
}

// resizeScreen notes that the PTY has another size from now on.
func (p *process) resizeScreen(ctx actor.Context, was protocol.Size) {
	if p.display == nil {
		p.display = new(display)
	}
	d, now := p.display, message.ScreenSize{Seq: p.feed.Log.Last(), Size: p.launch.Spec.Size}
	if len(d.sizes) == 0 {
		d.sizes = append(d.sizes, message.ScreenSize{Size: was})
	}
	for len(d.sizes) >= maxSizes || len(d.sizes) > 1 && d.sizes[1].Seq < p.feed.Log.First() {
		d.sizes = slices.Delete(d.sizes, 0, 1)
	}
	d.sizes = append(d.sizes, now)
	if pid := d.pid; pid != nil {
		ctx.Send(pid, now)
		if screen.TooLarge(now.Size) != nil {
			p.forgetScreen(pid)
			ctx.Poison(pid) // not Stop: the screen first says why to whoever waits
		}
	}
}

// receiveScreen handles the messages about the screen.
func (p *process) receiveScreen(ctx actor.Context) bool {
	switch m := ctx.Message().(type) {
	case *actor.Terminated:
		p.screenGone(m.Who)
		message.ForgetEnded(ctx)
	case message.ScreenIdle:
		if p.isScreen(ctx.Sender()) && m.Asked == p.display.asked {
			p.endScreen(ctx)
		}
	case message.ScreenFull:
		if p.isScreen(ctx.Sender()) {
			p.endScreen(ctx)
		}
	default:
		return false
	}
	return true
}

// endScreen ends the actor of the screen. The next request makes another one.
func (p *process) endScreen(ctx actor.Context) {
	pid := p.display.pid
	p.forgetScreen(pid)
	ctx.Stop(pid)
}

// screenGone handles the end of the actor of the screen. If nobody has ended it, it has failed too often.
func (p *process) screenGone(pid *actor.PID) {
	p.env.Strategy.Forget(pid)
	if p.isScreen(pid) {
		p.display.failed = screen.ErrFailed
		p.forgetScreen(pid)
	}
}

func (p *process) forgetScreen(pid *actor.PID) {
	p.feed.Remove(message.KeyOf(pid))
	p.held()
	p.display.pid = nil
	p.display.room.Close()
	p.display.room = nil
}

// leaveScreen gives back the room of the screen. The actor of the screen ends with that of the process.
func (r *processRecord) leaveScreen() {
	if r.display != nil {
		r.display.pid = nil // the log is gone: its end changes nothing any more
		r.display.room.Close()
	}
}
