package compose

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/b6f6fdd7/troupe/internal/show"
)

// reader collects the faults of a file. A person sees all faults at once.
type reader struct {
	file   string
	lookup func(string) (string, bool) // variables for ${VAR}
	errs   Errors
}

func (r *reader) fault(n *yaml.Node, format string, args ...any) {
	e := &Error{File: r.file, Text: fmt.Sprintf(format, args...)}
	if n != nil {
		e.Line, e.Column = n.Line, n.Column
	}
	r.errs = append(r.errs, e)
}

func (r *reader) faultAt(line int, format string, args ...any) {
	r.errs = append(r.errs, &Error{File: r.file, Line: line, Text: fmt.Sprintf(format, args...)})
}

// sorted returns the faults in the order of the file; nil: there are none.
func (r *reader) sorted() error {
	if len(r.errs) == 0 {
		return nil
	}
	slices.SortStableFunc(r.errs, func(a, b *Error) int { return a.Line - b.Line })
	return r.errs
}

// field is a key of a mapping, with its value.
type field struct{ key, value *yaml.Node }

// alias returns the node an alias stands for.
func alias(n *yaml.Node) *yaml.Node {
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// fields returns the members of a mapping, including the members of a merged mapping (<<).
func (r *reader) fields(n *yaml.Node, what string) []field {
	n = alias(n)
	if n.Kind == yaml.ScalarNode && n.Tag == "!!null" {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.fault(n, "%s is %s, expected a mapping of names to values", what, kind(n))
		return nil
	}
	var own, merged []field
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag != "!!merge" {
			own = append(own, field{key, value})
			continue
		}
		from := []*yaml.Node{value}
		if list := alias(value); list.Kind == yaml.SequenceNode {
			from = list.Content
		}
		for _, one := range from {
			if alias(one).Kind != yaml.MappingNode {
				r.fault(one, "<< merges mappings, and this is %s", kind(alias(one)))
				continue
			}
			merged = append(merged, r.fields(one, what)...)
		}
	}
	seen := make(map[string]int)
	for _, f := range own {
		if line, twice := seen[f.key.Value]; twice {
			r.fault(f.key, "%s is there twice, also in line %d", quote(f.key.Value), line)
		}
		seen[f.key.Value] = f.key.Line
	}
	for _, f := range merged {
		if _, set := seen[f.key.Value]; !set {
			seen[f.key.Value] = f.key.Line
			own = append(own, f)
		}
	}
	return own
}

// A key is a known name of a mapping, with the function for its value.
type key struct {
	names []string // the first name is the documented name
	read  func(*yaml.Node)
}

// mapping reads a mapping whose keys are known. hints are the advice for unknown keys, by key.
func (r *reader) mapping(n *yaml.Node, what string, keys []key, hints map[string]string) {
	var known []string
	for _, k := range keys {
		known = append(known, k.names...)
	}
	used := make(map[string]string) // by documented name
	for _, f := range r.fields(n, what) {
		name := f.key.Value
		i := slices.IndexFunc(keys, func(k key) bool { return slices.Contains(k.names, name) })
		if i < 0 {
			if strings.HasPrefix(name, "x-") {
				continue
			}
			r.unknown(f.key, what, name, known, hints)
			continue
		}
		if other, twice := used[keys[i].names[0]]; twice && other != name {
			r.fault(f.key, "%s and %s mean the same: leave one out", name, other)
			continue
		}
		used[keys[i].names[0]] = name
		keys[i].read(f.value)
	}
}

func (r *reader) unknown(n *yaml.Node, what, name string, known []string, hints map[string]string) {
	if hint := hints[name]; hint != "" {
		r.fault(n, "unknown key %s in %s: %s", quote(name), what, hint)
	} else if near := show.Nearest(name, known); near != "" {
		r.fault(n, "unknown key %s in %s: did you mean %s?", quote(name), what, near)
	} else {
		r.fault(n, "unknown key %s in %s: the keys are %s", quote(name), what, strings.Join(known, ", "))
	}
}

func quote(s string) string { return strconv.Quote(s) }

func kind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	if n.Tag == "!!null" {
		return "empty"
	}
	return quote(n.Value)
}

// scalar returns the text of a value, with its variables replaced.
func (r *reader) scalar(n *yaml.Node, what string) (string, bool) {
	n = alias(n)
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		r.fault(n, "%s is %s, expected a value", what, kind(n))
		return "", false
	}
	text, err := substitute(n.Value, r.lookup)
	if err != nil {
		r.fault(n, "%s: %v", what, err)
		return "", false
	}
	return text, true
}

func (r *reader) text(to *string, what string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		if s, ok := r.scalar(n, what); ok {
			*to = s
		}
	}
}

func (r *reader) boolean(to *bool, what string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		s, ok := r.scalar(n, what)
		if !ok {
			return
		}
		switch strings.ToLower(s) {
		case "true", "yes", "on":
			*to = true
		case "false", "no", "off":
			*to = false
		default:
			r.fault(n, "%s is %s, expected true or false", what, quote(s))
		}
	}
}

// number reads an integer from least to most.
func (r *reader) number(n *yaml.Node, what string, least, most int64) (int64, bool) {
	s, ok := r.scalar(n, what)
	if !ok {
		return 0, false
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 0, 64)
	if err != nil || v < least || v > most {
		if most == math.MaxInt64 {
			r.fault(n, "%s is %s, expected a whole number from %d", what, quote(s), least)
		} else {
			r.fault(n, "%s is %s, expected a whole number from %d to %d", what, quote(s), least, most)
		}
		return 0, false
	}
	return v, true
}

// duration reads a time with a unit.
func (r *reader) duration(n *yaml.Node, what string) (time.Duration, bool) {
	s, ok := r.scalar(n, what)
	if !ok {
		return 0, false
	}
	if d, err := time.ParseDuration(strings.ReplaceAll(s, " ", "")); err == nil && d >= 0 && (s == "0" || strings.ContainsAny(s, "smhµ")) {
		return d, true
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		r.fault(n, "%s is %s, which has no unit: write %ss, %sms or %sm", what, quote(s), s, s, s)
	} else {
		r.fault(n, "%s is %s, expected a time such as 500ms, 10s or 1m30s", what, quote(s))
	}
	return 0, false
}

// durationKeys are the keys of a time: name with a unit, and name_seconds as a number of seconds.
func (r *reader) durationKeys(to *time.Duration, what, name string, others ...string) []key {
	var seconds []string
	for _, n := range append([]string{name}, others...) {
		seconds = append(seconds, n+"_seconds")
	}
	return []key{
		{append([]string{name}, others...), func(n *yaml.Node) {
			if d, ok := r.duration(n, what+"."+name); ok {
				*to = d
			}
		}},
		{seconds, func(n *yaml.Node) {
			s, ok := r.scalar(n, what+"."+seconds[0])
			if !ok {
				return
			}
			v, err := strconv.ParseFloat(s, 64)
			if err != nil || v < 0 || v > 1e9 {
				r.fault(n, "%s is %s, expected a number of seconds", what+"."+seconds[0], quote(s))
				return
			}
			*to = time.Duration(v * float64(time.Second))
		}},
	}
}

var sizeUnits = []struct {
	name  string
	bytes float64
}{
	{"kib", 1 << 10}, {"mib", 1 << 20}, {"gib", 1 << 30}, {"tib", 1 << 40}, {"kb", 1 << 10}, {"mb", 1 << 20}, {"gb", 1 << 30}, {"tb", 1 << 40},
	{"k", 1 << 10}, {"m", 1 << 20}, {"g", 1 << 30}, {"t", 1 << 40}, {"b", 1}, {"", 1},
}

// size reads a number of bytes. All units are powers of 1,024.
func (r *reader) size(to **uint64, what string) func(*yaml.Node) {
	return func(n *yaml.Node) {
		s, ok := r.scalar(n, what)
		if !ok {
			return
		}
		low := strings.ToLower(strings.TrimSpace(s))
		for _, u := range sizeUnits {
			digits, is := strings.CutSuffix(low, u.name)
			if !is {
				continue
			}
			v, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
			if err != nil || v < 0 || v*u.bytes > 1<<62 {
				break
			}
			bytes := uint64(v * u.bytes)
			*to = &bytes
			return
		}
		r.fault(n, "%s is %s, expected a size such as 512MiB or 2GiB", what, quote(s))
	}
}

// list reads a list of texts. With single, a text counts as a list with this text.
func (r *reader) list(n *yaml.Node, what string, single bool) (all []string, ok bool) {
	n = alias(n)
	if n.Kind == yaml.ScalarNode && single && n.Tag != "!!null" {
		s, ok := r.scalar(n, what)
		return []string{s}, ok
	}
	if n.Kind != yaml.SequenceNode {
		r.fault(n, "%s is %s, expected a list", what, kind(n))
		return nil, false
	}
	ok = true
	for _, one := range n.Content {
		s, fine := r.scalar(one, what)
		all, ok = append(all, s), ok && fine
	}
	return all, ok
}
