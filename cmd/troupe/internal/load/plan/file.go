package plan

import (
	"errors"
	"fmt"
	"reflect"

	"go.yaml.in/yaml/v3"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/yamlfile"
)

// Read reads a profile file over p: what the file leaves out stays as it is. The error names the path and the line of each fault.
func Read(path string, p *Plan) error {
	data, err := yamlfile.Read(path)
	if err != nil {
		return err
	}
	return Parse(data, path, p)
}

// Parse is Read for a file that is in memory.
func Parse(data []byte, path string, p *Plan) error {
	var doc yaml.Node
	if err := yaml.Unmarshal(data, &doc); err != nil {
		line, text := yamlfile.Fault(err)
		if line > 0 {
			path = fmt.Sprintf("%s:%d", path, line)
		}
		return fmt.Errorf("%s: this is no YAML: %s", path, text)
	}
	if len(doc.Content) == 0 {
		return fmt.Errorf("%s is empty: write phases:, with a duration and a mix for each", path)
	}
	r := &reader{path: path}
	r.value(doc.Content[0], member{Value: reflect.ValueOf(p).Elem()}, "the file")
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
	m, known := find(reflect.ValueOf(p).Elem(), name)
	if !known {
		return false, nil
	}
	return true, m.set(text, what)
}

// value reads a node into m. what names it for errors.
func (r *reader) value(n *yaml.Node, m member, what string) {
	for n.Kind == yaml.AliasNode {
		if r.deep++; r.deep > 1000 {
			r.fault(n, "more than 1000 aliases")
			return
		}
		n = n.Alias
	}
	switch isScalar := n.Kind == yaml.ScalarNode; {
	case isScalar && m.isText():
		if err := m.set(n.Value, what); err != nil {
			r.fault(n, "%v", err)
		}
	case m.Kind() == reflect.Struct:
		r.members(n, m.Value, what)
	case m.Kind() == reflect.Slice:
		if n.Kind != yaml.SequenceNode {
			r.fault(n, "%s is %s, expected a list", what, yamlfile.Kind(n))
			return
		}
		list := reflect.MakeSlice(m.Type(), len(n.Content), len(n.Content))
		for i, one := range n.Content {
			r.value(one, member{Value: list.Index(i)}, fmt.Sprintf("%s[%d]", what, i+1))
		}
		m.Set(list)
	default:
		expected, _ := m.scalar("")
		r.fault(n, "%s is %s, expected %s", what, yamlfile.Kind(n), expected)
	}
}

// members reads a mapping into a struct.
func (r *reader) members(n *yaml.Node, v reflect.Value, what string) {
	if n.Kind != yaml.MappingNode {
		r.fault(n, "%s is %s, expected names with values", what, yamlfile.Kind(n))
		return
	}
	seen := make(map[string]int)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if line, twice := seen[key.Value]; twice {
			r.fault(key, "%q is there twice, also in line %d", key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		m, known := find(v, key.Value)
		if !known {
			r.fault(key, "%s has no %q: %s", what, key.Value, instead(key.Value, names(v)))
			continue
		}
		in := key.Value
		if what != "the file" {
			in = what + "." + in
		}
		r.value(value, m, in)
	}
}
