// Package testlab is a laboratory for tests of several machines: a network with machines in it, and faults of both.
//
//	lab := testlab.New(t)
//	a, b := lab.Machine("a"), lab.Machine("b")
//	server := a.Command("troupe", "serve", "--listen", "ws://"+a.Addr+":7700")
//	lab.Part(a, b)                                           // neither hears the other any more
//	lab.Join(a, b)
//	b.Out.Set(testlab.Wire{Delay: 50 * time.Millisecond, Loss: 0.02})
//	a.Kill()                                                 // as a loss of power
//
// A machine is a process of this test binary in namespaces of its own: user, network, PID, mount, IPC and host name. This process is
// process 1 there, starts programs, opens sockets for the test, and reaps. When the test ends, or is killed, process 1 ends, and with it the kernel kills every
// program of the machine. Nothing is made outside of the namespaces.
//
// The network carries IP packets. Each machine has a TUN device, and the test reads packets from one device and writes them to another: see Link. TCP is the
// kernel's, with its buffers, timers, repeats and resets. The test is the network because a kernel may lack netem and the classifiers of tc(8), and
// because ip-netns(8) makes names that all of a host sees.
//
// Programs share the processors, the disk, /tmp and the clock. A time namespace moves the monotonic clock alone, not the time of day, and a static Go
// program takes the time from the vDSO, where neither LD_PRELOAD nor seccomp(2) can answer. See .ci/clocks for programs with another time of day.
package testlab

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// A Lab is a network and its machines, until its test ends.
type Lab struct {
	t    testing.TB
	over chan struct{}
	all  sync.WaitGroup // goroutines

	mu       sync.RWMutex
	machines []*Machine // the last octet of the address of machines[0] is 1
	links    map[[2]*Machine]*Link
}

// New returns a lab without machines. A system where the test may not make namespaces or TUN devices lacks a need.
func New(t testing.TB) *Lab {
	t.Helper()
	needs.NewProc(t, os.Getuid())
	needs.TUN(t)
	l := &Lab{t: t, over: make(chan struct{}), links: make(map[[2]*Machine]*Link)}
	t.Cleanup(func() {
		close(l.over)
		for _, m := range l.machines {
			m.Kill()
		}
		l.all.Wait()
	})
	return l
}

// Machine starts a machine. A killed machine of this name starts again, with its address and its links.
func (l *Lab) Machine(name string) *Machine {
	l.t.Helper()
	l.mu.Lock()
	i := slices.IndexFunc(l.machines, func(m *Machine) bool { return m.Name == name })
	if i < 0 {
		i = len(l.machines)
		m := &Machine{lab: l, Name: name, Addr: fmt.Sprintf("10.77.0.%d", i+1)}
		m.In, m.Out = newLink(l), newLink(l)
		l.machines = append(l.machines, m)
	}
	m := l.machines[i]
	l.mu.Unlock()
	if err := m.boot(); err != nil {
		l.t.Fatalf("machine %q: %v", name, err)
	}
	return m
}

// Link is the link between two machines, in one direction. Its packets have passed from.Out, and will pass to.In.
func (l *Lab) Link(from, to *Machine) *Link {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := [2]*Machine{from, to}
	if l.links[key] == nil {
		l.links[key] = newLink(l)
	}
	return l.links[key]
}

// Part cuts the links between two machines, in both directions.
func (l *Lab) Part(a, b *Machine) { l.both(a, b, Wire{Cut: true}) }

// Join ends all faults of the links between two machines.
func (l *Lab) Join(a, b *Machine) { l.both(a, b, Wire{}) }

func (l *Lab) both(a, b *Machine, w Wire) {
	l.Link(a, b).Set(w)
	l.Link(b, a).Set(w)
}

// carry takes a packet of a machine to the machine of its destination. Nobody answers for an address without a machine.
func (l *Lab) carry(from *Machine, packet []byte) {
	if len(packet) < 20 || packet[0]>>4 != 4 {
		return // IPv6: the kernel looks for neighbours
	}
	to := l.at(netip.AddrFrom4([4]byte(packet[16:20])))
	if to == nil {
		return
	}
	l.mu.RLock()
	between := l.links[[2]*Machine{from, to}]
	l.mu.RUnlock()
	from.Out.carry(packet, func(packet []byte) {
		between.carry(packet, func(packet []byte) {
			to.In.carry(packet, to.receive)
		})
	})
}

func (l *Lab) at(addr netip.Addr) *Machine {
	octets := addr.As4()
	if binary.BigEndian.Uint16(octets[:]) != 10<<8|77 || octets[2] != 0 {
		return nil
	}
	l.mu.RLock()
	defer l.mu.RUnlock()
	if n := int(octets[3]); 0 < n && n <= len(l.machines) {
		return l.machines[n-1]
	}
	return nil
}
