// Package quota bounds the processes of each owner key (message.Attach.From), over all its sessions. In a cluster, what an owner key uses on other nodes
// counts, too: docs/CLUSTER.md, section "Limits of an identity".
package quota

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/actors/spool"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/internal/estate"
	"github.com/b6f6fdd7/troupe/internal/pace"
	"github.com/b6f6fdd7/troupe/internal/tally"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Limits are the limits of each owner key. 0 means no limit.
type Limits struct {
	Processes int     // that run
	Starts    float64 // in a second
	Burst     int     // how many starts may come at once; at least 1
	// In bytes per second, of all processes together.
	OutputRate, StdinRate int64
	// In bytes: output in memory, and on disk. Beyond either, Short is called, as for budget.NewOutput.
	Retained, Spooled int64
	Short             func(key string)

	// Sessions is the limit of the registry. Quotas only report sessions, for other nodes.
	Sessions int
	// Elsewhere returns what an owner key uses on other nodes: sessions and processes count for the limits, and rates and bytes are divided by the nodes. Any
	// goroutine may call Elsewhere, which must not block. Nil: there is no cluster.
	Elsewhere func(key string) tally.Elsewhere
}

// none reports whether nothing is limited.
func (l *Limits) none() bool {
	return l.Processes <= 0 && l.Starts <= 0 && l.OutputRate <= 0 && l.StdinRate <= 0 && l.Retained <= 0 && l.Spooled <= 0 && (l.Sessions <= 0 || l.Elsewhere == nil)
}

// starts returns the rate of starts on one of so many nodes; 0 a second: there is no limit.
func (l *Limits) starts(nodes int) pace.Rate {
	return pace.Rate{PerSecond: max(l.Starts, 0) / float64(nodes), Burst: max(l.Burst/nodes, 1)}
}

// part returns the part of a limit on one of so many nodes. 0 means no limit.
func part(limit int64, nodes int) int64 {
	if limit <= 0 {
		return 0
	}
	return max(limit/int64(nodes), 1)
}

// elsewhere returns what an owner key uses on other nodes.
func (l *Limits) elsewhere(key string) tally.Elsewhere {
	if l.Elsewhere == nil {
		return tally.Elsewhere{}
	}
	return l.Elsewhere(key)
}

// Quotas has what owner keys use. A key that uses nothing is forgotten. Nil Quotas have no limits. Any
// goroutine may call the methods of Quotas and Place; they do not wait.
type Quotas struct {
	limits Limits
	memory *budget.Output // of the server
	disk   *spool.Disk    // of the server

	estate  *estate.Estate // nil: what was used ends with the server
	drained time.Time      // until then the last server has used up the rates of bytes; zero: there was none

	mu     sync.Mutex
	shares map[string]*share
	sweep  int // the number of shares at which Start looks for shares to forget
}

// share is what an owner key uses.
type share struct {
	sessions      int // 0 without a cluster
	running       int
	nodes         int       // rates and bytes are divided by so many
	starts        pace.Rate // a part of the limit; 0 a second: there is no limit
	used          used
	kept          *estate.Owner  // of used; nil: used is zero, or ends with the server
	output, stdin *pace.Meter    // nil: no limit
	memory        *budget.Output // nil: no limit but the server's
	disk          *spool.Disk    // nil: no limit but the server's
}

// used is what the next server has to know of a share. A place is known by its process.
type used struct{ Starts pace.Bucket }

// keptAs begins the names of the records of shares. The owner key follows.
const keptAs = "quota "

// idle reports whether a new share would be as good as s.
func (s *share) idle(now time.Time) bool {
	return s.sessions == 0 && s.running == 0 && s.used.Starts.Full(now) && s.output.Idle(now) && s.stdin.Idle(now) &&
		(s.memory == nil || s.memory.Used() == 0) && (s.disk == nil || s.disk.Used() == 0)
}

// A Place is the place of a process that runs. A nil Place counts for nothing.
type Place struct {
	of   *Quotas
	key  string
	left bool // guarded by Quotas.mu

	// Output and Stdin hold the bytes of all processes of the owner key to their rates; nil: no limit.
	Output, Stdin *pace.Meter
	// Memory and Disk have the shares of the owner key; nil: there is no limit but the server's.
	Memory *budget.Output
	Disk   *spool.Disk
}

// minSweep is the smallest value of Quotas.sweep.
const minSweep = 64

// New returns Quotas with limits; nil if there is no limit. All output of the server is in memory and on disk. e is the estate of the server, or nil: an
// owner key has no more starts and bytes for the death of a server.
func New(l Limits, memory *budget.Output, disk *spool.Disk, e *estate.Estate) *Quotas {
	if l.none() {
		return nil
	}
	q := &Quotas{
		limits: l,
		memory: memory,
		disk:   disk,
		estate: e,
		shares: make(map[string]*share),
		sweep:  minSweep,
	}
	if e.Follows() {
		q.drained = time.Now().Add(time.Second)
	}
	for name := range e.Names(keptAs) {
		key := strings.TrimPrefix(name, keptAs)
		s := q.share(key)
		if err := e.Revive(name, &s.used); err == nil && s.starts.PerSecond > 0 {
			q.shares[key], s.kept = s, e.Owner(name)
			s.kept.Keep(&s.used)
		}
	}
	return q
}

// share returns the share of an owner key. The caller holds mu, and adds a new share to shares.
func (q *Quotas) share(key string) *share {
	if s := q.shares[key]; s != nil {
		return s
	}
	l := &q.limits
	n := 1 + l.elsewhere(key).Nodes
	s := &share{nodes: n, starts: l.starts(n), output: pace.NewMeter(part(l.OutputRate, n)), stdin: pace.NewMeter(part(l.StdinRate, n))}
	s.output.Drain(q.drained)
	s.stdin.Drain(q.drained)
	if l.Retained > 0 {
		s.memory = q.memory.Share(part(l.Retained, n), func() { l.Short(key) })
	}
	if l.Spooled > 0 {
		s.disk = q.disk.Share(part(l.Spooled, n), func() { l.Short(key) })
	}
	return s
}

// Divide has the rates and bytes of all owner keys follow Limits.Elsewhere at the time now. The caller repeats Divide every second.
func (q *Quotas) Divide(now time.Time) {
	if q == nil || q.limits.Elsewhere == nil {
		return
	}
	var wake []budget.Waiter
	q.mu.Lock()
	for key, s := range q.shares {
		if n := 1 + q.limits.elsewhere(key).Nodes; n != s.nodes {
			wake = append(wake, q.divide(key, s, n, now)...)
		}
	}
	q.mu.Unlock()
	budget.Wake(wake)
}

// divide divides the rates and bytes of an owner key by a number of nodes. The caller holds mu, and wakes the result afterwards.
func (q *Quotas) divide(key string, s *share, nodes int, now time.Time) (wake []budget.Waiter) {
	l, last := &q.limits, s.starts
	s.nodes, s.starts = nodes, l.starts(nodes)
	if s.starts.PerSecond > 0 {
		s.used.Starts.Change(last, s.starts, now)
		q.keep(key, s)
	}
	s.output.Change(part(l.OutputRate, nodes))
	s.stdin.Change(part(l.StdinRate, nodes))
	if s.memory != nil {
		wake = append(wake, s.memory.Change(part(l.Retained, nodes))...)
	}
	if s.disk != nil {
		wake = append(wake, s.disk.Change(part(l.Spooled, nodes))...)
	}
	return wake
}

// Sessions records how many sessions an owner key has here. Only other nodes need it.
func (q *Quotas) Sessions(key string, n int) {
	if q == nil || q.limits.Elsewhere == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.share(key)
	q.shares[key] = s
	if s.sessions = n; s.idle(time.Now()) {
		q.forget(key, s) // otherwise a sweep of Start forgets s
	}
}

// NoSessions records that nobody has a session.
func (q *Quotas) NoSessions() {
	if q == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, s := range q.shares {
		s.sessions = 0
	}
}

// Accounts returns what owner keys use here, for other nodes. Nil: there is no cluster.
func (q *Quotas) Accounts() map[string]tally.Account {
	if q == nil || q.limits.Elsewhere == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	all := make(map[string]tally.Account)
	for key, s := range q.shares {
		a := tally.Account{Sessions: s.sessions}
		if q.limits.Processes > 0 {
			a.Processes = s.running
		}
		if a != (tally.Account{}) {
			all[key] = a
		}
	}
	return all
}

// Start takes n places and n starts for an owner key at the time now, or nothing. So that a group of more
// than a burst can start at all, n processes cost a burst of starts at most.
func (q *Quotas) Start(key string, n int, now time.Time) ([]*Place, *protocol.Error) {
	places := make([]*Place, n)
	if q == nil {
		return places, nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.share(key)
	if err := q.room(key, s, n); err != nil {
		return nil, err
	}
	if s.starts.PerSecond > 0 {
		if wait := s.used.Starts.Wait(s.starts, min(n, s.starts.Burst), now); wait > 0 {
			return nil, q.tooFast(key, s).Advise("try again in %d ms", wait.Milliseconds()+1).Exceeds("max-starts-each", q.limits.Starts, float64(s.starts.Burst))
		}
		s.used.Starts.Spend(s.starts, min(n, max(q.limits.Burst, 1)), now) // all of it, also if the burst is divided: otherwise parts make groups cheap
	}
	s.running += n
	q.shares[key] = s
	q.keep(key, s)
	for i := range places {
		places[i] = q.place(key, s)
	}
	if len(q.shares) >= q.sweep {
		for key, s := range q.shares {
			if s.idle(now) {
				q.forget(key, s)
			}
		}
		q.sweep = max(minSweep, 2*len(q.shares))
	}
	return places, nil
}

// tooFast says that an owner key has used its starts.
func (q *Quotas) tooFast(key string, s *share) *protocol.Error {
	who := wireerr.Clip(key)
	if s.nodes > 1 {
		return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "max-starts-each is %v a second in this cluster: %s has sessions on %d nodes, so %.3g a second are for this one, %d at once, and %s has used them",
			q.limits.Starts, who, s.nodes, s.starts.PerSecond, s.starts.Burst, who)
	}
	return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "max-starts-each is %v a second here, %d at once, and %s has used them", q.limits.Starts, s.starts.Burst, who)
}

// keep keeps what the next server has to know of a share. The caller holds mu.
func (q *Quotas) keep(key string, s *share) {
	if s.starts.PerSecond > 0 && q.shares[key] == s {
		if s.kept == nil {
			s.kept = q.estate.Owner(keptAs + key)
		}
		s.kept.Keep(&s.used)
	}
}

// forget forgets an idle share. The caller holds mu.
func (q *Quotas) forget(key string, s *share) {
	delete(q.shares, key)
	s.kept.End()
}

// Restore returns a place for a process that an earlier server has started. It counts no start, and takes the place even beyond the limit.
func (q *Quotas) Restore(key string) *Place {
	if q == nil {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	s := q.share(key)
	s.running++
	q.shares[key] = s
	return q.place(key, s)
}

func (q *Quotas) place(key string, s *share) *Place {
	return &Place{of: q, key: key, Output: s.output, Stdin: s.stdin, Memory: s.memory, Disk: s.disk}
}

// room says why n more processes of an owner key, with its share s, are too many. The caller holds mu.
func (q *Quotas) room(key string, s *share, n int) *protocol.Error {
	most := q.limits.Processes
	if most <= 0 {
		return nil
	}
	elsewhere := q.limits.elsewhere(key).Processes
	all := s.running + elsewhere
	if n <= most-all {
		return nil
	}
	text := fmt.Sprintf("max-processes-each is %d here, %s runs %d, and this start needs %d more", most, wireerr.Clip(key), all, n)
	if q.limits.Elsewhere != nil {
		text = fmt.Sprintf("max-processes-each is %d in this cluster, and %s runs %d: %d here and %d on other nodes; this start needs %d more", most, wireerr.Clip(key), all, s.running, elsewhere, n)
	}
	return protocol.Errorf(protocol.KindLimit, protocol.CodeInvalidRequest, "%s", text).
		Advise("end a process, or wait until one has ended").Exceeds("max-processes-each", float64(most), float64(all))
}

// Leave frees the place. Leave may be called repeatedly.
func (p *Place) Leave() {
	if p == nil {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.left {
		return
	}
	p.left = true
	s := p.of.shares[p.key]
	if s.running--; s.idle(time.Now()) {
		p.of.forget(p.key, s) // otherwise a sweep of Start forgets s
	}
}

// Rated reports whether starts have a rate.
func (p *Place) Rated() bool { return p != nil && p.of.limits.Starts > 0 }

// Paced returns when the process may start again within the rate of starts: at the time now, or later.
func (p *Place) Paced(now time.Time) time.Time {
	if !p.Rated() {
		return now
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	s := p.of.share(p.key)
	return now.Add(s.used.Starts.Wait(s.starts, 1, now))
}

// Restarted takes a start for another run of the process at the time now, even beyond the rate: several
// processes may ask Paced at the same time.
func (p *Place) Restarted(now time.Time) {
	if !p.Rated() {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	s := p.of.share(p.key)
	s.used.Starts.Spend(s.starts, 1, now)
	p.of.keep(p.key, s)
}

// Return takes the place again after Leave, even beyond the limit.
func (p *Place) Return() {
	if p == nil {
		return
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	p.take()
}

// TryReturn takes the place again after Leave, or says why there is no room.
func (p *Place) TryReturn() *protocol.Error {
	if p == nil {
		return nil
	}
	p.of.mu.Lock()
	defer p.of.mu.Unlock()
	if p.left {
		if err := p.of.room(p.key, p.of.share(p.key), 1); err != nil {
			return err
		}
	}
	p.take()
	return nil
}

// take takes the place, unless the process has it. The caller holds mu.
func (p *Place) take() {
	if !p.left {
		return
	}
	p.left = false
	s := p.of.share(p.key)
	p.of.shares[p.key] = s
	s.running++
}
