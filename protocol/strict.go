package protocol

import (
	"fmt"
	"hash/maphash"
	"slices"
)

// maxValues is how many values a message may have: itself, and each element and each member's value
// at any depth. Names of members do not count. A value takes far more memory than bytes in a message.
// (exec-server's parser has the same limit, and counts so.)
const maxValues = 1 << 18

// tally makes Decode strict. The functions that read a payload later need not check it again.
type tally struct {
	strict bool
	values int // so far, without the message itself
}

// count counts a value.
func (t *tally) count() error {
	if t.values++; t.strict && t.values >= maxValues {
		return fmt.Errorf("JSON-RPC message exceeds the limit of %d JSON values", maxValues)
	}
	return nil
}

// member counts the value of a member, and fails if the object has had the member before.
func (t *tally) member(seen *names, key []byte) error {
	if t.strict && !seen.add(key) {
		return fmt.Errorf("duplicate JSON object key `%s`", clip(key))
	}
	return t.count()
}

// seed is new in each program, so that no client can choose names with equal hashes.
var seed = maphash.MakeSeed()

// names has the hashes of the names of an object's members so far. Repeated members are refused,
// because two programs that read a message could take different ones, and so disagree on its meaning.
//
// Two different names are taken for a repetition if their hashes of 64 bits are equal. In the largest
// object this has a chance of 1 in 500 million. Keeping the names would take several times the memory
// of the message.
type names struct {
	few   [16]uint64 // in a row: no allocation for most objects
	n     int        // number of names
	table []uint64   // once few is full: at most half full; a hash is at its lowest bits, or in the next free place
}

// add adds a name, and returns false if the name was there before.
func (s *names) add(name []byte) bool {
	hash := max(maphash.Bytes(seed, name), 1) // 0 is a free place
	if s.n < len(s.few) {
		if slices.Contains(s.few[:s.n], hash) {
			return false
		}
		s.few[s.n] = hash
		s.n++
		return true
	}
	if s.table == nil {
		s.rehash(s.few[:], 4*len(s.few))
	} else if 2*s.n >= len(s.table) {
		s.rehash(s.table, 2*len(s.table))
	}
	s.n++
	return s.insert(hash)
}

// rehash moves hashes to a new table. The size is a power of two.
func (s *names) rehash(hashes []uint64, size int) {
	s.table = make([]uint64, size)
	for _, h := range hashes {
		if h != 0 {
			s.insert(h)
		}
	}
}

// insert returns false if hash was in the table before.
func (s *names) insert(hash uint64) bool {
	mask := uint64(len(s.table) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		switch s.table[i] {
		case hash:
			return false
		case 0:
			s.table[i] = hash
			return true
		}
	}
}
