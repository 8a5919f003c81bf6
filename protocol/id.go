package protocol

import (
	"errors"
	"strconv"
)

// ID names a request on its connection: a string, perhaps empty, or an int64. The answer has the ID
// with its original type. IDs compare with ==; the zero ID means: none. (exec-server wire §2.)
type ID struct {
	s    string
	n    int64
	kind uint8
}

const (
	idString uint8 = iota + 1
	idInt
)

// maxID bounds the length of a string ID, in bytes, because the answer repeats the ID.
const maxID = 1 << 10

// InvalidID is the ID in the answer to a frame with an unreadable id.
var InvalidID = IntID(-1)

// StringID returns the ID s.
func StringID(s string) ID { return ID{s: s, kind: idString} }

// IntID returns the ID n.
func IntID(n int64) ID { return ID{n: n, kind: idInt} }

// IsZero reports whether there is no ID.
func (id ID) IsZero() bool { return id.kind == 0 }

// String returns the ID as written in JSON, for logs.
func (id ID) String() string {
	b, err := id.append(nil)
	if err != nil {
		return "none"
	}
	return string(b)
}

// MarshalJSON fails for the zero ID.
func (id ID) MarshalJSON() ([]byte, error) { return id.append(nil) }

// UnmarshalJSON accepts a string, or an integer within the range of int64; null, fractions and
// larger numbers are errors.
func (id *ID) UnmarshalJSON(b []byte) error {
	s := scanner{b: b}
	v, err := s.id()
	if err == nil {
		err = s.end()
	}
	if err != nil {
		return err
	}
	*id = v
	return nil
}

func (id ID) append(dst []byte) ([]byte, error) {
	switch id.kind {
	case idString:
		return appendString(dst, id.s), nil
	case idInt:
		return strconv.AppendInt(dst, id.n, 10), nil
	}
	return dst, errZeroID
}

var errZeroID = errors.New("protocol: the zero ID cannot be sent; use StringID or IntID")
