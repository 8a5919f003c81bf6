package members

import (
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/record"
)

// A Table is a record.Journal: after a turn of the session, the record gets the processes touched in the turn, and not all processes.

// news are the changes of a table.
type news struct {
	Changed []entry
	Gone    []string // names
	Used    []string // ids of new processes, whatever has become of them
	Removed []removal
}

// entry is a process of a table.
type entry struct {
	Process
	Live bool
}

// Follow has the table note its changes for News. News is called after each turn of the session.
func (t *Table) Follow() { t.follow = true }

// Touch notes a change of a process.
func (t *Table) Touch(p *Process) {
	if !t.follow {
		return
	}
	if t.touched == nil {
		t.touched = make(map[string]bool)
	}
	t.touched[p.Name] = true
}

// News implements record.Journal.
func (t *Table) News(b []byte) ([]byte, bool) {
	n := news{Used: t.used, Removed: t.fresh}
	for name := range t.touched {
		if p := t.known[name]; p != nil {
			n.Changed = append(n.Changed, entry{*p, t.isLive(p)})
		} else {
			n.Gone = append(n.Gone, name)
		}
	}
	t.touched, t.used, t.fresh = nil, nil, nil
	if len(n.Changed)+len(n.Gone)+len(n.Removed) == 0 {
		return b, true
	}
	slices.SortFunc(n.Changed, func(a, b entry) int { return strings.Compare(a.Name, b.Name) })
	slices.Sort(n.Gone)
	return record.Encode(b, n), true
}

// Learn implements record.Journal.
func (t *Table) Learn(b []byte) error {
	var n news
	if err := record.Decode(b, &n); err != nil {
		return err
	}
	for _, e := range n.Changed {
		n.Gone = append(n.Gone, e.Name)
	}
	for _, name := range n.Gone {
		if p := t.known[name]; p != nil {
			t.Drop(p)
		}
	}
	for _, e := range n.Changed {
		p := e.Process
		if closed := p.Closed; e.Live {
			p.Closed = false
			t.Add(&p)
			if closed {
				t.Close(p.Name)
			}
			continue
		}
		t.make()
		t.known[p.Name] = &p
	}
	t.removed = slices.DeleteFunc(t.removed, func(r removal) bool { return slices.Contains(n.Used, r.ID) })
	for _, r := range n.Removed {
		t.remember(r)
	}
	return nil
}
