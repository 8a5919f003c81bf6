package ledger

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"
)

const helper = "TROUPE_LEDGER_HELPER"

func TestMain(m *testing.M) {
	if os.Getenv(helper) != "" {
		scribble()
	}
	os.Exit(m.Run())
}

func memory(t interface{ Fatal(...any) }) *os.File {
	fd, err := unix.MemfdCreate("ledger", unix.MFD_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	return os.NewFile(uintptr(fd), "ledger")
}

func records(t interface{ Fatal(...any) }, l *Ledger) (all [][]byte) {
	if err := l.Replay(func(r []byte) error { all = append(all, bytes.Clone(r)); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

// Whatever is appended and compacted, and whenever the writer dies, the next writer finds each appended record, and at most the record under
// way besides.
func TestNextWriterFindsAll(t *testing.T) {
	defer func() { strike = func() {} }()
	died := errors.New("died")
	rapid.Check(t, func(t *rapid.T) {
		which, files := new(atomic.Uint32), [2]*os.File{memory(t), memory(t)}
		defer files[0].Close()
		defer files[1].Close()
		var want [][]byte
		var next []byte    // under way; nil: none
		var short [][]byte // what a Compact under way leaves; nil: none is
		for range rapid.IntRange(1, 5).Draw(t, "writers") {
			l, err := Open(which, files)
			if err != nil {
				t.Fatal(err)
			}
			if st, err := files[1-which.Load()].Stat(); err != nil || st.Size() != 0 {
				t.Fatalf("the file that does not count takes %d bytes, %v", st.Size(), err)
			}
			got := records(t, l)
			if next != nil && len(got) == len(want)+1 && bytes.Equal(got[len(want)], next) {
				want = append(want, next)
			}
			if short != nil && slices.EqualFunc(got, short, bytes.Equal) {
				want = short
			}
			short = nil
			if !slices.EqualFunc(got, want, bytes.Equal) {
				t.Fatalf("%d records, want %d", len(got), len(want))
			}
			deadly, strikes := rapid.IntRange(1, 60).Draw(t, "deadly"), 0
			strike = func() {
				if strikes++; strikes == deadly {
					panic(died)
				}
			}
			func() {
				defer func() {
					if r := recover(); r != nil && r != died {
						panic(r)
					}
				}()
				for range rapid.IntRange(0, 20).Draw(t, "records") {
					if next = nil; rapid.IntRange(0, 9).Draw(t, "compact") == 0 {
						i := -1
						counts := func(record []byte) bool {
							if i++; !bytes.Equal(record, want[i]) {
								t.Errorf("record %d is %.20q, want %.20q", i, record, want[i])
							}
							return i%3 > 0
						}
						short = [][]byte{}
						for i, r := range want {
							if i%3 > 0 {
								short = append(short, r)
							}
						}
						if err := l.Compact(counts); err != nil {
							t.Fatal(err)
						}
						want, short = short, nil
						continue
					}
					next = bytes.Repeat([]byte{byte(rapid.IntRange(1, 255).Draw(t, "byte"))}, rapid.SampledFrom([]int{1, 7, 8, 9, 100, step}).Draw(t, "size"))
					if err := l.Append(next); err != nil {
						t.Fatal(err)
					}
					want, next = append(want, next), nil
				}
			}()
			strike = func() {}
			for i := range l.maps { // l.mu may be held by the dead
				unix.Munmap(l.maps[i])
			}
		}
	})
}

// A failed Compact changes nothing. Records without a byte and beyond the limit are refused.
func TestRefused(t *testing.T) {
	which, files := new(atomic.Uint32), [2]*os.File{memory(t), memory(t)}
	l, err := Open(which, files)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := l.Append([]byte("one")); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("failure")
	if err := l.Append(nil); err == nil {
		t.Error("a record without a byte was taken")
	}
	if err := l.Append(make([]byte, MaxBytes)); !errors.Is(err, ErrFull) {
		t.Errorf("%v, want %v", err, ErrFull)
	}
	if err := l.Replay(func([]byte) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("%v, want %v", err, failure)
	}
	if got := records(t, l); len(got) != 1 || string(got[0]) != "one" || l.Size() != 16 {
		t.Errorf("%q, %d bytes", got, l.Size())
	}
	which.Store(2)
	if _, err := Open(which, files); err == nil {
		t.Error("a word of 2 was taken")
	}
}

// scribble is a writer: scribble counts up, a record a number, and compacts now and then to the newest number.
func scribble() {
	word, err := unix.Mmap(5, 0, 4, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	l, err := Open((*atomic.Uint32)(unsafe.Pointer(&word[0])), [2]*os.File{os.NewFile(3, "a"), os.NewFile(4, "b")})
	if err != nil {
		panic(err)
	}
	n := uint64(0)
	if err := l.Replay(func(r []byte) error {
		switch next := binary.LittleEndian.Uint64(r); {
		case len(r) != 8+int(next%100) || next != n+1 && n != 0:
			return fmt.Errorf("a record of %d bytes with %d after %d", len(r), next, n)
		default:
			n = next
		}
		return nil
	}); err != nil {
		panic(err)
	}
	if n > 0 {
		fmt.Println(n)
	}
	for {
		n++
		record := make([]byte, 8+n%100)
		binary.LittleEndian.PutUint64(record, n)
		if err := l.Append(record); err != nil {
			panic(err)
		}
		if rand.IntN(1000) == 0 {
			if err := l.Compact(func(r []byte) bool { return bytes.Equal(r, record) }); err != nil {
				panic(err)
			}
		}
	}
}

// TestKilledWriters kills writers at any time: each goes on after the last record.
func TestKilledWriters(t *testing.T) {
	files := []*os.File{memory(t), memory(t), memory(t)}
	if err := files[2].Truncate(4096); err != nil {
		t.Fatal(err)
	}
	var last uint64
	for range 25 {
		var out, problem bytes.Buffer
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), helper+"=1")
		cmd.ExtraFiles, cmd.Stdout, cmd.Stderr = files, &out, &problem
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(5+rand.IntN(15)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		if problem.Len() > 0 {
			t.Fatalf("%s", &problem)
		}
		var n uint64
		if fmt.Sscan(out.String(), &n); n != 0 && n < last {
			t.Fatalf("a writer found %d, and one before had %d", n, last)
		}
		last = max(last, n)
	}
	t.Logf("%d records", last)
	for _, f := range files {
		f.Close()
	}
}

// The file that is not in force keeps some memory for the next Compact, and no more.
func TestSpare(t *testing.T) {
	which, files := new(atomic.Uint32), [2]*os.File{memory(t), memory(t)}
	l, err := Open(which, files)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for round, n := range []int{spare + step, spare / 2} {
		for range n / step {
			if err := l.Append(make([]byte, step-header)); err != nil {
				t.Fatal(err)
			}
		}
		before, _ := files[which.Load()].Stat()
		if err := l.Compact(func([]byte) bool { return false }); err != nil {
			t.Fatal(err)
		}
		after, _ := files[1-which.Load()].Stat()
		if want := min(before.Size(), spare); after.Size() != want {
			t.Errorf("round %d: the file had %d bytes, and has %d, want %d", round+1, before.Size(), after.Size(), want)
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	l, err := Open(new(atomic.Uint32), [2]*os.File{memory(b), memory(b)})
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	record := make([]byte, 48)
	b.SetBytes(int64(len(record)))
	for b.Loop() {
		if l.Append(record) == ErrFull {
			if err := l.Compact(func([]byte) bool { return false }); err != nil {
				b.Fatal(err)
			}
		}
	}
}
