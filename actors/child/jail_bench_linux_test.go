package child

import (
	"fmt"
	"runtime/debug"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/sandbox"
)

// BenchmarkJail starts /bin/true and waits for its end, without a sandbox and with one, at several sizes of the server's
// memory. A fork that copied page tables would grow with the memory.
func BenchmarkJail(b *testing.B) {
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var heap []byte
	defer func() { heap = nil }()
	for _, mib := range []int{0, 256, 1024} {
		heap = make([]byte, mib<<20)
		for i := 0; i < len(heap); i += 4096 {
			heap[i] = 1
		}
		for _, confined := range []bool{false, true} {
			b.Run(fmt.Sprintf("heap=%dMiB/confined=%v", mib, confined), func(b *testing.B) {
				h, err := NewHost(HostConfig{})
				if err != nil {
					b.Fatal(err)
				}
				defer h.Close(b.Context())
				var policy *sandbox.Policy
				if confined {
					policy = &sandbox.Policy{Files: true, Root: sandbox.Read}
				}
				for b.Loop() {
					if _, err := runTrue(h, policy); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// runTrue starts /bin/true, with a policy in a sandbox, and waits for its end. took is the time from Start to done.
func runTrue(h *Host, policy *sandbox.Policy) (took time.Duration, err error) {
	closed := make(chan struct{}, 16)
	in := NewIntake(1<<20, budget.NewOutput(0, func() {}), nil, func() { closed <- struct{}{} })
	done := make(chan error)
	var p Handle
	begun := time.Now()
	h.Start(Spec{Name: script("").Name, Argv: []string{"/bin/true"}, policy: policy}, in, func(handle Handle, err error) { p = handle; done <- err })
	if err := <-done; err != nil {
		return 0, err
	}
	took = time.Since(begun)
	for over := false; !over; {
		<-closed
		for f, ok := in.Next(); ok; f, ok = in.Next() {
			over = over || f.Kind == FactClosed
			in.Settle(0, 0)
		}
	}
	p.Finish(func(err error) { done <- err })
	return took, <-done
}
