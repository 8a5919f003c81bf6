package compose

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/yamlfile"
	"github.com/b6f6fdd7/troupe/internal/show"
	"github.com/b6f6fdd7/troupe/protocol"
)

// reader reads a file into the structs with its keys, and collects the faults of the file. A person sees all faults at once.
type reader struct {
	file   string
	dir    string                      // of the file, absolute
	lookup func(string) (string, bool) // variables for ${VAR}
	merges int                         // merged mappings (<<) around the mapping under way
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

// A member is a key of a mapping, with its value.
type member struct{ key, value *yaml.Node }

// mostMerges is how deep mappings may be merged (<<) into each other. A mapping that merges itself goes beyond.
const mostMerges = 50

// members returns the members of a mapping, including the members of a merged mapping (<<).
func (r *reader) members(n *yaml.Node, what string) []member {
	n = yamlfile.Target(n)
	if yamlfile.IsNull(n) {
		return nil
	}
	if n.Kind != yaml.MappingNode {
		r.fault(n, "%s is %s, expected a mapping of names to values", what, yamlfile.Kind(n))
		return nil
	}
	if r.merges++; r.merges > mostMerges {
		r.fault(n, "<< merges a mapping into itself")
		return nil
	}
	defer func() { r.merges-- }()
	var own, merged []member
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag != "!!merge" {
			own = append(own, member{key, value})
			continue
		}
		from := []*yaml.Node{value}
		if list := yamlfile.Target(value); list.Kind == yaml.SequenceNode {
			from = list.Content
		}
		for _, one := range from {
			if yamlfile.Target(one).Kind != yaml.MappingNode {
				r.fault(one, "<< merges mappings, and this is %s", yamlfile.Kind(yamlfile.Target(one)))
				continue
			}
			merged = append(merged, r.members(one, what)...)
		}
	}
	seen := make(map[string]int)
	for _, m := range own {
		if line, twice := seen[m.key.Value]; twice {
			r.fault(m.key, "%s is there twice, also in line %d", quote(m.key.Value), line)
		}
		seen[m.key.Value] = m.key.Line
	}
	for _, m := range merged {
		if _, set := seen[m.key.Value]; !set {
			seen[m.key.Value] = m.key.Line
			own = append(own, m)
		}
	}
	return own
}

// A field is a field of a struct that a file may set.
type field struct {
	keys  []string // the first is the documented one
	value reflect.Value
	is    string // of a text: the tag is, a key of words; "": any text
	limit string // of a number: the tag range
	unit  string // of a number: the tag unit. Of a time: time or seconds
}

// fieldsOf returns the fields of a struct with the tag keys, and those of the structs embedded in it. A time is two fields: a time
// with a unit, and with keys that end in _seconds a number of seconds.
func fieldsOf(v reflect.Value) (all []field) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			all = append(all, fieldsOf(reflect.Indirect(v.Field(i)))...)
			continue
		}
		tag, known := f.Tag.Lookup("keys")
		if !known {
			continue
		}
		one := field{strings.Split(tag, ","), v.Field(i), f.Tag.Get("is"), f.Tag.Get("range"), f.Tag.Get("unit")}
		if f.Type == reflect.TypeFor[time.Duration]() || f.Type == reflect.TypeFor[*time.Duration]() {
			one.unit = "time"
		}
		all = append(all, one)
		if one.unit == "time" {
			one.keys, one.unit = strings.Split(strings.ReplaceAll(tag, ",", "_seconds,")+"_seconds", ","), "seconds"
			all = append(all, one)
		}
	}
	return all
}

// mapping reads a mapping into the struct at to, and reports whether it has no fault. what names the mapping in faults.
func (r *reader) mapping(n *yaml.Node, what string, to any) bool {
	before := len(r.errs)
	fields := fieldsOf(reflect.ValueOf(to).Elem())
	used := make(map[string]string) // by documented key
	for _, m := range r.members(n, what) {
		name := m.key.Value
		i := slices.IndexFunc(fields, func(f field) bool { return slices.Contains(f.keys, name) })
		if i < 0 {
			if !strings.HasPrefix(name, "x-") {
				r.unknown(m.key, what, fields, hints[reflect.TypeOf(to).Elem()][name])
			}
			continue
		}
		documented := fields[i].keys[0]
		if other, twice := used[documented]; twice && other != name {
			r.fault(m.key, "%s and %s mean the same: leave one out", name, other)
			continue
		}
		used[documented] = name
		if what != theFile {
			documented = what + "." + documented
		}
		r.value(m.value, documented, fields[i])
	}
	return len(r.errs) == before
}

func (r *reader) unknown(key *yaml.Node, what string, fields []field, hint string) {
	var known []string
	for _, f := range fields {
		known = append(known, f.keys...)
	}
	switch near := show.Nearest(key.Value, known); {
	case hint != "":
	case near != "":
		hint = "did you mean " + near + "?"
	default:
		hint = "the keys are " + strings.Join(known, ", ")
	}
	r.fault(key, "unknown key %s in %s: %s", quote(key.Value), what, hint)
}

// A form is a type with a form of its own in a file, or with several.
type form interface {
	read(r *reader, n *yaml.Node, what string)
}

// value reads a node into a field, and reports whether it has no fault. With a fault, a pointer stays nil.
func (r *reader) value(n *yaml.Node, what string, f field) bool {
	before := len(r.errs)
	n = yamlfile.Target(n)
	if f.value.Kind() == reflect.Pointer {
		pointer, to := f.value, reflect.New(f.value.Type().Elem())
		if f.value = to.Elem(); r.value(n, what, f) {
			pointer.Set(to)
		}
		return len(r.errs) == before
	}
	switch to := f.value.Addr().Interface().(type) {
	case form:
		to.read(r, n, what)
	case *string:
		*to = r.word(n, what, f.is)
	case *protocol.Signal:
		*to = protocol.Signal(r.word(n, what, f.is))
	case *bool:
		*to = r.boolean(n, what)
	case *time.Duration:
		*to = r.time(n, what, f.unit)
	case *int:
		*to = int(r.whole(n, what, f.limit))
	case *uint64:
		switch f.unit {
		case "bytes":
			*to = r.size(n, what)
		case "time", "seconds":
			*to = max(uint64(r.time(n, what, f.unit)/time.Second), 1)
		default:
			*to = uint64(r.whole(n, what, f.limit))
		}
	case *float64:
		*to = r.number(n, what, f.limit)
	default:
		r.mapping(n, what, to)
	}
	return len(r.errs) == before
}

func quote(s string) string { return strconv.Quote(s) }

// scalar returns the text of a value, with its variables replaced.
func (r *reader) scalar(n *yaml.Node, what string) (string, bool) {
	n = yamlfile.Target(n)
	if n.Kind != yaml.ScalarNode || yamlfile.IsNull(n) {
		r.fault(n, "%s is %s, expected a value", what, yamlfile.Kind(n))
		return "", false
	}
	text, err := substitute(n.Value, r.lookup)
	if err != nil {
		r.fault(n, "%s: %v", what, err)
		return "", false
	}
	return text, true
}

// parsed is what parse makes of the text of a value; zero, if that fails: then the fault says what was expected.
func parsed[T any](r *reader, n *yaml.Node, what, expected string, parse func(string) (T, bool)) (v T) {
	s, ok := r.scalar(n, what)
	if !ok {
		return v
	}
	if got, ok := parse(s); ok {
		return got
	}
	r.fault(n, "%s is %s, expected %s", what, quote(s), expected)
	return v
}

// word reads a text of a kind, a key of words; "": any text.
func (r *reader) word(n *yaml.Node, what, is string) string {
	if is == "" {
		s, _ := r.scalar(n, what)
		return s
	}
	return parsed(r, n, what, words[is].expected, words[is].parse)
}

func (r *reader) boolean(n *yaml.Node, what string) bool {
	return parsed(r, n, what, "true or false", func(s string) (is, ok bool) {
		switch strings.ToLower(s) {
		case "true", "yes", "on":
			return true, true
		case "false", "no", "off":
			return false, true
		}
		return false, false
	})
}

// whole reads an integer in a range, LEAST,MOST. Without MOST, the integer has no bound.
func (r *reader) whole(n *yaml.Node, what, limit string) int64 {
	from, to, bounded := strings.Cut(limit, ",")
	least, _ := strconv.ParseInt(from, 10, 64)
	most, expected := int64(math.MaxInt64), "a whole number from "+from
	if bounded {
		most, _ = strconv.ParseInt(to, 10, 64)
		expected += " to " + to
	}
	return parsed(r, n, what, expected, func(s string) (int64, bool) {
		v, err := strconv.ParseInt(strings.ReplaceAll(s, "_", ""), 0, 64)
		return v, err == nil && least <= v && v <= most
	})
}

// number reads a number in a range, LEAST,MOST.
func (r *reader) number(n *yaml.Node, what, limit string) float64 {
	from, to, _ := strings.Cut(limit, ",")
	least, _ := strconv.ParseFloat(from, 64)
	most, _ := strconv.ParseFloat(to, 64)
	return parsed(r, n, what, "a number from "+from+" to "+to, func(s string) (float64, bool) {
		v, err := strconv.ParseFloat(s, 64)
		return v, err == nil && least <= v && v <= most
	})
}

// time reads a time with a unit, or a number of seconds.
func (r *reader) time(n *yaml.Node, what, unit string) time.Duration {
	if unit == "seconds" {
		return parsed(r, n, what, "a number of seconds", func(s string) (time.Duration, bool) {
			v, err := strconv.ParseFloat(s, 64)
			return time.Duration(v * float64(time.Second)), err == nil && v >= 0 && v <= 1e9
		})
	}
	s, ok := r.scalar(n, what)
	if !ok {
		return 0
	}
	if d, err := time.ParseDuration(strings.ReplaceAll(s, " ", "")); err == nil && d >= 0 && (s == "0" || strings.ContainsAny(s, "smhµ")) {
		return d
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		r.fault(n, "%s is %s, which has no unit: write %ss, %sms or %sm", what, quote(s), s, s, s)
	} else {
		r.fault(n, "%s is %s, expected a time such as 500ms, 10s or 1m30s", what, quote(s))
	}
	return 0
}

// size reads a number of bytes. All units are powers of 1,024.
func (r *reader) size(n *yaml.Node, what string) uint64 {
	return parsed(r, n, what, "a size such as 512MiB or 2GiB", func(s string) (uint64, bool) {
		v, err := show.ParseBytes(strings.ReplaceAll(s, " ", ""))
		return v, err == nil
	})
}

// list reads a list of texts. With single, a text counts as a list with this text.
func (r *reader) list(n *yaml.Node, what string, single bool) (all []string, ok bool) {
	n = yamlfile.Target(n)
	if n.Kind == yaml.ScalarNode && single && !yamlfile.IsNull(n) {
		s, ok := r.scalar(n, what)
		return []string{s}, ok
	}
	if n.Kind != yaml.SequenceNode {
		r.fault(n, "%s is %s, expected a list", what, yamlfile.Kind(n))
		return nil, false
	}
	ok = true
	for _, one := range n.Content {
		s, fine := r.scalar(one, what)
		all, ok = append(all, s), ok && fine
	}
	return all, ok
}
