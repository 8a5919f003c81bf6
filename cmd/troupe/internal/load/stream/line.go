package stream

import (
	"encoding/binary"
	"encoding/hex"
	"hash/crc32"
	"strconv"
	"sync"
	"time"
)

// What a program under load writes to stdout (on a terminal: to the terminal) in a run is
//
//	a hello    a line of HelloSize bytes. It has a number that the run gave itself, since a program cannot know the number of its run
//	content    the bytes of a Key from position 0 on, or lines of a fixed size, numbered from 0
//	an end     EndSize bytes, if the program was not killed: a newline, and a line with the number of bytes of the content
//
// To stderr it writes content and an end, without a hello. The key of a process is Of(seed, session, process, 0, ""): the program gets it as
// an argument. Hellos have this key. Run tells the keys of the rest, and of stdin. A line is
//
//	NNNNNNNNNN TTTTTTTTTTTTTTTT BODY CCCCCCCC\n
//
// N is its number, T the time in microseconds since the Unix epoch, both in decimal. C is a check sum of the key and of all that is before it,
// in hexadecimal. So a line whose check sum is right was printed by the run of that key, and its body is what the program meant to say.

const (
	numberSize = 10
	clockSize  = 16
	sumSize    = 8

	// LineExtra is the size of a line without its body.
	LineExtra = numberSize + 1 + clockSize + 1 + 1 + sumSize + 1
	// HelloSize is the size of a hello.
	HelloSize = LineExtra + len(helloWord) + 16 + 1 + 10
	// EndSize is the size of an end.
	EndSize = 1 + LineExtra + len(endWord) + 20

	helloWord = "hello "
	endWord   = "end "
)

// Run returns the key of a stream of a run. k is the key of the process, run is the number in the hello, and name is stdout (also of a terminal),
// stderr or stdin. The run of stdin is 0, because the client writes before it knows the run.
func (k Key) Run(run uint64, name string) Key { return Of(uint64(k), "", "", int(run), name) }

// castagnoli is made at the first use: each start in a sandbox executes this program, and waits for the variables of all packages.
var castagnoli = sync.OnceValue(func() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) })

// sum returns the check sum of the 8 bytes of the key, big-endian, and p. The key is added byte by byte, since a slice of it would be an
// allocation for each line.
func (k Key) sum(p []byte) uint32 {
	table := castagnoli()
	crc := ^uint32(0)
	for shift := 56; shift >= 0; shift -= 8 {
		crc = table[byte(crc)^byte(k>>shift)] ^ crc>>8
	}
	return crc32.Update(^crc, table, p)
}

// AppendLine appends a line. n is from 0 to 9,999,999,999; at is the time that the line tells.
func (k Key) AppendLine(p []byte, n int64, at time.Time, body []byte) []byte {
	begin := len(p)
	p = AppendNumber(p, n, numberSize)
	p = append(p, ' ')
	p = AppendNumber(p, at.UnixMicro(), clockSize)
	p = append(p, ' ')
	p = append(p, body...)
	p = append(p, ' ')
	var sum [4]byte
	binary.BigEndian.PutUint32(sum[:], k.sum(p[begin:]))
	p = hex.AppendEncode(p, sum[:])
	return append(p, '\n')
}

// ParseLine reads a line from p, which is the whole line with its newline. body is a part of p. ok is false if the form, a number or
// the check sum is wrong.
func (k Key) ParseLine(p []byte) (n int64, at time.Time, body []byte, ok bool) {
	if len(p) < LineExtra || p[len(p)-1] != '\n' || p[numberSize] != ' ' || p[numberSize+1+clockSize] != ' ' || p[len(p)-2-sumSize] != ' ' {
		return 0, time.Time{}, nil, false
	}
	text := p[:len(p)-1-sumSize]
	var sum [4]byte
	if _, err := hex.Decode(sum[:], p[len(text):len(p)-1]); err != nil || binary.BigEndian.Uint32(sum[:]) != k.sum(text) {
		return 0, time.Time{}, nil, false
	}
	n, ok1 := parseNumber(p[:numberSize])
	micros, ok2 := parseNumber(p[numberSize+1 : numberSize+1+clockSize])
	if !ok1 || !ok2 {
		return 0, time.Time{}, nil, false
	}
	return n, time.UnixMicro(micros), p[numberSize+1+clockSize+1 : len(text)-1], true
}

// parseNumber reads a number of digits only, without an allocation.
func parseNumber(p []byte) (n int64, ok bool) {
	for _, c := range p {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// FillBody fills p with the body of line n: the bytes of k from n*len(p) on.
func (k Key) FillBody(p []byte, n int64) { k.Fill(p, n*int64(len(p))) }

// AppendHello appends a hello of a run. k is the key of the process for run 0, and run is the number that the run gave itself, not 0.
func (k Key) AppendHello(p []byte, run uint64, pid int, at time.Time) []byte {
	body := make([]byte, 0, HelloSize-LineExtra)
	body = append(body, helloWord...)
	var number [8]byte
	binary.BigEndian.PutUint64(number[:], run)
	body = hex.AppendEncode(body, number[:])
	body = append(body, ' ')
	body = AppendNumber(body, int64(pid), 10)
	return k.AppendLine(p, 0, at, body)
}

// ParseHello reads a hello from p, HelloSize bytes. ok is false if p is no hello of k.
func (k Key) ParseHello(p []byte) (run uint64, pid int, at time.Time, ok bool) {
	_, at, body, ok := k.ParseLine(p)
	if !ok || len(body) != HelloSize-LineExtra || string(body[:len(helloWord)]) != helloWord {
		return 0, 0, time.Time{}, false
	}
	body = body[len(helloWord):]
	run, err1 := strconv.ParseUint(string(body[:16]), 16, 64)
	pid, err2 := strconv.Atoi(string(body[17:]))
	return run, pid, at, err1 == nil && err2 == nil
}

// AppendEnd appends the end of a content of n bytes.
func (k Key) AppendEnd(p []byte, n int64, at time.Time) []byte {
	body := append(make([]byte, 0, EndSize), endWord...)
	return k.AppendLine(append(p, '\n'), 0, at, AppendNumber(body, n, 20))
}

// ParseEnd reads an end from p, EndSize bytes. ok is false if p is no end of k.
func (k Key) ParseEnd(p []byte) (n int64, at time.Time, ok bool) {
	if len(p) != EndSize || p[0] != '\n' {
		return 0, time.Time{}, false
	}
	_, at, body, ok := k.ParseLine(p[1:])
	if !ok || string(body[:len(endWord)]) != endWord {
		return 0, time.Time{}, false
	}
	n, err := strconv.ParseInt(string(body[len(endWord):]), 10, 64)
	return n, at, err == nil
}

// AppendNumber appends n in decimal, with zeros in front up to a width.
func AppendNumber(p []byte, n int64, width int) []byte {
	var text [20]byte
	s := strconv.AppendInt(text[:0], n, 10)
	for range width - len(s) {
		p = append(p, '0')
	}
	return append(p, s...)
}
