// Package denial guesses whether a sandbox has denied a program something. The guess needs the output of the program,
// but keeps none. The package is pure code: no goroutine, no lock, no clock.
package denial

import (
	"sync"

	"github.com/b6f6fdd7/troupe/protocol"
)

// words are texts of programs that were denied something. Upper and lower case are the same. (sandbox wire §1.4.)
var words = []string{
	"operation not permitted",
	"permission denied",
	"read-only file system",
	"seccomp",
	"sandbox",
	"landlock",
	"failed to write file",
}

// longest is the length of the longest of words, in bytes.
const longest = len("operation not permitted")

// badSystemCall is the exit code of a program that a seccomp filter has killed: 128 + SIGSYS.
const badSystemCall = 159

// Search looks for words in the output of one run. The zero Search is ready. A single goroutine at a time may use a
// Search.
type Search struct {
	found   bool
	streams [protocol.PTY + 1]state // of each stream alone
	all     state                   // of the streams together, in the order of the output
}

// Output searches the next output of the run. A word may have begun in earlier output.
func (s *Search) Output(stream protocol.Stream, data []byte) {
	if s.found || int(stream) >= len(s.streams) {
		return
	}
	m := matcher()
	// Unless a word was found, a state depends on the last bytes only. After that many bytes of one stream, both
	// states are equal.
	all, crossed := m.run(s.all, data[:min(len(data), longest)])
	end, found := m.run(s.streams[stream], data)
	if len(data) >= longest {
		all = end
	}
	s.streams[stream], s.all = end, all
	s.found = found || crossed
}

// Denied reports whether the sandbox has probably denied something to a run that ended with exitCode.
func (s *Search) Denied(exitCode int) bool {
	return exitCode != 0 && (s.found || exitCode == badSystemCall)
}

// state is how much of a word the last bytes are.
type state uint8

// machine finds words in a stream, as Aho and Corasick do. State 0 is: no word has begun. A final state is never left.
type machine struct {
	next  [][256]state
	final []bool
}

// matcher returns the machine of words. The machine takes 30 KiB, and is made for the first program with a sandbox.
var matcher = sync.OnceValue(func() *machine { return newMachine(words) })

// newMachine returns a machine that finds words. The words are in lower case, and have 255 bytes at most in all.
func newMachine(words []string) *machine {
	m := &machine{next: make([][256]state, 1), final: make([]bool, 1)}
	for _, word := range words {
		at := state(0)
		for _, c := range []byte(word) {
			to := m.next[at][c]
			if to == 0 {
				to = state(len(m.next))
				m.next, m.final = append(m.next, [256]state{}), append(m.final, false)
				m.next[at][c] = to
			}
			at = to
		}
		m.final[at] = true
	}
	// shorter[s] is the state of the longest proper suffix of s that begins a word. The queue is ordered by the length
	// of the states.
	shorter, queue := make([]state, len(m.next)), []state{0}
	for len(queue) > 0 {
		at := queue[0]
		queue = queue[1:]
		for c := range m.next[at] {
			to, other := m.next[at][c], state(0)
			if at != 0 {
				other = m.next[shorter[at]][c]
			}
			if to == 0 {
				m.next[at][c] = other
				continue
			}
			shorter[to] = other
			m.final[to] = m.final[to] || m.final[other]
			queue = append(queue, to)
		}
	}
	for at := range m.next {
		for c := byte('a'); c <= 'z'; c++ {
			m.next[at][c-'a'+'A'] = m.next[at][c]
		}
		if m.final[at] {
			for c := range m.next[at] {
				m.next[at][c] = state(at)
			}
		}
	}
	return m
}

// run returns the state after data, and whether a word has ended in data.
func (m *machine) run(at state, data []byte) (end state, found bool) {
	for _, c := range data {
		at = m.next[at][c]
	}
	return at, m.final[at]
}
