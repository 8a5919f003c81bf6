package child

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

func init() { plays["speed"] = speedPlay }

// speedPlay measures starts in turns: without a holder, and with one from threads and from desks. The time is that from Start to done.
func speedPlay(t *testing.T, s *holder.Server, h *Host, p play) {
	hosts := map[string]*Host{"desks": h}
	quiet := slog.New(slog.NewTextHandler(io.Discard, nil))
	threads, err := NewHost(HostConfig{Containment: p.Mode, Subreaper: true, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer threads.Close(context.Background())
	hosts["no holder"] = threads
	for _, files := range []int{0, 12000} {
		for range files {
			fd, err := unix.FcntlInt(threads.null.Fd(), unix.F_DUPFD_CLOEXEC, 0)
			if err != nil {
				t.Skip(err)
			}
			defer unix.Close(fd)
		}
		for _, flight := range []int{1, 16} {
			took := make(map[string][]time.Duration)
			rate := make(map[string]time.Duration)
			for range 8 {
				for _, name := range []string{"no holder", "desks", "threads"} {
					host := hosts[name]
					if name == "threads" {
						host = h
						h.threads.close()
						h.fill(&h.threads, defaultSpawners, false)
					}
					begun := time.Now()
					took[name] = append(took[name], starts(t, host, 100, flight)...)
					rate[name] += time.Since(begun)
					if name == "threads" {
						h.threads.close()
						h.fill(&h.threads, defaultSpawners, true)
					}
				}
			}
			for _, name := range []string{"no holder", "threads", "desks"} {
				tell("%5d files, %2d in flight, %-9s: median %4d µs a start, %5.0f starts and ends a second", files, flight, name, median(took[name]).Microseconds(), 800/rate[name].Seconds())
			}
		}
	}
}

func median(all []time.Duration) time.Duration {
	slices.Sort(all)
	return all[len(all)/2]
}

// starts starts children and ends them, so many at a time.
func starts(t *testing.T, h *Host, n, flight int) (took []time.Duration) {
	var mu sync.Mutex
	var all sync.WaitGroup
	tokens := make(chan struct{}, flight)
	for range n {
		tokens <- struct{}{}
		all.Go(func() {
			one, err := runTrue(h, nil)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			took = append(took, one)
			mu.Unlock()
			<-tokens
		})
	}
	all.Wait()
	return took
}

// BenchmarkHeldStart compares starts with and without a holder, in turns in the same server.
func BenchmarkHeldStart(b *testing.B) {
	for _, mode := range []Containment{ContainCgroup, ContainMarker} {
		b.Run(string(mode), func(b *testing.B) {
			if mode == ContainCgroup {
				needs.Cgroup(b)
			}
			for b.Loop() {
				h := hold(b, play{Story: "speed", Mode: mode, Dir: b.TempDir()})
				for line := h.line(); line != ""; line = h.line() {
					fmt.Println(line)
				}
				h.Wait()
			}
		})
	}
}
