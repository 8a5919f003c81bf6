package process

import (
	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/protocol"
)

// screen answers process/screen.
func (p *process) screen(ctx actor.Context, r *parked, _ protocol.ProcessScreenParams) {
	if !p.launch.Spec.TTY {
		p.reply(ctx, r, nil, p.noTTY("have a screen"))
		return
	}
	p.reply(ctx, r, nil, protocol.Errorf(protocol.KindUnsupported, protocol.CodeInvalidRequest, "this server keeps no screens yet"))
}

// noTTY refuses a request that only a process on a PTY can do.
func (p *process) noTTY(what string) *protocol.Error {
	return protocol.Errorf(protocol.KindNoTTY, protocol.CodeInvalidRequest, "process %s is not attached to a PTY: start it with tty true to %s", p.id, what)
}
