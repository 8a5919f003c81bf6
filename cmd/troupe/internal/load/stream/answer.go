package stream

import (
	"encoding/binary"
	"encoding/hex"
	"time"
)

// A program that digests its stdin writes lines whose bodies are answers: one after each block of stdin, and one at the end of stdin. An
// answer is a body of AnswerSize bytes: "a" for a block or "z" for the end of stdin, 16 hex digits with the number of bytes read until
// now, 16 with their digest, and 16 with the position of the first byte that was not the expected one (NoneWrong: none).
const (
	AnswerSize = 49
	NoneWrong  = 1<<63 - 1
)

// An Answer says what a program has read from its stdin.
type Answer struct {
	End    bool   // stdin has ended
	Bytes  int64  // read until now
	Digest Digest // of them
	Wrong  int64  // the position of the first wrong byte; NoneWrong: none
}

// AppendAnswer appends line n with an answer. k is the key of the stdout of the run, not that of its stdin.
func (k Key) AppendAnswer(p []byte, n int64, at time.Time, a Answer) []byte {
	return k.AppendLine(p, n, at, a.appendBody(make([]byte, 0, AnswerSize)))
}

func (a Answer) appendBody(p []byte) []byte {
	kind := byte('a')
	if a.End {
		kind = 'z'
	}
	p = append(p, kind)
	p = appendHex(p, uint64(a.Bytes))
	p = appendHex(p, uint64(a.Digest))
	return appendHex(p, uint64(a.Wrong))
}

// ParseAnswer reads an answer from the body of a line. ok is false for anything else.
func ParseAnswer(body []byte) (a Answer, ok bool) {
	if len(body) != AnswerSize || body[0] != 'a' && body[0] != 'z' {
		return Answer{}, false
	}
	n, ok1 := parseHex(body[1:17])
	d, ok2 := parseHex(body[17:33])
	w, ok3 := parseHex(body[33:])
	return Answer{End: body[0] == 'z', Bytes: int64(n), Digest: Digest(d), Wrong: int64(w)}, ok1 && ok2 && ok3
}

// A Digest is the FNV-1a sum of all bytes until now. Its zero value is the digest of nothing. Adding the bytes in other pieces makes no
// difference.
type Digest uint64

const (
	fnvBasis = 14695981039346656037
	fnvPrime = 1099511628211
)

// Add returns the digest with the bytes of p added.
func (d Digest) Add(p []byte) Digest {
	h := uint64(d) ^ fnvBasis // so that zero is the digest of nothing
	for _, c := range p {
		h = (h ^ uint64(c)) * fnvPrime
	}
	return Digest(h ^ fnvBasis)
}

func appendHex(p []byte, v uint64) []byte {
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], v)
	return hex.AppendEncode(p, number[:])
}

// parseHex reads 16 lower-case digits.
func parseHex(p []byte) (v uint64, ok bool) {
	for _, c := range p {
		switch {
		case '0' <= c && c <= '9':
			v = v<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			v = v<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return v, true
}
