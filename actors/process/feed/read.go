package feed

import (
	"github.com/b6f6fdd7/troupe/actors/outlog"
	"github.com/b6f6fdd7/troupe/protocol"
)

const (
	// maxRead is how much output a process/read returns, in bytes.
	maxRead = 8 << 20
	// maxSpooledRead replaces maxRead while part of the log is on disk: a read copies into memory.
	maxSpooledRead = 128 << 10
	// maxChunks is how many entries a process/read looks at. The peer's client refuses a message of more than
	// 262,144 JSON values, and a chunk has four.
	maxChunks = 50_000
	// maxDetailed replaces maxChunks for a read with times and events, and bounds the events of an answer.
	maxDetailed = 1000
)

// Read is the answer to a process/read.
type Read struct {
	// Result lacks Exited, Closed and ExitCode. Its Chunks lack the output on disk.
	Result protocol.ProcessReadResult
	// Entries are all entries of the read. The caller becomes a holder of each. Without a release
	// the garbage collector frees an entry.
	Entries []outlog.Entry
	Spooled bool // some of Entries lie on disk
	// The result accounts for the entries after From up to To.
	From, To uint64
}

// Has reports whether there are entries after seq.
func (f *Feed[K, A]) Has(seq uint64) bool { return seq < f.Log.Last() }

// Read returns the output after a seq, up to limit bytes and maxChunks entries, for a process/read. Nil limit:
// up to maxRead bytes. Read returns the first chunk whatever its size.
func (f *Feed[K, A]) Read(after uint64, limit *uint64, detail protocol.ReadDetail) Read {
	if detail == protocol.ReadEvents {
		return f.readEvents(after)
	}
	last, most, count := f.Log.Last(), uint64(maxRead), uint64(maxChunks)
	if f.Log.Spooled() > 0 {
		most, count = maxSpooledRead, maxDelivered
	}
	if limit != nil {
		most = min(most, *limit)
	}
	cursor := f.Log.At(after)
	r := Read{From: min(after, last), Result: protocol.ProcessReadResult{
		Chunks:   []protocol.Chunk{},
		NextSeq:  last + 1,
		FirstSeq: f.Log.First(),
	}}
	if detail != "" {
		count = maxDetailed
	}
	to := min(last, max(cursor.Seq, f.Log.First()-1)+count)
	r.Entries, _ = f.Log.ReadTo(&cursor, to, int(most), nil)
	for _, e := range r.Entries {
		switch {
		case e.Kind == outlog.Output && e.Len() == 0: // AppendLost
		case e.Kind == outlog.Output:
			r.Result.Chunks = append(r.Result.Chunks, protocol.Chunk{Seq: e.Seq, Stream: e.Stream, Chunk: e.Data})
			r.Spooled = r.Spooled || e.Spooled != nil
			if detail != "" {
				r.Result.TimesMs = append(r.Result.TimesMs, e.AtMs)
			}
		case detail != "":
			r.Result.Events = append(r.Result.Events, event(e))
		}
	}
	if n := len(r.Result.Chunks); n > 0 && (limit != nil || cursor.Seq < last) {
		r.Result.NextSeq = r.Result.Chunks[n-1].Seq + 1
	} else if cursor.Seq < last {
		r.Result.NextSeq = cursor.Seq + 1
	}
	r.To = r.Result.NextSeq - 1
	r.Result.CutEvents()
	return r
}

// readEvents returns the events after a seq, and no output. The read counts for nobody's position in the output.
func (f *Feed[K, A]) readEvents(after uint64) Read {
	entries, to := f.Log.Events(after, maxDetailed)
	r := Read{From: after, To: after, Result: protocol.ProcessReadResult{
		Chunks:   []protocol.Chunk{},
		NextSeq:  to + 1,
		FirstSeq: f.Log.First(),
	}}
	for _, e := range entries {
		r.Result.Events = append(r.Result.Events, event(e))
	}
	return r
}

// event returns an entry that is no output, as an answer to process/read has it.
func event(e outlog.Entry) protocol.ReadEvent {
	v := protocol.ReadEvent{Seq: e.Seq, AtMs: e.AtMs, Kind: eventKinds[e.Kind], Status: e.Status}
	switch {
	case e.Status != nil:
		v.Run = e.Status.Run
	case e.Restart != nil:
		v.Run, v.Reason = e.Restart.Run, e.Restart.Reason
	}
	return v
}

var eventKinds = map[outlog.Kind]protocol.ReadEventKind{
	outlog.Exited:    protocol.EventExited,
	outlog.Restarted: protocol.EventRestarted,
	outlog.Ready:     protocol.EventReady,
	outlog.Evicted:   protocol.EventEvicted,
	outlog.Closed:    protocol.EventClosed,
}
