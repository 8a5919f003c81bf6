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
func (f *Feed[K, A]) Read(after uint64, limit *uint64) Read {
	last, most := f.Log.Last(), uint64(maxRead)
	if f.Log.Spooled() > 0 {
		most = maxSpooledRead
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
	to := min(last, max(cursor.Seq, f.Log.First()-1)+maxChunks)
	r.Entries, _ = f.Log.ReadTo(&cursor, to, int(most), nil)
	for _, e := range r.Entries {
		if e.Kind == outlog.Output {
			r.Result.Chunks = append(r.Result.Chunks, protocol.Chunk{Seq: e.Seq, Stream: e.Stream, Chunk: e.Data})
			r.Spooled = r.Spooled || e.Spooled != nil
		}
	}
	if n := len(r.Result.Chunks); n > 0 && (limit != nil || cursor.Seq < last) {
		r.Result.NextSeq = r.Result.Chunks[n-1].Seq + 1
	} else if cursor.Seq < last {
		r.Result.NextSeq = cursor.Seq + 1
	}
	r.To = r.Result.NextSeq - 1
	return r
}
