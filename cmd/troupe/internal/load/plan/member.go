package plan

import (
	"cmp"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"github.com/b6f6fdd7/troupe/internal/show"
)

// A member is a member of a Plan, Phase, Part or Chaos, with its tags.
type member struct {
	reflect.Value
	name string
	tag  reflect.StructTag
}

// members returns the members of a struct in their order.
func members(v reflect.Value) (all []member) {
	for i := range v.NumField() {
		if tag := v.Type().Field(i).Tag; tag.Get("yaml") != "-" {
			all = append(all, member{v.Field(i), tag.Get("yaml"), tag})
		}
	}
	return all
}

// find returns the member of a struct with a name.
func find(v reflect.Value, name string) (m member, known bool) {
	for _, m := range members(v) {
		if m.name == name {
			return m, true
		}
	}
	return member{}, false
}

// names returns the names of all members of a struct.
func names(v reflect.Value) (all []string) {
	for _, m := range members(v) {
		all = append(all, m.name)
	}
	return all
}

// isText reports whether a person may write the member as a text, as on the command line.
func (m member) isText() bool {
	switch m.Addr().Interface().(type) {
	case *[]Part, *Chaos, *[]string:
		return true
	}
	return m.Kind() != reflect.Struct && m.Kind() != reflect.Slice
}

// set reads a text into a member. what names the member in errors.
func (m member) set(text, what string) (err error) {
	switch to := m.Addr().Interface().(type) {
	case *[]Part:
		*to, err = ParseMix(text)
	case *Chaos:
		*to, err = ParseChaos(text)
	case *[]string:
		*to = []string{text}
	default:
		if expected, err := m.scalar(text); err != nil {
			return fmt.Errorf("%s is %q, expected %s", what, text, expected)
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// scalar reads a text into a number, a duration, a text or true and false. expected describes the right texts, also without an error.
func (m member) scalar(text string) (expected string, err error) {
	switch m.tag.Get("as") {
	case "bytes":
		n, err := show.ParseBytes(strings.TrimSuffix(text, "/s"))
		m.SetInt(int64(n))
		return "a number of bytes such as 200, 4K or 1M", err
	case "rate":
		f, err := ParseRate(text)
		m.SetFloat(f)
		return aRate, err
	case "share":
		f, err := ParseShare(text)
		m.SetFloat(f)
		return aShare, err
	}
	switch to := m.Addr().Interface().(type) {
	case *Duration:
		return "a duration such as 30s", to.UnmarshalText([]byte(text))
	case *bool:
		*to, err = strconv.ParseBool(text)
		return "true or false", err
	case *uint64:
		*to, err = strconv.ParseUint(text, 10, 64)
		return "a whole number", err
	case *int:
		*to, err = strconv.Atoi(text)
		return "a whole number", err
	}
	m.SetString(text)
	return "a text", nil
}

// faults returns an error for each member of a struct with a number out of its range. prefix stands before the names.
func faults(of any, prefix string) (errs []error) {
	for _, m := range members(reflect.ValueOf(of).Elem()) {
		low, ranged := m.limit("min")
		high, _ := m.limit("max")
		if !ranged || atMost(low, m.Value) && atMost(m.Value, high) {
			continue
		}
		is := cmp.Or(m.tag.Get("is"), m.tag.Get("min")+" to "+m.tag.Get("max"))
		errs = append(errs, fmt.Errorf("%s%s is %v, expected %s", prefix, m.name, m.Value, is))
	}
	return errs
}

// limit returns the value of the tag min or max.
func (m member) limit(tag string) (v reflect.Value, ok bool) {
	text, ok := m.tag.Lookup(tag)
	if !ok {
		return reflect.Value{}, false
	}
	l := member{reflect.New(m.Type()).Elem(), m.name, m.tag}
	if err := l.set(text, tag); err != nil {
		panic(err)
	}
	return l.Value, true
}

// atMost reports whether a is at most b. NaN is not.
func atMost(a, b reflect.Value) bool {
	if a.CanFloat() {
		return a.Float() <= b.Float()
	}
	return a.Int() <= b.Int()
}
