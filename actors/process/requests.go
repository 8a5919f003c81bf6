package process

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process/launch"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/actors/process/stdin"
	"github.com/b6f6fdd7/troupe/protocol"
)

// parked is a waiting request.
type parked struct {
	sender *actor.PID
	token  uint64
	params any
	guest  bool
	until  time.Time                       // of a process/read or process/wait: the end of its time; zero: never
	tree   protocol.ProcessTerminateResult // the answer to a process/terminate with tree
}

// request answers or parks a request of a client. The function is long: it has a case for each method.
func (p *process) request(ctx actor.Context, m message.Request) {
	if about, ok := m.Params.(protocol.AboutProcess); ok && about.Process() != "" && about.Process() != p.id { // a host has mixed them up
		ctx.Respond(m.Failed(protocol.WrongParams("processId is %q, and this actor is process %s: send the request to ProcessRef.PID of that process, or leave ProcessID empty",
			wireerr.Clip(about.Process()), p.id)))
		return
	}
	switch p.life.Phase() {
	case life.Starting: // the session passes no request on before ProcessStarted
		ctx.Respond(m.Failed(protocol.Errorf(protocol.KindOrder, protocol.CodeInvalidRequest, "process id %s is starting", p.id)))
		return
	case life.Retired:
		ctx.Respond(m.Failed(wireerr.UnknownProcess(p.id)))
		return
	}
	if of, ok := m.Params.(interface{ ForInstance() string }); ok && of.ForInstance() != "" && of.ForInstance() != p.instance() {
		ctx.Respond(m.Failed(wireerr.OtherProcess(p.id, of.ForInstance())))
		return
	}
	if a, ok := p.answers.To(m.Params); ok && m.Guest == "" {
		ctx.Respond(message.Reply{Token: m.Token, Result: a.Result, Err: a.Err}) // the request was done before a cut
		return
	}
	r := &parked{sender: ctx.Sender(), token: m.Token, params: m.Params, guest: m.Guest != ""}
	if other, ok := p.otherRun(m.Params); ok {
		p.reply(ctx, r, other, nil)
		return
	}
	switch params := m.Params.(type) {
	case protocol.ProcessReadParams:
		// A client that reads after a seq has the output up to there (PROTOCOL.md).
		if p.feed.AckRead(message.KeyOf(r.sender), params.AfterSeq) {
			p.held()
		}
		p.park(ctx, r, &params.WaitMs)
	case protocol.ProcessSubscribeParams:
		p.reply(ctx, r, p.describe(), p.notYet(params.AfterSeq)) // the connection sends Subscribe next
	case protocol.ProcessWaitParams:
		p.park(ctx, r, params.TimeoutMs)
	case protocol.ProcessWriteParams:
		id := params.WriteID
		if r.guest {
			id = m.Guest + "\x00" + id // of this guest
		}
		p.stdin.Add(stdin.Request[*parked]{For: r, Write: true, ID: repeat.IDOf(id), Guest: r.guest, Chunk: params.Chunk})
		p.acceptStdin(ctx)
	case protocol.ProcessCloseStdinParams:
		p.stdin.Add(stdin.Request[*parked]{For: r, Run: int(params.Run)})
		p.acceptStdin(ctx)
	case protocol.ProcessResizeParams:
		p.reply(ctx, r, protocol.Empty{}, p.resize(ctx, params.Size))
	case protocol.ProcessSignalParams:
		p.reply(ctx, r, protocol.Empty{}, p.signal(params.Signal))
	case protocol.ProcessTerminateParams:
		if err := launch.GraceError("graceMs", params.GraceMs); err != nil {
			p.reply(ctx, r, nil, err)
			return
		}
		result := protocol.ProcessTerminateResult{Running: p.lives()}
		if params.Tree && (params.GraceMs == nil || *params.GraceMs == 0) {
			r.tree = result
			if again := p.trees.park(r); again {
				return
			}
		} else {
			p.reply(ctx, r, result, nil)
		}
		p.terminate(params)
	case message.KillTreeRequest:
		p.reply(ctx, r, protocol.ProcessTerminateResult{Running: p.lives()}, nil)
		p.terminate(protocol.ProcessTerminateParams{Tree: true})
	case protocol.ProcessRestartParams:
		p.reply(ctx, r, protocol.Empty{}, p.restartNow())
	case protocol.ProcessSetRestartParams:
		p.reply(ctx, r, protocol.Empty{}, p.setRestart(params.Restart))
	case protocol.ProcessInfoParams:
		p.inspect(ctx, r, true)
	case message.InspectRequest:
		if params.Usage {
			p.inspect(ctx, r, false)
		} else {
			p.inspected(ctx, inspected{r: r})
		}
	case protocol.ProcessScreenParams:
		p.askScreen(ctx, r, m)
	case message.DescribeRequest:
		p.reply(ctx, r, p.describe(), nil)
	default:
		p.reply(ctx, r, nil, protocol.Errorf(protocol.KindInternal, protocol.CodeInternal, "a process does not answer %T", m.Params))
	}
}

func (p *process) reply(ctx actor.Context, r *parked, result any, err *protocol.Error) {
	reply := message.Reply{Token: r.token, Result: result, Err: err}
	if !r.guest {
		p.answers.Add(r.params, result, err)
	}
	ctx.Send(r.sender, reply)
}

// otherRun returns the result of a request for another run. ok is false if the request names the
// current run, or no run.
func (p *process) otherRun(params any) (result protocol.OtherRun, ok bool) {
	r, ok := params.(interface{ ForRun() uint64 })
	if !ok || r.ForRun() == 0 || r.ForRun() == uint64(p.life.Run()) {
		return result, false
	}
	return protocol.OtherRun{Run: p.life.Run()}, true
}
