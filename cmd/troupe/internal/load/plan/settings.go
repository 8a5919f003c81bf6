package plan

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// A Setting is a member of a plan with a value other than zero. Its name is as in a profile file, such as phases[1].mix[2].every.
type Setting struct{ Name, Value string }

// Settings returns the settings of a *Plan, *Phase, *Part or *Chaos, in their order.
func Settings(of any) []Setting { return member{Value: reflect.ValueOf(of).Elem()}.settings("") }

func (m member) settings(path string) (all []Setting) {
	switch {
	case m.IsZero():
	case m.Kind() == reflect.Struct:
		for _, in := range members(m.Value) {
			all = append(all, in.settings(strings.TrimPrefix(path+"."+in.name, "."))...)
		}
	case m.Kind() == reflect.Slice:
		for i := range m.Len() {
			all = append(all, member{Value: m.Index(i)}.settings(fmt.Sprintf("%s[%d]", path, i+1))...)
		}
	default:
		all = []Setting{{path, m.text()}}
	}
	return all
}

// text returns the value of a number or text as a person writes it.
func (m member) text() string {
	switch m.tag.Get("as") {
	case "rate":
		return digits(m.Float()) + "/s"
	case "share":
		return digits(100*m.Float()) + "%"
	}
	return fmt.Sprint(m.Value)
}

// digits returns a number with 12 digits: a share of a rate, such as 0.45, may be off in the last of its 17.
func digits(v float64) string { return strconv.FormatFloat(v, 'g', 12, 64) }

// A Difference is a setting with the values A and B in two plans. "none" means: not set.
type Difference struct{ Name, A, B string }

// Differences returns the differences of two plans. Servers, pids, metrics, the program, the seed and the limits of a successful run may differ
// between runs that are comparable.
func Differences(a, b Plan) (list []Difference) {
	x, y := a.load(), b.load()
	value := func(all []Setting, name string) string {
		if i := slices.IndexFunc(all, func(s Setting) bool { return s.Name == name }); i >= 0 {
			return all[i].Value
		}
		return "none"
	}
	for _, s := range x {
		if v := value(y, s.Name); v != s.Value {
			list = append(list, Difference{s.Name, s.Value, v})
		}
	}
	for _, s := range y {
		if v := value(x, s.Name); v == "none" {
			list = append(list, Difference{s.Name, v, s.Value})
		}
	}
	return list
}

// load returns the settings of p that describe its load.
func (p Plan) load() []Setting {
	p.Servers, p.Program, p.Metrics, p.PIDs, p.Seed, p.MayMiss, p.AnswerWithin = nil, "", "", nil, 0, 0, 0
	if p.Command == nil {
		return Settings(&p)
	}
	p.Phases = slices.Clone(p.Phases)
	for i := range p.Phases {
		p.Phases[i].Mix = nil // the profiles have no meaning
	}
	return append(Settings(&p), member{Value: reflect.ValueOf(p.Command).Elem()}.settings("command")...)
}
