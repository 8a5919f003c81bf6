package oracle

import "bytes"

// A repair turns a wrong line into the right line.
type repair struct {
	kind  Kind
	at    int    // index of the fault in the line
	bytes int    // length of the fault
	used  int    // bytes of the received data that make up the line
	line  []byte // the right line
}

// repair looks for a single fault that turns a right line into the begin of got: an altered byte, or two exchanged bytes. If sizes may
// differ, the fault may also be a missing byte or inserted bytes. want is the known part of the line. A line is right if its check sum is
// right. If sizes may differ, the bytes after the line must be right, too.
func (t *text) repair(got, want []byte, kind region, sizes bool) (repair, bool) {
	size := len(want)
	line := make([]byte, size)
	used := size
	right := func() bool {
		if sizes && !t.follows(line, got[used:], kind) {
			return false
		}
		switch kind {
		case hello:
			_, _, _, ok := t.base.ParseHello(line)
			return ok
		case end:
			_, _, ok := t.sums.ParseEnd(line)
			return ok
		}
		_, _, _, ok := t.sums.ParseLine(line)
		return ok
	}
	// try sets line[i] to each allowed byte.
	try := func(i int) bool {
		for _, c := range []byte(alphabet(want[i])) {
			if line[i] = c; right() {
				return true
			}
		}
		return false
	}
	if size > 4096 {
		return repair{}, false
	}
	if len(got) >= size {
		wrong := misfits(want, got, 3)
		if len(wrong) <= 1 {
			for i := range size {
				if len(wrong) == 1 && wrong[0] != i || len(wrong) == 0 && want[i] > aLetter {
					continue
				}
				copy(line, got)
				if try(i) {
					return repair{Altered, i, 1, size, line}, true
				}
			}
		}
		if len(wrong) <= 2 {
			for i := range size - 1 {
				copy(line, got)
				line[i], line[i+1] = got[i+1], got[i]
				if got[i] != got[i+1] && right() {
					return repair{Reordered, i, 2, size, line}, true
				}
			}
		}
	}
	if !sizes {
		return repair{}, false
	}
	if used = size - 1; len(got) >= used {
		for i := range size {
			copy(line, got[:i])
			copy(line[i+1:], got[i:])
			line[i] = want[i]
			if len(misfits(want[:i], line, 1)) > 0 {
				break
			}
			if len(misfits(want[i+1:], line[i+1:], 1)) == 0 && try(i) {
				return repair{Missing, i, 1, size - 1, line}, true
			}
		}
	}
	// Inserted bytes begin at the first byte that differs from want. If earlier bytes fit as well, inserted bytes may begin some bytes
	// earlier.
	begin := size
	if wrong := misfits(want, got[:min(len(got), size)], 1); len(wrong) > 0 {
		begin = wrong[0]
	}
	for n := 1; n <= len(got)-size && n <= maxInserted; n++ {
		used = size + n
		for i := begin; i >= 0 && i >= begin-near; i-- {
			if i < size && !fits(want[i], got[i+n]) {
				continue
			}
			copy(line, got[:i])
			copy(line[i:], got[i+n:used])
			if len(misfits(want[i:], line[i:], 1)) > 0 || !right() {
				continue
			}
			piece := got[i : i+n]
			if i >= n && bytes.Equal(piece, got[i-n:i]) {
				return repair{Doubled, i - n, n, used, line}, true
			}
			if i+2*n <= len(got) && bytes.Equal(piece, got[i+n:i+2*n]) {
				return repair{Doubled, i, n, used, line}, true
			}
			return repair{Foreign, i, n, used, line}, true
		}
	}
	return repair{}, false
}

// maxInserted is the largest number of inserted bytes for a repair.
const maxInserted = 1024

// follows reports whether rest may follow a hello or an end.
func (t *text) follows(line, rest []byte, kind region) bool {
	if kind != hello {
		return len(rest) == 0
	}
	number, _, _, ok := t.base.ParseHello(line)
	if !ok {
		return false
	}
	after := *t
	after.learn(number)
	rest = rest[:min(len(rest), 12)]
	if len(rest) > 0 && rest[0] == '\n' { // the end
		after.endAt = after.hello
	}
	return after.match(rest, after.hello) == len(rest)
}

// misfits returns the indices at which got does not fit want. After a number of indices, misfits stops.
func misfits(want, got []byte, most int) (at []int) {
	for i, w := range want {
		if !fits(w, got[i]) {
			if at = append(at, i); len(at) == most {
				break
			}
		}
	}
	return at
}

// alphabet returns the bytes allowed for w in a text.
func alphabet(w byte) string {
	switch w {
	case aDigit:
		return "0123456789"
	case aHex:
		return "0123456789abcdef"
	case aLetter:
		return "az"
	case nothing:
		return ""
	}
	return string(rune(w))
}
