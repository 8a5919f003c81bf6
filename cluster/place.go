package cluster

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
)

// A Wish is a client's choice of the node for its new session.
type Wish struct {
	Labels map[string]string // the node has all of these
	Node   string            // the name of the node; "": any
	Key    string            // sessions with the same key go to the same node while it has room; "": none
}

// Bounds of a Wish, in bytes and labels.
const (
	maxLabels   = 16
	maxLabel    = 63 // of a key, and of a value
	maxNodeName = 253
	maxKey      = 256
)

// Validate refuses a wish that is too long, and labels with other bytes than letters, digits and - _ . /
func (w Wish) Validate() error {
	if len(w.Labels) > maxLabels {
		return fmt.Errorf("%d labels, at most %d are allowed", len(w.Labels), maxLabels)
	}
	for _, key := range slices.Sorted(maps.Keys(w.Labels)) {
		if err := validateLabel(key); err != nil {
			return fmt.Errorf("key of a label: %w", err)
		}
		if err := validateLabel(w.Labels[key]); err != nil {
			return fmt.Errorf("value of label %s: %w", key, err)
		}
	}
	if len(w.Node) > maxNodeName {
		return fmt.Errorf("name of a node with %d bytes, at most %d are allowed", len(w.Node), maxNodeName)
	}
	if len(w.Key) > maxKey {
		return fmt.Errorf("placement key with %d bytes, at most %d are allowed", len(w.Key), maxKey)
	}
	return nil
}

func validateLabel(s string) error {
	if len(s) == 0 || len(s) > maxLabel {
		return fmt.Errorf("%q has %d bytes, must have 1 to %d", shortened(s), len(s), maxLabel)
	}
	for _, c := range s {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.ContainsRune("-_./", c):
		default:
			return fmt.Errorf("%q has %q, may have letters, digits and - _ . /", s, c)
		}
	}
	return nil
}

// ErrNoRoom means that no node can take a new session with this Wish. Its text says why.
var ErrNoRoom = errors.New("no node has room")

const (
	// maxCandidates is how many nodes choose returns. A node may have become full since its last report.
	maxCandidates = 8
	// fullShare is the used share of the memory, or of the descriptors, above which a node is full.
	fullShare = 0.95
	// unbounded is the bound of sessions by which a node without a bound is compared.
	unbounded = 10_000
	// tie is a difference of scores too small to matter. A session on the gateway's own node saves a hop for all its messages.
	tie = 0.01
)

// choose returns the nodes to try for a new session, the best first, at most maxCandidates. The caller tries the next
// if a node refuses. If no node has room, the error is an ErrNoRoom.
//
// A node takes part if it has all labels and the name of the wish, is not draining and is not full (Load.full).
//
// Without a key, two random nodes compete, and the lower score wins. A node's chance to be drawn is proportional to its
// MaxSessions, otherwise small nodes would be drawn too often. The score is the largest used share of the node
// (Load.used), plus the sessions that this gateway has sent to the node since the node's last
// report (sent), as a share of its MaxSessions. So a burst between two reports does not go to a single node. The node with the id self, where the
// gateway runs, competes as well, and wins ties, unless it has more sessions. The other nodes follow by score.
//
// With a key, rendezvous hashing makes the order: each node has a rank of its own for the key. If a node leaves or is full, only
// the keys whose first node it was move. Nodes are ranked by their names, so keys return to a restarted node.
//
// random returns a number from 0 to n-1.
func choose(nodes []Node, w Wish, self string, sent func(id string) int64, random func(n int) int) ([]Node, error) {
	var order []candidate
	for i := range nodes {
		n := &nodes[i]
		if n.Draining || n.Load.full() || !n.fulfils(w) {
			continue
		}
		c := candidate{node: n}
		if w.Key != "" {
			c.score = n.rank(w.Key)
		} else {
			more := sent(n.ID)
			c.score, c.filled = n.Load.used()+shareOf(more, n.Load.bound()), shareOf(n.Load.Sessions+more, n.Load.bound())
		}
		order = append(order, c)
	}
	if len(order) == 0 {
		return nil, noRoom(nodes, w)
	}
	slices.SortFunc(order, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.score, b.score), cmp.Compare(a.node.ID, b.node.ID))
	})
	if w.Key == "" {
		toFront(order, compete(order, self, random))
	}
	best := make([]Node, 0, maxCandidates)
	for _, c := range order[:min(len(order), maxCandidates)] {
		best = append(best, *c.node)
	}
	return best, nil
}

// A candidate is a node with room, the lowest score is the best.
type candidate struct {
	node  *Node
	score float64
	// filled is the share of the sessions, with those sent.
	filled float64
}

// compete returns the index of the winner in order, which is sorted by score.
func compete(order []candidate, self string, random func(n int) int) int {
	best := draw(order, -1, random)
	if len(order) > 1 {
		best = min(best, draw(order, best, random))
	}
	own := slices.IndexFunc(order, func(c candidate) bool { return c.node.ID == self })
	if own >= 0 && order[own].score <= order[best].score+tie && order[own].filled <= order[best].filled {
		return own
	}
	return best
}

// draw returns the index of a random candidate, but not except.
func draw(order []candidate, except int, random func(n int) int) int {
	total := 0
	for i, c := range order {
		if i != except {
			total += c.node.Load.weight()
		}
	}
	at, last := random(total), 0
	for i, c := range order {
		if i == except {
			continue
		}
		last = i
		if at -= c.node.Load.weight(); at < 0 {
			break
		}
	}
	return last
}

func toFront(order []candidate, i int) {
	c := order[i]
	copy(order[1:i+1], order[:i])
	order[0] = c
}

// fulfils says whether the node has the labels and the name of the wish.
func (n *Node) fulfils(w Wish) bool {
	if w.Node != "" && w.Node != n.Name {
		return false
	}
	for key, value := range w.Labels {
		if has, ok := n.Labels[key]; !ok || has != value {
			return false
		}
	}
	return true
}

// rank is the node's place among all nodes for a key, the lowest first: an exponentially distributed number whose rate is the
// node's weight. So a node twice as large has twice as many keys.
func (n *Node) rank(key string) float64 {
	// FNV-1a, and the finalizer of MurmurHash3, without which similar names have similar hashes.
	h := uint64(14695981039346656037)
	for _, s := range [...]string{cmp.Or(n.Name, n.ID), "\x00", key} {
		for i := range len(s) {
			h = (h ^ uint64(s[i])) * 1099511628211
		}
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	h ^= h >> 33
	uniform := (float64(h>>11) + 0.5) / (1 << 53) // above 0, below 1
	return -math.Log(uniform) / float64(n.Load.weight())
}

// full says whether a node opens no more sessions: it has MaxSessions, or uses more than 95 % of its memory or of its
// descriptors. The CPU makes no node full: programs there are slow and still run.
func (l Load) full() bool {
	return l.MaxSessions > 0 && l.Sessions >= l.MaxSessions ||
		shareOf(l.Memory, l.MaxMemory) > fullShare || shareOf(l.Files, l.MaxFiles) > fullShare
}

// used returns the largest used share: of the sessions, the memory, the descriptors, the CPU. The CPU may be above 1.
func (l Load) used() float64 {
	return max(shareOf(l.Sessions, l.bound()), shareOf(l.Memory, l.MaxMemory), shareOf(l.Files, l.MaxFiles), l.CPU)
}

// bound returns how many sessions there may be, for comparisons.
func (l Load) bound() int64 {
	if l.MaxSessions <= 0 {
		return unbounded
	}
	return l.MaxSessions
}

// weight is bound with a limit, so that sums of weights do not overflow.
func (l Load) weight() int { return int(min(l.bound(), 1<<20)) }

// share returns a part of a bound. Without a bound the share is 0.
func shareOf(part, bound int64) float64 {
	if bound <= 0 {
		return 0
	}
	return float64(part) / float64(bound)
}

// Bounds of the text of an ErrNoRoom.
const (
	maxNodesShown = 3
	maxTermsShown = 4
)

// noRoom says in one line why no node can fulfil the wish.
func noRoom(nodes []Node, w Wish) error {
	terms := w.terms()
	var fulfil []*Node
	for i := range nodes {
		if n := &nodes[i]; n.fulfils(w) {
			fulfil = append(fulfil, n)
		}
	}
	var text strings.Builder
	lack := len(nodes) - len(fulfil)
	switch {
	case len(nodes) == 0:
		text.WriteString("the cluster has no node")
	case len(fulfil) == 0 && len(terms) == 1:
		fmt.Fprintf(&text, "none of %s has %s", count(len(nodes), "node"), terms[0].text)
	case len(fulfil) == 0:
		fmt.Fprintf(&text, "none of %s has all of ", count(len(nodes), "node"))
		listTerms(&text, terms, func(t term) string {
			had := 0
			for i := range nodes {
				if nodes[i].fulfils(t.wish) {
					had++
				}
			}
			return fmt.Sprintf("%s (%s)", t.text, count(had, "node"))
		})
	default:
		fmt.Fprintf(&text, "of %s", count(len(fulfil), "node"))
		if len(terms) > 0 {
			text.WriteString(" with ")
			listTerms(&text, terms, func(t term) string { return t.text })
		}
		listObstacles(&text, fulfil)
		if lack > 0 && len(terms) == 1 {
			fmt.Fprintf(&text, "; %s without %s", count(lack, "other node"), terms[0].text)
		} else if lack > 0 {
			fmt.Fprintf(&text, "; %s without some of these", count(lack, "other node"))
		}
	}
	return fmt.Errorf("%w: %s", ErrNoRoom, &text)
}

// A term is a part of a wish.
type term struct {
	wish Wish
	text string
}

// terms returns the parts of a wish.
func (w Wish) terms() (terms []term) {
	if w.Node != "" {
		terms = append(terms, term{Wish{Node: w.Node}, "the name " + shortened(w.Node)})
	}
	for _, key := range slices.Sorted(maps.Keys(w.Labels)) {
		wish := Wish{Labels: map[string]string{key: w.Labels[key]}}
		terms = append(terms, term{wish, shortened(key + "=" + w.Labels[key])})
	}
	return terms
}

func listTerms(text *strings.Builder, terms []term, show func(term) string) {
	for i, t := range terms {
		if i > 0 {
			text.WriteString(", ")
		}
		if i == maxTermsShown {
			fmt.Fprintf(text, "%d more", len(terms)-i)
			break
		}
		text.WriteString(show(t))
	}
}

// listObstacles says of some nodes why they get no session, and counts the rest.
func listObstacles(text *strings.Builder, nodes []*Node) {
	shown := nodes[:min(len(nodes), maxNodesShown)]
	for _, n := range shown {
		fmt.Fprintf(text, ", %s %s", shortened(cmp.Or(n.Name, n.ID)), n.obstacle())
	}
	full, draining := 0, 0
	for _, n := range nodes[len(shown):] {
		if n.Draining {
			draining++
		} else {
			full++
		}
	}
	if full > 0 {
		fmt.Fprintf(text, ", %d more full", full)
	}
	if draining > 0 {
		fmt.Fprintf(text, ", %d more being drained", draining)
	}
}

// obstacle says why the node gets no session.
func (n *Node) obstacle() string {
	l := n.Load
	switch {
	case n.Draining:
		return "is being drained"
	case l.MaxSessions > 0 && l.Sessions >= l.MaxSessions:
		return fmt.Sprintf("has %d of %d sessions", l.Sessions, l.MaxSessions)
	case shareOf(l.Memory, l.MaxMemory) > fullShare:
		return fmt.Sprintf("uses %.1f %% of its memory, may use %.0f", 100*shareOf(l.Memory, l.MaxMemory), 100*fullShare)
	default:
		return fmt.Sprintf("uses %d of %d descriptors, may use %.0f %%", l.Files, l.MaxFiles, 100*fullShare)
	}
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// shortened returns s for a message, with at most 64 bytes.
func shortened(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
