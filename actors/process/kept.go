package process

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/internal/record"
	"github.com/b6f6fdd7/troupe/protocol"
)

// The words of the chain of a process, after those of the streams.
const (
	wordLast  = 4 + iota // the last seq of the log when the record was kept last
	wordFirst            // the oldest seq of the log
)

// kept is what the next server finds of a process beside its record. Output is in a chain of the arena, as soon as it is read. Events are in the
// record.
type kept struct {
	owner  *estate.Owner `lost:"of this server"` // nil: nothing is kept yet, or any more
	chain  *arena.Chain  `lost:"the arena has it"`
	input  *arena.Chain  `lost:"the arena has it"`
	Number uint64        // of the chain; 0: there is none. That of input is 1 more
	Input  uint64        // the offset after the newest byte of input of which the record knows
	Events events
}

// free frees the chains, once neither pumps nor the writer of stdin use them, and the record is gone. Any goroutine may call free.
func (k *kept) free() {
	if k.chain != nil {
		k.chain.Free()
		k.input.Free()
	}
}

// number notes the seq of output.
func (k *kept) number(e arena.Entry, seq uint64) {
	if e.Block != nil {
		e.SetSeq(seq)
	}
}

// drop drops the output before the seq first from the chain.
func (k *kept) drop(first uint64) {
	if k.chain == nil {
		return
	}
	var old arena.Entry
	for e := range k.chain.Entries() {
		if seq := e.Seq(); seq == 0 || seq >= first {
			break
		}
		old = e
	}
	if old.Block != nil {
		k.chain.Word(wordFirst).Store(first)
		k.chain.Drop(old)
	}
}

// An event is an entry of the log that is no output.
type event struct {
	Seq     uint64
	AtMs    int64
	Kind    outlog.Kind
	Denied  bool
	Status  *protocol.ExitStatus
	Restart *outlog.Restart
}

// events are the events of a log, written as they come.
type events struct {
	All  []event
	new  int    `lost:"told already"`        // how many of All News has not told
	upTo uint64 `lost:"the last of the log"` // follow has seen the log up to this seq
}

// follow takes the newest events of the log.
func (e *events) follow(log *outlog.Log) {
	more, last := log.Events(e.upTo, -1)
	e.upTo = last
	for _, m := range more {
		e.All = append(e.All, event{m.Seq, m.AtMs, m.Kind, m.Denied, m.Status, m.Restart})
		e.new++
	}
	if n := len(e.All) - e.new; n > 64 && e.All[n/2].Seq < log.First() {
		e.All = slices.Delete(e.All, 0, n/2)
	}
}

// News implements record.Journal.
func (e *events) News(b []byte) ([]byte, bool) {
	if e.new > 0 {
		b = record.Encode(b, e.All[len(e.All)-e.new:])
		e.new = 0
	}
	return b, true
}

// Learn implements record.Journal.
func (e *events) Learn(b []byte) error {
	var more []event
	err := record.Decode(b, &more)
	e.All = append(e.All, more...)
	return err
}

// keepChain makes the chain of a process whose output outlives the server.
func (p *process) keepChain() {
	if p.outbox == nil {
		return
	}
	chain, input, err := p.env.Estate.NewChains()
	if err != nil {
		p.env.Log.Error("the next server will not know a process", "actor", p.name, "err", err)
		return
	}
	p.kept.chain, p.kept.input, p.kept.Number = chain, input, chain.Owner()
	p.kept.owner = p.env.Estate.Owner(keptAs(p.name))
	p.follow()
}

// follow has the parts of the record that grow note their changes.
func (r *processRecord) follow() {
	r.answers.Follow()
	r.stdin.Follow()
}

// mayKeep reports whether the process outlives its server. A program of a sister API ends with its connection.
func (r *processRecord) mayKeep() bool { return !r.feed.Ephemeral && r.spool == nil }

// keep keeps the record for the next server, until the actor stops.
func (r *processRecord) keep() {
	k := &r.kept
	switch {
	case k.owner == nil:
	case r.life.Over():
		k.owner.End()
		k.owner = nil // free follows
	default:
		k.Input = k.endOfInput()
		k.Events.follow(&r.feed.Log)
		k.owner.Keep(r)
		k.forgetInput(min(k.Input, k.input.Word(estate.WordGiven).Load()))
		k.chain.Word(wordLast).Store(r.feed.Log.Last())
	}
}

// endOfInput returns the offset after the newest byte of input.
func (k *kept) endOfInput() uint64 {
	end := k.Input
	for e := range k.input.Entries() {
		end = max(end, estate.InputOf(e).End())
	}
	return end
}

// restoreInput learns of input that the last server has accepted and told nobody.
func (p *process) restoreInput() {
	k := &p.kept
	for e := range k.input.Entries() {
		if in := estate.InputOf(e); in.From >= k.Input {
			p.stdin.Found(in.ID, len(in.Data))
		}
	}
}

// dropInput drops input of the last run.
func (k *kept) dropInput() {
	if k.input == nil {
		return
	}
	end := k.endOfInput()
	k.input.Word(estate.WordGiven).Store(end)
	k.forgetInput(end)
}

// forgetInput drops input before an offset: the record knows of it, and the program has it.
func (k *kept) forgetInput(end uint64) {
	var had arena.Entry
	for e := range k.input.Entries() {
		if estate.InputOf(e).End() > end {
			break
		}
		had = e
	}
	if had.Block != nil {
		k.input.Drop(had)
	}
}

// restoreLog makes the log again. Output that no viewer can have seen is not in the log yet, and goes through the intake.
func (p *process) restoreLog(ctx actor.Context, in *child.Intake) {
	k, log := &p.kept, &p.feed.Log
	if p.life.Phase() >= life.Retired {
		return // nobody reads the log any more
	}
	last, first, written := k.chain.Word(wordLast).Load(), max(k.chain.Word(wordFirst).Load(), 1), uint64(0)
	for s := protocol.Stdout; s <= protocol.PTY; s++ {
		written += k.chain.Word(int(s)).Load()
	}
	var entries []outlog.Entry
	for _, e := range k.Events.All {
		if last = max(last, e.Seq); e.Seq >= first && (e.Kind != outlog.Closed || p.life.Phase() >= life.Closed) {
			entries = append(entries, outlog.Entry{Seq: e.Seq, AtMs: e.AtMs, Kind: e.Kind, Denied: e.Denied, Status: e.Status, Restart: e.Restart})
		}
	}
	for e := range k.chain.Entries() {
		h, data := e.Header(), e.Data()
		switch seq := e.Seq(); {
		case seq == 0 || seq > last:
			in.Found(e)
			written -= uint64(len(data))
		case seq >= first:
			if n := len(entries) - 1; n >= 0 && entries[n].Seq == seq {
				entries[n].Data = append(slices.Clip(entries[n].Data), data...)
				continue
			}
			e.Block.Hold()
			entries = append(entries, outlog.Entry{Seq: seq, AtMs: h.AtMs, Kind: outlog.Output, Stream: protocol.Stream(h.Stream), Data: data, Slab: e.Block})
		}
	}
	k.Events.upTo = last
	slices.SortStableFunc(entries, func(a, b outlog.Entry) int { return int(int64(a.Seq - b.Seq)) })
	log.Restore(first, last, written, entries)
	in.Hold(p.holds())
}
