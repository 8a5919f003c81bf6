package slab

import (
	"sync"
	"testing"
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

func TestNil(t *testing.T) {
	var s *Slab
	s.Hold()
	s.Release()
	s.Release()
}

// Nobody writes into a slab that somebody else holds: each fills its own with its
// number, and those it passed it to find it there.
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
