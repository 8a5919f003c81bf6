package repeat

import (
	"github.com/b6f6fdd7/troupe/internal/record"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Answers are a record.Journal: after a turn of an actor, its record gets the answers of the turn, and not all answers.

// fresh is an answer of a turn.
type fresh struct {
	Key    ID
	Answer Answer
}

// Follow has Add note the answers for News. News is called after each turn of the actor.
func (a *Answers) Follow() { a.follow = true }

// News implements record.Journal.
func (a *Answers) News(b []byte) ([]byte, bool) {
	if len(a.fresh) > 0 {
		b = record.Encode(b, a.fresh)
		a.fresh = nil
	}
	return b, true
}

// Learn implements record.Journal.
func (a *Answers) Learn(b []byte) error {
	var all []fresh
	err := record.Decode(b, &all)
	for _, f := range all {
		a.memory.Put(f.Key, f.Answer, MaxAnswers)
	}
	return err
}

// The results that an Answer may have.
func init() {
	record.RegisterAll(
		protocol.Empty{}, protocol.OtherRun{}, protocol.ProcessTerminateResult{}, protocol.ProcessWriteResult{}, protocol.SessionShareResult{}, protocol.SessionUnshareResult{},
	)
}
