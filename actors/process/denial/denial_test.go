package denial

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
	"pgregory.net/rapid"
)

func TestDenied(t *testing.T) {
	type out struct {
		stream protocol.Stream
		text   string
	}
	const stdout, stderr, pty = protocol.Stdout, protocol.Stderr, protocol.PTY
	for _, test := range []struct {
		what string
		out  []out
		code int
		want bool
	}{
		{"nothing", nil, 1, false},
		{"success", []out{{stderr, "touch: Permission denied"}}, 0, false},
		{"a word", []out{{stderr, "sh: 1: cannot create x: Read-only file system\n"}}, 2, true},
		{"a word with an exit code that alone says no", []out{{stderr, "sh: 1: /x: Permission denied\n"}}, 126, true},
		{"no such program", []out{{stderr, "sh: 1: nope: not found\n"}}, 127, false},
		{"in capitals", []out{{stdout, "OPERATION NOT PERMITTED"}}, 1, true},
		{"in a terminal", []out{{pty, "ls: x: Operation not per"}, {pty, "mitted\r\n"}}, 1, true},
		{"over three chunks", []out{{stderr, "seC"}, {stderr, "c"}, {stderr, "omp"}}, 1, true},
		{"over two streams", []out{{stdout, "land"}, {stderr, "lock"}}, 1, true},
		{"over two streams, with much behind", []out{{stdout, "sand"}, {stderr, "box" + strings.Repeat("x", 100)}}, 1, true},
		{"in a stream, around the other", []out{{stdout, "fail"}, {stderr, "x"}, {stdout, "ed to write file"}}, 1, true},
		{"in a stream, around much of the other", []out{{stdout, "sand"}, {stderr, strings.Repeat("x", 100)}, {stdout, "box"}}, 1, true},
		{"after a long chunk of the other stream", []out{{stdout, strings.Repeat("x", 100) + "sand"}, {stderr, "box"}}, 1, true},
		{"not whole", []out{{stderr, "permission denie"}, {stderr, "permission denie d"}}, 1, false},
		{"not in a row", []out{{stderr, "sand"}, {stdout, strings.Repeat("x", 100)}, {stdout, "box"}}, 1, false},
		{"a false begin", []out{{stderr, "ooperation not permitted"}}, 1, true},
		{"a false begin within a word", []out{{stderr, "sandsandbox"}}, 1, true},
		{"a word that begins in another", []out{{stderr, "operation not permission denied"}}, 1, true},
		{"a network without a route", []out{{stderr, "connect: Network is unreachable"}}, 1, false},
		{"a killed program", nil, 159, true},
		{"another signal", nil, 137, false},
		{"a negative exit code", []out{{stderr, "sandbox"}}, -1, true},
	} {
		var s Search
		for _, o := range test.out {
			s.Output(o.stream, []byte(o.text))
		}
		if got := s.Denied(test.code); got != test.want {
			t.Errorf("%s: %t", test.what, got)
		}
	}
}

// A Search finds what a search in all of the output finds, however the output is cut.
func TestSearchFindsWordsInPieces(t *testing.T) {
	much := []string{"", "", "", strings.Repeat("x", longest-1), strings.Repeat("x", 2*longest)}
	// A cut is a word in two pieces, of which something may be missing. Much text around them makes pieces longer than any word.
	cut := rapid.Custom(func(t *rapid.T) []string {
		word := rapid.SampledFrom(append(words, "x", " ")).Draw(t, "word")
		if rapid.Bool().Draw(t, "upper") {
			word = strings.ToUpper(word)
		}
		from, to := 0, len(word)
		if rapid.Bool().Draw(t, "part") {
			from = rapid.IntRange(0, len(word)).Draw(t, "from")
			to = rapid.IntRange(from, len(word)).Draw(t, "to")
		}
		at := rapid.IntRange(from, to).Draw(t, "at")
		return []string{rapid.SampledFrom(much).Draw(t, "before") + word[from:at], word[at:to] + rapid.SampledFrom(much).Draw(t, "after")}
	})
	rapid.Check(t, func(t *rapid.T) {
		var s Search
		var all [protocol.PTY + 1]bytes.Buffer // at 0: all streams
		for _, text := range slices.Concat(rapid.SliceOfN(cut, 0, 6).Draw(t, "cuts")...) {
			stream := rapid.SampledFrom([]protocol.Stream{protocol.Stdout, protocol.Stderr}).Draw(t, "stream")
			s.Output(stream, []byte(text))
			all[0].WriteString(text)
			all[stream].WriteString(text)
		}
		want := false
		for i := range all {
			for _, word := range words {
				want = want || strings.Contains(strings.ToLower(all[i].String()), word)
			}
		}
		if got := s.Denied(1); got != want {
			t.Fatalf("%q: %t", all[0].String(), got)
		}
	})
}

// The states fit their type.
func TestMachineIsSmall(t *testing.T) {
	if n := len(matcher().next); n > 255 {
		t.Errorf("the machine has %d states", n)
	}
	for _, word := range words {
		if len(word) > longest {
			t.Errorf("%q has %d bytes", word, len(word))
		}
	}
}

func TestSearchAllocatesNothing(t *testing.T) {
	var s Search
	data := bytes.Repeat([]byte("permission "), 1000)
	s.Output(protocol.Stdout, data)
	if n := testing.AllocsPerRun(10, func() { s.Output(protocol.Stdout, data) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkOutput(b *testing.B) {
	data := bytes.Repeat([]byte("a line of output, of a program in a sand box\n"), 1000)
	var s Search
	b.SetBytes(int64(len(data)))
	for b.Loop() {
		s.Output(protocol.Stdout, data)
	}
}
