package slab

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"testing"
	"unsafe"
)

func TestReleasedByTheLast(t *testing.T) {
	s := Get()
	s.Hold()
	s.Release()
	s.Bytes()[0] = 'x' // still held
	s.Release()
	defer func() {
		if recover() == nil {
			t.Error("a slab that nobody holds was released once more")
		}
	}()
	s.Release()
}

func TestBeginsAtPage(t *testing.T) {
	for range 100 {
		b := Get().Bytes()
		if at := uintptr(unsafe.Pointer(&b[0])) % uintptr(os.Getpagesize()); at != 0 || len(b) != Size {
			t.Fatalf("a slab has %d bytes and begins %d bytes into a page", len(b), at)
		}
	}
}

func TestNil(t *testing.T) {
	var s *Slab
	s.Hold()
	s.Release()
	s.Release()
}

// Nobody writes into a slab of another holder. Each worker fills its own slab with its number, and the other
// holders of the slab find this number there.
func TestNobodyElsesBytes(t *testing.T) {
	const workers, rounds, holders = 8, 200, 3
	var all sync.WaitGroup
	for n := range workers {
		all.Go(func() {
			for range rounds {
				s := Get()
				b := s.Bytes()
				b[0], b[Size-1] = byte(n), byte(n)
				var held sync.WaitGroup
				for range holders {
					s.Hold()
					held.Go(func() {
						if b[0] != byte(n) || b[Size-1] != byte(n) {
							t.Errorf("worker %d holds the bytes of %d and %d", n, b[0], b[Size-1])
						}
						s.Release()
					})
				}
				s.Release()
				held.Wait()
			}
		})
	}
	all.Wait()
}

func BenchmarkGet(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		Get().Release()
	}
}

// A pipe's bytes lie in pages, from the first on; so into a slab, and a little further.
func BenchmarkReadOffset(b *testing.B) {
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		b.Fatal(err)
	}
	defer syscall.Close(pipe[0])
	defer syscall.Close(pipe[1])
	bytes := Get().Bytes()
	const n = 64 << 10 // bytes in a pipe
	for _, offset := range []int{0, 4, 64} {
		b.Run(fmt.Sprint(offset), func(b *testing.B) {
			b.SetBytes(n)
			for b.Loop() {
				b.StopTimer()
				if _, err := syscall.Write(pipe[1], bytes[:n]); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if _, err := syscall.Read(pipe[0], bytes[offset:][:n]); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
