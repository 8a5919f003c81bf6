package process

import (
	"errors"
	"os"
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/b6f6fdd7/troupe/actors/child"
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/actors/process/life"
	"github.com/b6f6fdd7/troupe/actors/spool"
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
	owner    *estate.Owner     `lost:"of this server"` // nil: nothing is kept yet, or any more
	chain    *arena.Chain      `lost:"the arena has it"`
	found    map[uint64][]byte `lost:"of this server"` // output on disk that is not in the log yet, by its place in the arena
	input    *arena.Chain      `lost:"the arena has it"`
	dropFile func()            `lost:"of this server"` // has the holder close the file of the spool; nil: there is no spool
	Number   uint64            // of the chain; 0: there is none. That of input is 1 more
	Input    uint64            // the offset after the newest byte of input of which the record knows
	Events   events
}

// free frees the chains, once neither pumps nor the writer of stdin use them, and the record is gone. Any goroutine may call free.
func (k *kept) free() {
	if k.chain != nil {
		k.chain.Free()
		k.input.Free()
	}
	if k.dropFile != nil {
		k.dropFile()
	}
}

// first returns the oldest seq that the log has.
func (k *kept) first() uint64 { return max(k.chain.Word(wordFirst).Load(), 1) }

// last returns the newest seq that somebody may have seen.
func (k *kept) last() uint64 {
	last := k.chain.Word(wordLast).Load()
	for _, e := range k.Events.All {
		last = max(last, e.Seq)
	}
	return last
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
		p.log().Error("the next server will not know a process", "err", err)
		return
	}
	p.kept.chain, p.kept.input, p.kept.Number = chain, input, chain.Owner()
	p.kept.owner = p.env.Estate.Owner(keptAs(p.name))
	p.keepSpool()
	p.follow()
}

// keepSpool has the holder keep the file of the spool.
func (r *processRecord) keepSpool() {
	if r.spool != nil {
		r.spool.Opened(func(f *os.File) error { return r.env.Estate.KeepFile(r.name, f) })
		r.kept.dropFile = func() { r.env.Estate.DropFile(r.name) }
	}
}

// reviveSpool goes on with the file of an earlier server. The process has its chain.
func (r *processRecord) reviveSpool() error {
	r.spool = spoolOf(r.env, r.disk(), r.launch.Params.Retention)
	r.keepSpool()
	last, first := r.kept.last(), r.kept.first()
	var pieces, unlogged []spool.Piece
	var places []uint64 // of unlogged
	for e := range r.kept.chain.Entries() {
		o, seq := estate.OutputOf(e), e.Seq()
		if o.Data != nil || seq > 0 && seq < first {
			continue
		}
		pieces = append(pieces, spool.Piece{At: o.InFile, N: int64(o.N)})
		if seq == 0 || seq > last {
			unlogged, places = append(unlogged, pieces[len(pieces)-1]), append(places, e.Place())
		}
	}
	switch file := r.env.Estate.File(r.name); {
	case file == nil && len(pieces) == 0: // no run has begun
		return nil
	case file == nil || r.spool == nil:
		return errors.New("its output on disk is gone")
	default:
		if err := r.spool.Restore(file, pieces); err != nil {
			return err
		}
	}
	r.kept.found = make(map[uint64][]byte)
	for i, p := range unlogged {
		extent := r.spool.Extent(p.At, int(p.N))
		data, err := extent.Read(nil)
		if extent.Release(); err != nil {
			return err
		}
		r.kept.found[places[i]] = data
	}
	return nil
}

// follow has the parts of the record that grow note their changes.
func (r *processRecord) follow() {
	r.answers.Follow()
	r.stdin.Follow()
}

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
			p.stdin.Found(in.ID, len(in.Data), in.Last)
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
		k.found = nil
		return // nobody reads the log any more
	}
	last, first, written := k.last(), k.first(), uint64(0)
	for s := protocol.Stdout; s <= protocol.PTY; s++ {
		written += k.chain.Word(int(s)).Load()
	}
	entries := make([]outlog.Restored, 0, min(max(last+1, first)-first, 1<<16)) // mostly each seq is in the log
	for _, e := range k.Events.All {
		if e.Seq >= first && (e.Kind != outlog.Closed || p.life.Phase() >= life.Closed) {
			entries = append(entries, outlog.Restored{Entry: outlog.Entry{Seq: e.Seq, AtMs: e.AtMs, Kind: e.Kind, Denied: e.Denied, Status: e.Status, Restart: e.Restart}})
		}
	}
	for e := range k.chain.Entries() {
		o := estate.OutputOf(e)
		piece := spool.Piece{At: o.InFile, N: int64(o.N)}
		switch seq, n := e.Seq(), len(entries)-1; {
		case seq == 0 || seq > last:
			in.Found(e, k.found[e.Place()])
			written -= o.N
		case seq < first:
		case n >= 0 && entries[n].Seq == seq && o.Data == nil:
			entries[n].Piece.N += piece.N
		case n >= 0 && entries[n].Seq == seq:
			entries[n].Data = append(slices.Clip(entries[n].Data), o.Data...)
		default:
			r := outlog.Restored{Entry: outlog.Entry{Seq: seq, AtMs: o.AtMs, Kind: outlog.Output, Stream: protocol.Stream(o.Stream), Data: o.Data}}
			if o.Data == nil {
				r.File, r.Piece = p.spool, piece
			} else {
				e.Block.Hold()
				r.Slab = e.Block
			}
			entries = append(entries, r)
		}
	}
	k.found = nil
	k.Events.upTo = last
	slices.SortStableFunc(entries, func(a, b outlog.Restored) int { return int(int64(a.Seq - b.Seq)) })
	log.Restore(first, last, written, entries)
	in.Hold(p.holds())
}
