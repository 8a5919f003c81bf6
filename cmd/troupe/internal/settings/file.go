package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/yamlfile"
)

// value is a line of the file.
type value struct {
	key, where string
	texts      []string // of a list its elements
	isList     bool
	isMap      bool
	fault      error
}

// parse reads the text of a file: a mapping of names to values. A value is a scalar, a list of scalars, or a mapping, to be written as JSON. After a fault the other
// values are returned, too.
func parse(path string, data []byte) (all []value, err error) {
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF): // nothing but comments
		return nil, nil
	case err != nil:
		return nil, wrongYAML(path, err)
	}
	switch err := d.Decode(&more); {
	case err == nil:
		return nil, fmt.Errorf("%s:%d: a second document: remove the line ---", path, more.Line)
	case !errors.Is(err, io.EOF):
		return nil, wrongYAML(path, err)
	}
	root := doc.Content[0]
	if yamlfile.IsNull(root) {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("%s:%d: write settings as NAME: VALUE", path, root.Line)
	}
	first := make(map[string]int)
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, n := root.Content[i], root.Content[i+1]
		v := value{key: key.Value, where: fmt.Sprintf("%s:%d", path, key.Line)}
		if line := first[v.key]; line > 0 {
			err = errors.Join(err, fmt.Errorf("%s: %s is set twice: remove this line, or line %d", v.where, v.key, line))
			continue
		}
		first[v.key] = key.Line
		v.texts, v.fault = textsOf(n)
		v.isList, v.isMap = yamlfile.Target(n).Kind == yaml.SequenceNode, yamlfile.Target(n).Kind == yaml.MappingNode
		all = append(all, v)
	}
	return all, err
}

// wrongYAML says what package yaml says of a file, with the line as elsewhere.
func wrongYAML(path string, err error) error {
	line, text := yamlfile.Fault(err)
	if line > 0 {
		path = fmt.Sprintf("%s:%d", path, line)
	}
	return fmt.Errorf("%s: %s", path, text)
}

// textsOf returns a value as on the command line.
func textsOf(n *yaml.Node) (texts []string, err error) {
	switch n = yamlfile.Target(n); {
	case n.Kind == yaml.MappingNode:
		var v any
		if err := n.Decode(&v); err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
		}
		text, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("the keys of a value are names: %w", err)
		}
		return []string{string(text)}, nil
	case n.Kind == yaml.SequenceNode:
		for _, one := range n.Content {
			if one.Kind != yaml.ScalarNode {
				return nil, fmt.Errorf("line %d: an element of a list is a text", one.Line)
			}
			texts = append(texts, one.Value)
		}
		if len(texts) == 0 {
			return nil, errors.New("the list is empty: remove the line")
		}
		return texts, nil
	case n.Tag == "!!null":
		return nil, errors.New("there is no value: write one, or remove the line")
	}
	return []string{n.Value}, nil
}
