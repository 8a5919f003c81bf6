package stream

import (
	"bytes"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// Whatever the pieces, a stream is the same bytes, and all are printable.
func TestFillInPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Of(rapid.Uint64().Draw(t, "seed"), "s1", "p1", 1, "out")
		at := rapid.Int64Range(0, 1<<40).Draw(t, "at")
		n := rapid.IntRange(0, 300).Draw(t, "n")
		whole := make([]byte, n)
		k.Fill(whole, at)
		for i, c := range whole {
			if c < '0' || c > 'o' {
				t.Fatalf("byte %d is %q", i, c)
			}
		}
		cut := rapid.IntRange(0, n).Draw(t, "cut")
		pieces := make([]byte, n)
		k.Fill(pieces[cut:], at+int64(cut))
		k.Fill(pieces[:cut], at)
		if !bytes.Equal(whole, pieces) {
			t.Fatalf("in pieces %q, whole %q", pieces, whole)
		}
		if got := k.Match(whole, at); got != n {
			t.Fatalf("Match: %d of %d bytes", got, n)
		}
		if n > 0 {
			i := rapid.IntRange(0, n-1).Draw(t, "altered")
			whole[i] ^= 1 << rapid.IntRange(0, 7).Draw(t, "bit")
			if got := k.Match(whole, at); got != i {
				t.Fatalf("Match: %d, but byte %d is altered", got, i)
			}
		}
	})
}

// Any 31 bytes tell their position, also after strange bytes, and only with the right key.
func TestWhose(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Of(rapid.Uint64().Draw(t, "seed"), "s1", "p1", 1, "out")
		at := rapid.Int64Range(0, 1<<44).Draw(t, "at")
		strange := rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "strange")
		p := make([]byte, 2*Cell-1)
		k.Fill(p, at)
		p = append(strange, p...)
		found := false
		for i := 0; i+Cell <= len(p) && !found; i++ {
			key, got, ok := Whose(p[i:])
			if found = ok && key == k; found && (got-int64(i) != at-int64(len(strange)) || i-len(strange) >= Cell) {
				t.Fatalf("at %d: position %d; the stream begins at %d with position %d", i, got, len(strange), at)
			}
			if ok && key == k^1 {
				t.Fatalf("the bytes at %d are of another key", i)
			}
		}
		if !found {
			t.Fatalf("no place of %x in %q", k, p)
		}
	})
}

// Each part of a name makes another key.
func TestKeysDiffer(t *testing.T) {
	keys := map[Key]bool{}
	n := 0
	for seed := range uint64(3) {
		for _, names := range [][3]string{{"s1", "p1", "out"}, {"s1p", "1", "out"}, {"s1", "p1", "err"}, {"", "s1p1", "out"}, {"s2", "p1", "out"}} {
			for run := range 3 {
				k := Of(seed, names[0], names[1], run, names[2])
				if k > mask48 {
					t.Errorf("key %x has more than 48 bits", k)
				}
				keys[k] = true
				n++
			}
		}
	}
	if len(keys) != n {
		t.Errorf("%d keys, want %d", len(keys), n)
	}
}

// The bytes are part of the format: load generators and programs of two versions must write the same.
func TestGolden(t *testing.T) {
	k := Of(1, "s1", "p1", 1, "out")
	p := make([]byte, 32)
	k.Fill(p, 0)
	if got, want := string(p), golden; got != want {
		t.Errorf("stream %x begins with %q, want %q", k, got, want)
	}
}

const golden = "PaY=9DXHil?OnTb5kEX0Y4PPTeg>RVJD"

func TestAnswer(t *testing.T) {
	k := Of(1, "s1", "p1", 1, "out")
	want := Answer{End: true, Bytes: 77, Digest: Digest(0).Add([]byte("abc")), Wrong: NoneWrong}
	line := k.AppendAnswer(nil, 3, time.UnixMicro(5), want)
	n, at, body, ok := k.ParseLine(line)
	if !ok || n != 3 || at != time.UnixMicro(5) || len(line) != LineExtra+AnswerSize {
		t.Fatalf("ParseLine of %q: %d, %v, %v", line, n, at, ok)
	}
	if a, ok := ParseAnswer(body); !ok || a != want {
		t.Errorf("ParseAnswer of %q: %+v, %v", body, a, ok)
	}
	for _, wrong := range []string{"", string(body[1:]), "b" + string(body[1:]), string(body[:48]) + "F"} {
		if a, ok := ParseAnswer([]byte(wrong)); ok {
			t.Errorf("ParseAnswer takes %q: %+v", wrong, a)
		}
	}
}

func TestDigest(t *testing.T) {
	if Digest(0).Add(nil) != 0 || Digest(0).Add([]byte("ab")).Add([]byte("c")) != Digest(0).Add([]byte("abc")) {
		t.Error("a digest depends on the pieces")
	}
	if Digest(0).Add([]byte("ab")) == Digest(0).Add([]byte("ba")) || Digest(0).Add([]byte{0}) == 0 {
		t.Error("a digest does not depend on the bytes")
	}
}

func BenchmarkFill(b *testing.B) {
	p := make([]byte, 64<<10)
	b.SetBytes(int64(len(p)))
	at := int64(5)
	for b.Loop() {
		Key(77).Fill(p, at)
		at += int64(len(p))
	}
}

func BenchmarkMatch(b *testing.B) {
	p := make([]byte, 64<<10)
	Key(77).Fill(p, 5)
	b.SetBytes(int64(len(p)))
	for b.Loop() {
		if Key(77).Match(p, 5) != len(p) {
			b.Fatal("no match")
		}
	}
}
