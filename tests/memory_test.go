//go:build slow

package tests

import (
	"testing"
	"time"
)

// TestUnfinishedMessagesOfTheServer: clients that never finish a message of 64 MiB hold no more than
// their part of the budget. Small messages of other clients still pass. When the clients leave, the
// system gets the memory back.
func TestUnfinishedMessagesOfTheServer(t *testing.T) {
	if underRace() {
		t.Skip("the race detector takes memory of its own")
	}
	t.Parallel()
	const clients, budget = 12, 256 * mib // a quarter is for clients, and a single message may exceed this quarter
	s := startServer(t, "--memory-budget", "268435456")
	other := newWitness(s)
	before := s.rss()
	part := make([]byte, 15*mib)
	var all []*conn
	for range clients {
		c := s.session(nil)
		all = append(all, c)
		go c.sendParts(false, part, part, part, part)
	}
	most := s.rss()
	for end := time.Now().Add(4 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		most = max(most, s.rss())
		other.echo(t)
	}
	t.Logf("%d MiB before, %d at most", before/mib, most/mib)
	if grown := most - before; grown > (budget/4+160*mib)*3/2 {
		t.Errorf("%d clients with 60 MiB each of a message cost the server %d MiB", clients, grown/mib)
	}
	for _, c := range all {
		c.cutRST()
	}
	eventually(t, "the memory to go back", func() bool { return s.rss() < before+48*mib })
	other.echo(t)
}

// TestMemoryGoesBack: the system gets the memory of a large message back, although the server is idle
// and allocates too little to start a garbage collection.
func TestMemoryGoesBack(t *testing.T) {
	if underRace() {
		t.Skip("the race detector takes memory of its own")
	}
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	before := s.rss()
	c.sendLargest()
	c.reply("big")
	t.Logf("%d MiB before, %d after", before/mib, s.rss()/mib)
	eventually(t, "the memory to go back", func() bool { return s.rss() < before+48*mib })
}
