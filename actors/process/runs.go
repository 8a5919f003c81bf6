package process

import (
	"github.com/b6f6fdd7/troupe/actors/internal/policy"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/protocol"
)

// restartNow is process/restart.
func (p *process) restartNow() *protocol.Error {
	if p.life.Phase() == life.Closed && p.launch.AfterEnd() {
		if err := p.place.TryReturn(); err != nil { // a process that stops now gives the place back when its actor stops
			return err
		}
	}
	if err := p.life.Restart(p.now()); err != nil {
		return protocol.Errorf(kindOfRefusal(err), protocol.CodeInvalidRequest, "process %s %v", p.id, err)
	}
	return nil
}

// kindOfRefusal returns the kind of an error of life.Restart.
func kindOfRefusal(err error) protocol.ErrorKind {
	switch err {
	case life.ErrOnce:
		return protocol.KindNoRestart
	case life.ErrHeld:
		return protocol.KindHeld
	}
	return protocol.KindEnded
}

// setRestart is process/setRestart.
func (p *process) setRestart(r protocol.Restart) *protocol.Error {
	if !p.life.Restartable() {
		return protocol.Errorf(protocol.KindNoRestart, protocol.CodeInvalidRequest, "process %s %v", p.id, life.ErrOnce)
	}
	if !p.ownIntensity && r.Intensity != nil {
		return errGroupIntensity
	}
	if r.AfterEnd && !p.launch.AfterEnd() {
		return protocol.WrongParams("restart.afterEnd is for process/start and group/start: what process %s was started with is not kept", p.id)
	}
	restart, err := policy.ParseRestart(&r)
	if err != nil {
		return err
	}
	p.check(p.life.SetRestart(*restart))
	return nil
}

var errGroupIntensity = protocol.WrongParams("restart.intensity is not for a process of a group, where that of the group counts: leave it out")
