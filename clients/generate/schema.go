package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// schemaPath is the schema of the wire, from the root of the repository. A test in package protocol makes the schema.
const schemaPath = "docs/protocol/schema.json"

// A document is the schema of the wire.
type document struct {
	Title         string            `json:"title"`
	Types         members[schema]   `json:"$defs"`
	Methods       members[method]   `json:"x-methods"`
	Notifications members[messages] `json:"x-notifications"`
}

// messages has references to types. A notification has several if clients of different kinds get different params.
type messages struct {
	Params []string `json:"params"`
}

// A method is a row of section 21 of PROTOCOL.md. Without Result, the method is a notification of the client.
type method struct {
	messages
	Result   []string `json:"result"`
	About    string   `json:"about"`
	Observer string   `json:"observer"`
	Guest    string   `json:"guest"`
	Repeat   string   `json:"repeat"`
}

// A schema describes a type, with the keywords of JSON Schema that the wire uses.
type schema struct {
	Description     string          `json:"description"`
	Ref             string          `json:"$ref"`
	Type            types           `json:"type"`
	AnyOf           []schema        `json:"anyOf"`
	Properties      members[schema] `json:"properties"`
	Required        []string        `json:"required"`
	Items           *schema         `json:"items"`
	Additional      *additional     `json:"additionalProperties"`
	Enum            []string        `json:"enum"`     // all values
	Examples        []string        `json:"examples"` // known values; others may come
	ContentEncoding string          `json:"contentEncoding"`
}

// additional describes the values of a map. Without a schema, an object has no further members.
type additional struct{ *schema }

func (a *additional) UnmarshalJSON(text []byte) error {
	if string(text) == "false" || string(text) == "true" {
		return nil
	}
	return json.Unmarshal(text, &a.schema)
}

// types are the JSON types of a value.
type types []string

func (t *types) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, (*[]string)(t))
	}
	*t = make([]string, 1)
	return json.Unmarshal(text, &(*t)[0])
}

// members are the members of a JSON object, in the order of the text.
type members[V any] []member[V]

type member[V any] struct {
	Name  string
	Value V
}

func (m *members[V]) UnmarshalJSON(text []byte) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	if _, err := dec.Token(); err != nil {
		return err
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return err
		}
		one := member[V]{Name: name.(string)}
		if err := dec.Decode(&one.Value); err != nil {
			return fmt.Errorf("%s: %w", one.Name, err)
		}
		*m = append(*m, one)
	}
	return nil
}

// get returns the value of a member, which exists.
func (m members[V]) get(name string) *V {
	i := slices.IndexFunc(m, func(one member[V]) bool { return one.Name == name })
	return &m[i].Value
}

// read returns the schema in the repository at root.
func read(root string) (*document, error) {
	text, err := os.ReadFile(filepath.Join(root, schemaPath))
	if err != nil {
		return nil, fmt.Errorf("%w: run this command at the root of the repository", err)
	}
	doc := &document{}
	if err := json.Unmarshal(text, doc); err != nil {
		return nil, fmt.Errorf("%s: %w", schemaPath, err)
	}
	return doc, nil
}

// typeName returns the name of the type to which a reference leads.
func typeName(ref string) string { return strings.TrimPrefix(ref, "#/$defs/") }

// nullable returns s without null, and reports whether s has null.
func (s schema) nullable() (schema, bool) {
	isNull := func(t string) bool { return t == "null" }
	if i := slices.IndexFunc(s.AnyOf, func(one schema) bool { return len(one.Type) == 1 && isNull(one.Type[0]) }); i >= 0 {
		if s.AnyOf = slices.Delete(slices.Clone(s.AnyOf), i, i+1); len(s.AnyOf) == 1 {
			only := s.AnyOf[0]
			only.Description = s.Description
			return only, true
		}
		return s, true
	}
	if len(s.Type) > 1 && slices.ContainsFunc(s.Type, isNull) {
		s.Type = slices.DeleteFunc(slices.Clone(s.Type), isNull)
		return s, true
	}
	return s, false
}

// bytesIn returns the paths of the members with bytes in the types that refs name, in a form as chunks.*.chunk.
func (d *document) bytesIn(refs []string) (paths []string) {
	var walk func(s schema, path string, above []string)
	walk = func(s schema, path string, above []string) {
		s, _ = s.nullable()
		switch {
		case s.Ref != "":
			if name := typeName(s.Ref); !slices.Contains(above, name) { // a type may have members of its own type
				walk(*d.Types.get(name), path, append(slices.Clip(above), name))
			}
		case s.ContentEncoding == "base64":
			if !slices.Contains(paths, path) {
				paths = append(paths, path)
			}
		case s.Items != nil:
			walk(*s.Items, path+".*", above)
		}
		for _, one := range s.AnyOf {
			walk(one, path, above)
		}
		for _, p := range s.Properties {
			walk(p.Value, strings.TrimPrefix(path+"."+p.Name, "."), above)
		}
	}
	for _, ref := range refs {
		walk(schema{Ref: ref}, "", nil)
	}
	return paths
}
