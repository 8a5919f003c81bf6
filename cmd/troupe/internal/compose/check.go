package compose

import (
	"fmt"
	"slices"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// check finds faults between programs, and chooses the conditions missing in the file.
func (r *reader) check(p *Project) {
	ids := make(map[string]*Program)
	for _, one := range p.Programs {
		for _, u := range one.Units() {
			if other := ids[u.ID]; other != nil {
				r.faultAt(one.Line, "the replica %s of %s has the name of a process in line %d: rename one", u.ID, one.Name, other.Line)
			}
			ids[u.ID] = one
		}
	}
	awaited := make(map[*Program]map[string]Dependency) // by program and condition: a program that waits
	for _, one := range p.Programs {
		seen := make(map[string]bool)
		for i := range one.DependsOn {
			d := &one.DependsOn[i]
			on := p.Program(d.Name)
			switch {
			case on == nil:
				hint := ""
				if near := show.Nearest(d.Name, p.names()); near != "" {
					hint = ": did you mean " + near + "?"
				}
				r.faultAt(d.Line, "%s depends on %s, which is not a process of this file%s", one.Name, quote(d.Name), hint)
				continue
			case seen[d.Name]:
				r.faultAt(d.Line, "%s depends on %s twice", one.Name, d.Name)
				continue
			case on.Disabled && !one.Disabled:
				r.faultAt(d.Line, "%s depends on %s, which is disabled: enable it, or remove the dependency", one.Name, d.Name)
			}
			seen[d.Name] = true
			if d.Condition == "" {
				if d.Condition = Started; on.Ready != nil {
					d.Condition = Healthy
				}
			}
			switch {
			case d.Condition == Healthy && on.Ready == nil:
				r.faultAt(d.Line, "%s waits until %s is healthy, but %s has no readiness_probe", one.Name, d.Name, d.Name)
			case d.Condition == Started && on.Ready != nil:
				r.faultAt(d.Line, "%s waits for %s with %s, but %s has a readiness_probe, and a process with one always makes others wait until it is ready: write %s", one.Name, d.Name, Started, d.Name, Healthy)
			case d.Condition == Completed && on.Ready != nil:
				r.faultAt(d.Line, "%s waits until %s has completed, but %s has a readiness_probe: leave that out", one.Name, d.Name, d.Name)
			case d.Condition == Completed && on.Restart.Policy == "permanent":
				r.faultAt(d.Line, "%s waits until %s has completed, but %s is always restarted: write restart: on_failure", one.Name, d.Name, d.Name)
			}
			if awaited[on] == nil {
				awaited[on] = make(map[string]Dependency)
			}
			awaited[on][d.Condition] = Dependency{one.Name, d.Condition, d.Line}
		}
	}
	for on, how := range awaited {
		if started, done := how[Started], how[Completed]; started.Name != "" && done.Name != "" {
			r.faultAt(started.Line, "%s waits until %s has started, and %s until it has completed (line %d): let both wait for the same", started.Name, on.Name, done.Name, done.Line)
		}
	}
	if len(r.errs) > 0 {
		return
	}
	if _, circle := p.sort(); circle != nil {
		r.faultAt(circle[0].Line, "processes depend on each other in a circle: %s", strings.Join(append(namesOf(circle), circle[0].Name), " → "))
	}
	for _, one := range p.Programs {
		if p.completes(one) {
			one.Ready = &protocol.Ready{Exit: true}
		}
	}
}

// completes reports whether another program waits for the success of the program on.
func (p *Project) completes(on *Program) bool {
	return slices.ContainsFunc(p.Programs, func(o *Program) bool {
		return slices.ContainsFunc(o.DependsOn, func(d Dependency) bool { return d.Name == on.Name && d.Condition == Completed })
	})
}

func (p *Project) names() []string { return namesOf(p.Programs) }

func namesOf(programs []*Program) (all []string) {
	for _, p := range programs {
		all = append(all, p.Name)
	}
	return all
}

// Order returns the programs in start order: dependencies first, otherwise the order of the file.
func (p *Project) Order() []*Program {
	order, _ := p.sort()
	return order
}

// sort returns the start order, or a circle of programs depending on each other.
func (p *Project) sort() (order, circle []*Program) {
	const open, done = 1, 2
	state := make(map[*Program]int)
	var path []*Program
	var visit func(*Program) bool
	visit = func(one *Program) bool {
		switch state[one] {
		case done:
			return true
		case open:
			circle = slices.Clone(path[slices.Index(path, one):])
			return false
		}
		state[one] = open
		path = append(path, one)
		for _, d := range one.DependsOn {
			if on := p.Program(d.Name); on != nil && !visit(on) {
				return false
			}
		}
		path = path[:len(path)-1]
		state[one] = done
		order = append(order, one)
		return true
	}
	for _, one := range p.Programs {
		if !visit(one) {
			return nil, circle
		}
	}
	return order, nil
}

// Select returns the programs to start and their dependencies, in start order. With names, Select takes the named
// programs. Without names, Select takes all programs of the namespaces; without namespaces, all programs. A disabled
// program is taken only if a name or a dependency names the program.
func (p *Project) Select(names, namespaces []string) ([]*Program, error) {
	wanted := make(map[*Program]bool)
	var add func(*Program)
	add = func(one *Program) {
		if wanted[one] {
			return
		}
		wanted[one] = true
		for _, d := range one.DependsOn {
			add(p.Program(d.Name))
		}
	}
	var spaces []string
	for _, one := range p.Programs {
		if !slices.Contains(spaces, one.Namespace) {
			spaces = append(spaces, one.Namespace)
		}
		if len(names) == 0 && !one.Disabled && (len(namespaces) == 0 || slices.Contains(namespaces, one.Namespace)) {
			add(one)
		}
	}
	for _, name := range names {
		one := p.Program(name)
		if one == nil {
			return nil, fmt.Errorf("%s has no process %s; it has %s", p.File, quote(name), strings.Join(p.names(), ", "))
		}
		add(one)
	}
	for _, space := range namespaces {
		if !slices.Contains(spaces, space) {
			return nil, fmt.Errorf("%s has no namespace %s; it has %s", p.File, quote(space), strings.Join(spaces, ", "))
		}
	}
	return slices.DeleteFunc(p.Order(), func(one *Program) bool { return !wanted[one] }), nil
}
