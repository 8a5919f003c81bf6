package record

import (
	"encoding/binary"
	"time"
)

// A time with a monotonic reading is written as a time of the monotonic clock of the machine, and comes back with a monotonic reading: the time
// until a deadline survives a step of the wall clock. Its wall time comes back as the wall clock shows it then: whoever tells the wall time
// to people keeps t.Round(0). Other times are written as seconds and nanoseconds since the Unix epoch, and come back in UTC or in the local
// zone. The zero Time has no bytes.
//
// The kind of a time is the first byte of its value.
const (
	kindMonotonic = 'm' // then nanoseconds, zigzag
	kindLocal     = 'l' // then seconds, zigzag, and nanoseconds of the second
	kindUTC       = 'u' // the same
)

// The same moment on both clocks. All times of this process are converted with these: equal times have equal bytes.
var (
	baseTime  = time.Now()
	baseClock = monotonic()
)

func init() { Code(appendTime, fillTime) }

func appendTime(b []byte, t *time.Time) []byte {
	switch {
	case *t != t.Round(0):
		return binary.AppendVarint(append(b, kindMonotonic), int64(baseClock+t.Sub(baseTime)))
	case t.IsZero():
		return b
	case t.Location() == time.UTC:
		b = append(b, kindUTC)
	default:
		b = append(b, kindLocal)
	}
	return binary.AppendUvarint(binary.AppendVarint(b, t.Unix()), uint64(t.Nanosecond()))
}

func fillTime(b []byte, t *time.Time) error {
	n, k := binary.Varint(b[1:])
	if k <= 0 {
		return errDamaged
	}
	rest := b[1+k:]
	if b[0] == kindMonotonic && len(rest) == 0 {
		now := time.Now()
		*t = now.Add(baseTime.Sub(now) + time.Duration(n) - baseClock)
		return nil
	}
	ns, k := binary.Uvarint(rest)
	if k <= 0 || k != len(rest) || ns >= uint64(time.Second) || b[0] != kindUTC && b[0] != kindLocal {
		return errDamaged
	}
	if *t = time.Unix(n, int64(ns)); b[0] == kindUTC {
		*t = t.UTC()
	}
	return nil
}
