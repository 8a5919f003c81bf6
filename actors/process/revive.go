package process

import (
	"errors"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/internal/env"
	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/internal/estate"
)

// keptAs returns the name of the record of a process in the estate, by the name of its actor.
func keptAs(actor string) string { return "process " + actor }

// Revive returns the request for the actor of a process that an earlier server has left, and the name of its child. o is that of New, with a
// Request without params.
func Revive(e *env.Env, from estate.Reviver, o Options) (_ message.SpawnRequest, child string, err error) {
	r := &processRecord{}
	if err := from.Revive(keptAs(o.Name), r); err != nil {
		return message.SpawnRequest{}, "", err
	}
	o.Grouped = o.Group != nil
	if o.Place != nil {
		o.StdinRate = o.Place.Stdin
	}
	if err := r.launch.Revive(e, o.Request); err != nil {
		return message.SpawnRequest{}, "", fmt.Errorf("process %s: %s", r.id, err.Message)
	}
	r.env, r.session, r.group, r.gauge, r.events, r.place = e, o.Session, o.Group, share{Gauge: o.Gauge}, o.Events, o.Place
	if o.MaxChunk != nil {
		r.feed.Log.MaxChunk = int(*o.MaxChunk)
	}
	if r.life.Phase() >= life.Closed {
		r.place.Leave()
	}
	r.health.watcher = newWatcher(r.launch.Params)
	if r.kept.chain, r.kept.input = e.Estate.Chains(r.kept.Number); r.kept.chain == nil {
		err = errors.New("its output is gone")
	} else {
		err = r.reviveSpool()
	}
	if err != nil {
		r.kept.free()
		r.launch.Release()
		return message.SpawnRequest{}, "", fmt.Errorf("process %s: %w", r.id, err)
	}
	r.kept.owner = e.Estate.Owner(keptAs(o.Name))
	r.outbox = e.NewOutbox(r.keep)
	r.follow()
	return r.request(), r.launch.NameOf(r.run.asked), nil
}

// revive goes on with what an earlier server has left: the log, the child, and what was being looked for.
func (p *process) revive(ctx actor.Context) {
	p.run.intake = p.newIntake(ctx)
	p.restoreLog(ctx, p.run.intake)
	p.restoreInput()
	run := p.run.asked
	switch {
	case p.life.Spawning() && run > 0:
		p.run.asked = 0
		p.spawn(ctx, run) // a child that the earlier server has started is found by its name
	case run > 0 && !p.run.forgot && p.run.err == nil:
		if p.run.handle = p.env.AdoptChild(p.launch.NameOf(run), p.run.intake, p.launch.Spec.StdinRate); p.run.handle == nil {
			p.log().Error("the child of a process is gone", "run", run)
			p.run.handle = p.env.Host.Lost(p.run.intake)
		}
	}
	if p.health.watcher != nil && p.life.Phase() == life.Running {
		p.health.watcher.begin(p.launch.Params.Ready)
		p.health.Revive(p.healthNow())
	}
}
