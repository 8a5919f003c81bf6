package plan

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/b6f6fdd7/troupe/internal/show"
)

// maxFile is how long a profile file may be, in bytes.
const maxFile = 1 << 20

// Read reads a profile file over p: what the file leaves out stays as it is. The error names the path and the line of each fault.
func Read(path string, p *Plan) error {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a directory: name a file", path)
	case info.Size() > maxFile:
		return fmt.Errorf("%s has %d bytes, and the limit is %d", path, info.Size(), maxFile)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	return Parse(data, path, p)
}

var yamlLine = regexp.MustCompile(`^yaml: (?:unmarshal errors:\n)?\s*line (\d+): `)

// Parse is Read for a file that is in memory.
func Parse(data []byte, path string, p *Plan) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		text, line := strings.TrimPrefix(err.Error(), "yaml: "), ""
		if m := yamlLine.FindStringSubmatch(err.Error()); m != nil {
			text, line = err.Error()[len(m[0]):], ":"+m[1]
		}
		return fmt.Errorf("%s%s: this is no YAML: %s", path, line, text)
	}
	if len(doc.Content) == 0 {
		return fmt.Errorf("%s is empty: write phases:, with a duration and a mix for each", path)
	}
	r := &reader{path: path}
	r.value(doc.Content[0], reflect.ValueOf(p).Elem(), "the file")
	return errors.Join(r.errs...)
}

// A reader collects the faults of a file: a person sees all faults at once.
type reader struct {
	path string
	errs []error
	deep int // of aliases
}

func (r *reader) fault(n *yaml.Node, format string, a ...any) {
	r.errs = append(r.errs, fmt.Errorf("%s:%d: %s", r.path, n.Line, fmt.Sprintf(format, a...)))
}

// Set reads text into a member of p, which has the name that it has in a profile file. known is false if there is none. what names the member
// in errors.
func (p *Plan) Set(name, text, what string) (known bool, err error) {
	_, fields := members(reflect.ValueOf(p).Elem())
	field, known := fields[name]
	if !known {
		return false, nil
	}
	return true, fromText(text, field, what)
}

// texts are the types that a person may write as text, as on the command line.
var texts = map[reflect.Type]func(string) (any, error){
	reflect.TypeFor[[]Part]():   func(s string) (any, error) { return ParseMix(s) },
	reflect.TypeFor[Chaos]():    func(s string) (any, error) { return ParseChaos(s) },
	reflect.TypeFor[[]string](): func(s string) (any, error) { return []string{s}, nil },
}

// value reads a node into v. what names it for errors.
func (r *reader) value(n *yaml.Node, v reflect.Value, what string) {
	for n.Kind == yaml.AliasNode {
		if r.deep++; r.deep > 1000 {
			r.fault(n, "more than 1000 aliases")
			return
		}
		n = n.Alias
	}
	isText := n.Kind == yaml.ScalarNode && texts[v.Type()] != nil
	switch {
	case v.Kind() == reflect.Struct && !isText:
		r.members(n, v, what)
	case v.Kind() == reflect.Slice && !isText:
		if n.Kind != yaml.SequenceNode {
			r.fault(n, "%s is %s, expected a list", what, kind(n))
			return
		}
		list := reflect.MakeSlice(v.Type(), 0, len(n.Content))
		for i, one := range n.Content {
			e := reflect.New(v.Type().Elem()).Elem()
			r.value(one, e, fmt.Sprintf("%s[%d]", what, i+1))
			list = reflect.Append(list, e)
		}
		v.Set(list)
	default:
		if n.Kind != yaml.ScalarNode {
			r.fault(n, "%s is %s, expected %s", what, kind(n), expected(v))
			return
		}
		if err := fromText(n.Value, v, what); err != nil {
			r.fault(n, "%v", err)
		}
	}
}

// members reads a mapping into a struct.
func (r *reader) members(n *yaml.Node, v reflect.Value, what string) {
	if n.Kind != yaml.MappingNode {
		r.fault(n, "%s is %s, expected names with values", what, kind(n))
		return
	}
	names, fields := members(v)
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if line, twice := seen[key.Value]; twice {
			r.fault(key, "%q is there twice, also in line %d", key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		field, known := fields[key.Value]
		if !known {
			r.unknown(key, names, what)
			continue
		}
		in := key.Value
		if what != "the file" {
			in = what + "." + in
		}
		r.value(value, field, in)
	}
}

// members returns the members that a person may write, by their names.
func members(v reflect.Value) (names []string, fields map[string]reflect.Value) {
	fields = make(map[string]reflect.Value)
	for i := range v.NumField() {
		if name := v.Type().Field(i).Tag.Get("yaml"); name != "-" {
			fields[name] = v.Field(i)
			names = append(names, name)
		}
	}
	return names, fields
}

func (r *reader) unknown(key *yaml.Node, names []string, what string) {
	if near := show.Nearest(key.Value, names); near != "" {
		r.fault(key, "%s has no %q: did you mean %s?", what, key.Value, near)
		return
	}
	slices.Sort(names)
	r.fault(key, "%s has no %q: there are %s", what, key.Value, strings.Join(names, ", "))
}

// fromText reads a text into v: one of texts, or a scalar.
func fromText(text string, v reflect.Value, what string) error {
	parse := texts[v.Type()]
	if parse == nil {
		return scalar(text, v, what)
	}
	got, err := parse(text)
	if err != nil {
		return named(what, err)
	}
	v.Set(reflect.ValueOf(got))
	return nil
}

// scalar reads a text into v, which is no list and no struct.
func scalar(text string, v reflect.Value, what string) error {
	wrong := fmt.Errorf("%s is %q, expected %s", what, text, expected(v))
	switch to := v.Addr().Interface().(type) {
	case *Duration:
		if to.UnmarshalText([]byte(text)) != nil {
			return wrong
		}
		return nil
	case *bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return wrong
		}
		*to = b
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		if strings.HasSuffix(what, "size") || strings.HasSuffix(what, "speed") {
			n, err := show.ParseBytes(strings.TrimSuffix(text, "/s"))
			v.SetInt(int64(n))
			return named(what, err)
		}
		i, err := strconv.ParseInt(text, 10, v.Type().Bits())
		if err != nil {
			return wrong
		}
		v.SetInt(i)
	case reflect.Uint64:
		u, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return wrong
		}
		v.SetUint(u)
	case reflect.Float64:
		if strings.HasSuffix(what, "loss") || strings.HasSuffix(what, "may-miss") {
			f, err := ParseShare(text, what)
			v.SetFloat(f)
			return err
		}
		f, err := strconv.ParseFloat(text, 64)
		if err != nil {
			if f, err = ParseRate(text); err != nil {
				return wrong
			}
		}
		v.SetFloat(f)
	default:
		panic("plan: no reader for " + v.Type().String())
	}
	return nil
}

// expected says what a person writes for a value of this type.
func expected(v reflect.Value) string {
	switch v.Interface().(type) {
	case Duration:
		return "a duration such as 30s"
	case bool:
		return "true or false"
	}
	switch v.Kind() {
	case reflect.String:
		return "a text"
	case reflect.Float64:
		return "a number, or a rate such as 20/s"
	}
	return "a whole number"
}

func kind(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "a mapping"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.Tag == "!!null":
		return "empty"
	}
	return strconv.Quote(n.Value)
}
