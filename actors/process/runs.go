package process

import (
	"github.com/b6f6fdd7/troupe/actors/internal/policy"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/protocol"
)

// restartNow is process/restart.
func (p *process) restartNow() *protocol.Error {
	if err := p.life.Restart(p.now()); err != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "process %s %v", p.id, err)
	}
	return nil
}

// setRestart is process/setRestart.
func (p *process) setRestart(r protocol.Restart) *protocol.Error {
	if !p.life.Restartable() {
		return protocol.Errorf(protocol.CodeInvalidRequest, "process %s %v", p.id, life.ErrOnce)
	}
	if !p.alone && r.Intensity != nil {
		return errGroupIntensity
	}
	restart, err := policy.ParseRestart(&r)
	if err != nil {
		return err
	}
	p.check(p.life.SetRestart(*restart))
	return nil
}

var errGroupIntensity = protocol.Errorf(protocol.CodeInvalidParams, "restart.intensity is not for a process of a group, where that of the group counts: leave it out")
