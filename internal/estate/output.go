package estate

import (
	"github.com/b6f6fdd7/troupe/internal/arena"
	"github.com/b6f6fdd7/troupe/internal/lane"
)

// A process has two chains in the arena.
//
// The chain of output has an entry of KindOutput for each piece of output. In the Header of the entry, Stream is the kind of the stream, from 1 to 3,
// Offset is the offset of the first byte in the stream, and AtMs the time of the first byte. The word of the chain with the number of a kind counts
// the bytes of the stream in the chain so far. The other words, from 4 on, are for the process.
//
// The chain of input has an entry of KindInput for each piece of input in the queue of stdin: the id of the write, and the bytes. Offset is
// the offset of the first byte in the stream. WordGiven of the chain counts the bytes taken by the program.
const (
	KindOutput = 1
	KindInput  = 2
	// IDSize is the length of the id of a write, in bytes.
	IDSize = 16
	// WordGiven is the number of a word.
	WordGiven = 0
)

// In the number of a stream, the lowest streamBits bits are the kind, and the others are the owner of the chain.
const streamBits = 2

// Stream returns the number of a stream for a lane: a kind in the chain of an owner; kind 0 is input.
func Stream(owner uint64, kind uint8) uint64 { return owner<<streamBits | uint64(kind) }

// Input is a piece of input in a chain.
type Input struct {
	ID   [IDSize]byte // of the write
	From uint64       // the offset of the first byte
	Data []byte       // valid until the entry is dropped
}

// InputOf returns the input in an entry of KindInput.
func InputOf(e arena.Entry) Input {
	data := e.Data()
	return Input{[IDSize]byte(data), e.Header().Offset, data[IDSize:]}
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

// Chains returns the chains of a process of an earlier server; nil: there are none. owner is the owner of the first.
func (e *Estate) Chains(owner uint64) (output, input *arena.Chain) {
	output, input = e.arena.Find(owner), e.arena.Find(owner+1)
	if output == nil || input == nil {
		return nil, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	delete(e.chains, owner)
	delete(e.chains, owner+1)
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
		h := e.Header()
		if got := h.Offset + uint64(len(e.Data())); h.Kind == KindOutput && got > c.Word(int(h.Stream)).Load() {
			c.Word(int(h.Stream)).Store(got)
		}
	}
}
