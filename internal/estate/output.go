package estate

import (
	"encoding/binary"

	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/lane"
)

// A process has two chains in the arena.
//
// The chain of output has an entry of KindOutput for each piece of output. In the Header of the entry, Stream is the kind of the stream, from 1 to 3,
// Offset is the offset of the first byte in the stream, and AtMs the time of the first byte. The word of the chain with the number of a kind counts
// the bytes of the stream in the chain so far. The other words, from 4 on, are for the process.
//
// An entry of KindSpooled has the Place of output in a file of the process, or, if the file has failed, the output itself after the Place.
//
// The chain of input has an entry of KindInput for each piece of input in the queue of stdin: the id of the write, and the bytes. Offset is
// the offset of the first byte in the stream. WordGiven of the chain counts the bytes taken by the program.
const (
	KindOutput  = 1
	KindInput   = 2
	KindSpooled = 3
	KindEvent   = 4 // of server/events, in a chain of its own
	// PlaceSize is the length of the Place of spooled output, in bytes.
	PlaceSize = 16
	// IDSize is the length of the id of a write, in bytes.
	IDSize = 16
	// WordGiven is the number of a word.
	WordGiven = 0
)

// In the number of a stream, the lowest streamBits bits are the kind, and the others are the owner of the chain.
const streamBits = 2

// Stream returns the number of a stream for a lane: a kind in the chain of an owner; kind 0 is input.
func Stream(owner uint64, kind uint8) uint64 { return owner<<streamBits | uint64(kind) }

// Output is a piece of output in a chain.
type Output struct {
	arena.Header
	N      uint64 // bytes
	Data   []byte // nil: in the file of the process. Valid until the entry is dropped
	InFile int64  // the place in the file of the process, if Data is nil
}

// OutputOf returns the output in an entry of KindOutput or KindSpooled.
func OutputOf(e arena.Entry) Output {
	o := Output{Header: e.Header(), Data: e.Data()}
	o.N = uint64(len(o.Data))
	if o.Kind == KindSpooled {
		o.InFile, o.N = int64(binary.LittleEndian.Uint64(o.Data)), binary.LittleEndian.Uint64(o.Data[8:])
		if o.Data = o.Data[PlaceSize:]; len(o.Data) == 0 {
			o.Data = nil
		}
	}
	return o
}

// End returns the offset after the last byte.
func (o Output) End() uint64 { return o.Offset + o.N }

// PutPlace writes the Place of n bytes to b.
func PutPlace(b []byte, at int64, n int) {
	binary.LittleEndian.PutUint64(b, uint64(at))
	binary.LittleEndian.PutUint64(b[8:], uint64(n))
}

// Input is a piece of input in a chain.
type Input struct {
	ID   [IDSize]byte // of the write
	From uint64       // the offset of the first byte
	Data []byte       // valid until the entry is dropped
	Last bool         // of its write
}

// HeaderOfInput is the header of an entry of input, whose first byte has an offset.
func HeaderOfInput(from uint64, last bool) arena.Header {
	h := arena.Header{Kind: KindInput, Offset: from}
	if last {
		h.Extra = 1
	}
	return h
}

// InputOf returns the input in an entry of KindInput.
func InputOf(e arena.Entry) Input {
	data := e.Data()
	h := e.Header()
	return Input{[IDSize]byte(data), h.Offset, data[IDSize:], h.Extra == 1}
}

// End returns the offset after the last byte.
func (in Input) End() uint64 { return in.From + uint64(len(in.Data)) }

// Lanes returns the free lanes. Whoever takes a lane puts the lane back. A nil Estate has none.
func (e *Estate) Lanes() chan *lane.Lane {
	if e == nil {
		return nil
	}
	return e.lanes
}

// NewChains returns the chains for the output and for the input of a process. The owner of the second is the owner of the first plus 1.
func (e *Estate) NewChains() (output, input *arena.Chain, err error) {
	owner := e.owners.Add(2) - 1
	if output, err = e.arena.Chain(owner); err != nil {
		return nil, nil, err
	}
	if input, err = e.arena.Chain(owner + 1); err != nil {
		output.Free()
		return nil, nil, err
	}
	return output, input, nil
}

// NewChain returns a chain for anything but output and input. A nil Estate returns nil.
func (e *Estate) NewChain() (*arena.Chain, error) {
	if e == nil {
		return nil, nil
	}
	return e.arena.Chain(e.owners.Add(1))
}

// Chain returns a chain of NewChain of an earlier server, by its owner; nil: there is none.
func (e *Estate) Chain(owner uint64) *arena.Chain {
	c := e.arena.Find(owner)
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.chains, owner)
	return c
}

// Chains returns the chains of a process of an earlier server; nil: there are none. owner is the owner of the first.
func (e *Estate) Chains(owner uint64) (output, input *arena.Chain) {
	output, input = e.arena.Find(owner), e.arena.Find(owner+1)
	if output == nil || input == nil {
		return nil, nil
	}
	e.Chain(owner)
	e.Chain(owner + 1)
	return output, input
}

// Trim gives unused memory of the chains back to the system. A nil Estate has none.
func (e *Estate) Trim() error {
	if e == nil {
		return nil
	}
	return e.arena.Trim()
}

// count brings the words of a chain of output up to date: the last server may have died before it did so.
func count(c *arena.Chain) {
	for e := range c.Entries() {
		if k := e.Header().Kind; k != KindOutput && k != KindSpooled {
			return
		}
		if o := OutputOf(e); o.End() > c.Word(int(o.Stream)).Load() {
			c.Word(int(o.Stream)).Store(o.End())
		}
	}
}
