// Package stream generates the output of programs under load. The key and a position give each byte; any 31 bytes give their position.
//
// A stream is a row of cells of 16 characters. The first half of a cell is the number of the cell, scrambled. The second half is the key
// of the stream, mixed with the first half. A character has 6 bits and is one of the 64 from '0' to 'o', so two strange halves pass for a
// cell of a known stream once in 2^48 times.
package stream

import "encoding/binary"

// Cell is the number of bytes of a cell. Any 2*Cell-1 bytes of a stream have a whole cell in them.
const Cell = 16

const (
	mask48 = 1<<48 - 1
	mul1   = 0x9e3779b97f4b // odd
	mul2   = 0xd6e8feb86659 // odd
	begin  = 0x5bd1e9955bd1 // so that cell 0 looks like any other
	first  = '0'            // the first of the 64 characters
)

// inv1 and inv2 undo a multiplication by mul1 and mul2 modulo 2^48.
var inv1, inv2 = inverse(mul1), inverse(mul2)

// inverse returns the inverse of an odd number modulo 2^48, by Newton's method.
func inverse(x uint64) uint64 {
	y := x // right in 3 bits; each step doubles that
	for range 5 {
		y *= 2 - x*y
	}
	return y & mask48
}

// A Key is the stream of one run of one process, or of one stdin. A Key has 48 bits. Streams of different keys differ in every cell.
type Key uint64

// Of returns the key of a stream, from the seed of the load run and the names of what writes the stream.
func Of(seed uint64, session, process string, run int, name string) Key {
	h := mix(seed ^ 0x74726f757065)
	for _, s := range [...]string{session, process, name} {
		h = mix(h ^ uint64(len(s)))
		for len(s) > 0 {
			var word [8]byte
			n := copy(word[:], s)
			h = mix(h ^ binary.LittleEndian.Uint64(word[:]))
			s = s[n:]
		}
	}
	return Key(mix(h^uint64(run)) & mask48)
}

// mix is a bijection of 64 bits in which each bit depends on each other (the finalizer of SplitMix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// scramble is a bijection of 48 bits, and unscramble undoes it.
func scramble(x uint64) uint64 {
	x = ((x + begin) * mul1) & mask48
	x ^= x >> 24
	x = (x * mul2) & mask48
	return x ^ x>>24
}

func unscramble(x uint64) uint64 {
	x ^= x >> 24
	x = (x * inv2) & mask48
	x ^= x >> 24
	return (x*inv1 - begin) & mask48
}

// spread turns 48 bits into 8 characters, and gather turns them back.
func spread(x uint64) uint64 {
	x = x&0xffffff | x&(0xffffff<<24)<<8
	x = x&0x00000fff00000fff | x&0x00fff00000fff000<<4
	x = x&0x003f003f003f003f | x&0x0fc00fc00fc00fc0<<2
	return x + first*0x0101010101010101
}

func gather(x uint64) (uint64, bool) {
	x -= first * 0x0101010101010101 // a character below '0' borrows, and leaves a high bit somewhere
	if x&0xc0c0c0c0c0c0c0c0 != 0 {
		return 0, false
	}
	x = x&0x003f003f003f003f | x&0x3f003f003f003f00>>2
	x = x&0x00000fff00000fff | x&0x0fff00000fff0000>>4
	return x&0xffffff | x&(0xffffff<<32)>>8, true
}

// cell returns the two halves of a cell, each as 8 characters in the order of little-endian bytes.
func (k Key) cell(number uint64) (a, b uint64) {
	s := scramble(number)
	return spread(s), spread((mix(s) ^ uint64(k)) & mask48)
}

// Whose decodes the cell at the begin of p. p has Cell bytes or more. ok is false if a byte is outside '0' to 'o'. Random characters decode
// to a random key: compare k with known keys.
func Whose(p []byte) (k Key, at int64, ok bool) {
	a, ok1 := gather(binary.LittleEndian.Uint64(p))
	b, ok2 := gather(binary.LittleEndian.Uint64(p[8:]))
	if !ok1 || !ok2 {
		return 0, 0, false
	}
	return Key((mix(a) ^ b) & mask48), int64(unscramble(a)) * Cell, true
}

// Fill fills p with the bytes of the stream from position at on. They are printable ASCII without newlines, so a terminal passes them on
// unchanged.
func (k Key) Fill(p []byte, at int64) {
	number := uint64(at) / Cell
	if in := int(at % Cell); in != 0 {
		var c [Cell]byte
		k.put(&c, number)
		n := copy(p, c[in:])
		p = p[n:]
		number++
	}
	for len(p) >= Cell {
		k.put((*[Cell]byte)(p), number)
		p = p[Cell:]
		number++
	}
	if len(p) > 0 {
		var c [Cell]byte
		k.put(&c, number)
		copy(p, c[:])
	}
}

func (k Key) put(c *[Cell]byte, number uint64) {
	a, b := k.cell(number)
	binary.LittleEndian.PutUint64(c[:8], a)
	binary.LittleEndian.PutUint64(c[8:], b)
}

// Match returns how many bytes at the begin of p are those of the stream from position at on.
func (k Key) Match(p []byte, at int64) int {
	number := uint64(at) / Cell
	n := 0
	var c [Cell]byte
	if in := int(at % Cell); in != 0 {
		k.put(&c, number)
		n = common(p, c[in:])
		if n < Cell-in {
			return n
		}
		number++
	}
	for len(p)-n >= Cell {
		a, b := k.cell(number)
		q := (*[Cell]byte)(p[n:])
		if binary.LittleEndian.Uint64(q[:8]) != a || binary.LittleEndian.Uint64(q[8:]) != b {
			break
		}
		n += Cell
		number++
	}
	k.put(&c, number)
	return n + common(p[n:], c[:])
}

// common returns the length of the common beginning.
func common(p, q []byte) int {
	n := min(len(p), len(q))
	for i := range n {
		if p[i] != q[i] {
			return i
		}
	}
	return n
}
