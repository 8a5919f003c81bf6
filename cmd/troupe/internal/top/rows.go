package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/why"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// An Order is an order of processes.
type Order int

const (
	ByStart Order = iota // the oldest first
	ByName
	ByCPU // the largest first, as of the orders below
	ByMemory
	ByOutput
	ByLag
	orders // how many orders there are
)

var orderNames = [orders]string{"start", "name", "CPU", "memory", "output", "lag"}

// String is the name of the order for people.
func (o Order) String() string { return orderNames[o] }

// compare returns the order of two processes: negative if a comes first.
func (o Order) compare(a, b *process) int {
	switch o {
	case ByName:
		return cmp.Compare(a.Process, b.Process)
	case ByCPU:
		return cmp.Compare(b.cpu, a.cpu)
	case ByMemory:
		return cmp.Compare(b.memory, a.memory)
	case ByOutput:
		return cmp.Compare(b.output, a.output)
	case ByLag:
		return cmp.Compare(b.lag, a.lag)
	}
	return cmp.Compare(a.info.StartedAtMs, b.info.StartedAtMs)
}

// A row is a line of the table: a session, a group, or a process.
type row struct {
	key     key
	process *process // nil: a session or a group
	depth   int
	title   string // of a session or group
	state   string
	why     string
	folded  bool
	usage
}

// A key tells rows apart over time.
type key struct {
	pick.Ref
	group string
}

// A table says which rows are shown, and how.
type table struct {
	order   Order
	reverse bool
	flat    bool         // no sessions and groups
	filter  string       // only processes whose name, session, group, state, program or reason to be quiet has this text
	folded  map[key]bool // sessions and groups without their processes
}

// rows returns the rows of the processes. A session without processes is shown, unless there is a filter.
func (t *table) rows(s *Snapshot, processes []process) []row {
	shown := make([]*process, 0, len(processes))
	for i := range processes {
		if p := &processes[i]; t.matches(p) {
			shown = append(shown, p)
		}
	}
	slices.SortStableFunc(shown, func(a, b *process) int {
		c := t.order.compare(a, b)
		if t.reverse {
			c = -c
		}
		return cmp.Or(c, cmp.Compare(a.Process, b.Process), cmp.Compare(a.Session, b.Session))
	})
	if t.flat {
		rows := make([]row, len(shown))
		for i, p := range shown {
			rows[i] = processRow(p, 0)
		}
		return rows
	}
	bySession := make(map[string][]*process)
	var order []string // sessions in the order of their first process
	for _, p := range shown {
		if bySession[p.Session] == nil {
			order = append(order, p.Session)
		}
		bySession[p.Session] = append(bySession[p.Session], p)
	}
	byID := make(map[string]*protocol.SessionDetails)
	for i := range s.Sessions {
		id := s.Sessions[i].SessionID
		byID[id] = &s.Sessions[i]
		if bySession[id] == nil && t.filter == "" {
			order = append(order, id)
		}
	}
	var rows []row
	for _, id := range order {
		rows = t.session(rows, byID[id], s.At, bySession[id])
	}
	return rows
}

// session appends the rows of a session.
func (t *table) session(rows []row, s *protocol.SessionDetails, at time.Time, list []*process) []row {
	if len(list) == 1 && len(s.List) == 1 && list[0].info.Group == "" {
		return append(rows, loneRow(list[0], at))
	}
	head := len(rows)
	k := key{Ref: pick.Ref{Session: s.SessionID}}
	rows = append(rows, row{key: k, title: fmt.Sprintf("%s · %s", cmp.Or(s.Name, s.SessionID[:min(8, len(s.SessionID))]), show.Count(len(list), "process")), state: s.State, why: why.Left(&s.SessionSummary, nil, at), folded: t.folded[k], usage: unknownUsage})
	if s.ListOmitted {
		rows[head].why = "too many processes for one answer: see troupe ps --session SESSION"
	}
	groups := make(map[string]bool) // that have their rows
	for _, p := range list {
		rows[head].add(p.usage)
		if rows[head].folded {
			continue
		}
		if p.info.Group == "" {
			rows = append(rows, processRow(p, 1))
			continue
		}
		if groups[p.info.Group] {
			continue
		}
		groups[p.info.Group] = true
		rows = t.group(rows, p.info.Group, list)
	}
	return rows
}

// loneRow is the row of the only process of a session, such as that of a troupe run.
func loneRow(p *process, at time.Time) row {
	r := processRow(p, 0)
	if name := p.session.Name; name != "" && name != p.Process {
		r.title = name + "/" + p.Process
	}
	r.why = why.Join(r.why, why.Left(&p.session.SessionSummary, &p.info.ProcessInfo, at))
	return r
}

// group appends the rows of a group.
func (t *table) group(rows []row, name string, list []*process) []row {
	head, n := len(rows), 0
	k := key{pick.Ref{Session: list[0].Session}, name}
	rows = append(rows, row{key: k, depth: 1, folded: t.folded[k], usage: unknownUsage})
	for _, p := range list {
		if p.info.Group != name {
			continue
		}
		n++
		rows[head].add(p.usage)
		if !rows[head].folded {
			rows = append(rows, processRow(p, 2))
		}
	}
	rows[head].title = fmt.Sprintf("group %s · %s", name, show.Count(n, "process"))
	return rows
}

func processRow(p *process, depth int) row {
	return row{key: key{Ref: p.Ref}, process: p, depth: depth, title: p.Process, state: why.State(p.info.State, p.info.Status), why: p.why, usage: p.usage}
}

func (t *table) matches(p *process) bool {
	if t.filter == "" {
		return true
	}
	want := strings.ToLower(t.filter)
	for _, text := range []string{p.Process, p.session.Name, p.Session, p.info.Group, why.State(p.info.State, p.info.Status), p.why, show.Command(p.info.Argv)} {
		if strings.Contains(strings.ToLower(text), want) {
			return true
		}
	}
	return false
}

// failed reports whether the last run of the process of the row failed.
func (r *row) failed() bool {
	return r.process != nil && r.process.info.Status != nil && r.process.info.Status.ExitCode != 0
}
