package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// pyWidth is the longest line of a comment in Python.
const pyWidth = 120

// python writes the types of the wire for Python: a TypedDict for each object, the overloads of Client.call, and the tables of members that are
// bytes. In JSON such members are base64.
func python(d *document) []byte {
	w := &pyWriter{}
	w.line(`# Made by "go run ./clients/generate" from docs/protocol/schema.json. Do not edit.`)
	w.line(`"""The types of the wire, as docs/PROTOCOL.md describes it.`)
	w.line(``)
	w.line(`Each object of the wire is a TypedDict. Members that are bytes are bytes here: the client translates base64.`)
	w.line(`"""`)
	w.line(``)
	w.line(`from __future__ import annotations`)
	w.line(``)
	w.line(`from typing import Any, Dict, List, Literal, Mapping, Optional, Tuple, TypedDict, Union, overload`)
	for _, m := range d.Types { // Python evaluates aliases at once, so they come first
		if !slices.Contains(m.Value.Type, "object") {
			w.alias(m.Name, m.Value)
		}
	}
	for _, m := range d.Types {
		if slices.Contains(m.Value.Type, "object") {
			w.object(m.Name, m.Value)
		}
	}
	w.calls(d)
	w.tables(d)
	return w.Bytes()
}

type pyWriter struct{ bytes.Buffer }

func (w *pyWriter) line(text string) { w.WriteString(text + "\n") }

// comment writes text in lines that begin with prefix.
func (w *pyWriter) comment(prefix, text string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(prefix)+len(line)+1+len(word) > pyWidth {
			w.line(prefix + line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	if line != "" {
		w.line(prefix + line)
	}
}

func (w *pyWriter) alias(name string, s schema) {
	w.line("")
	w.comment("#: ", s.Description)
	text := name + " = " + pyType(s)
	if len(text) <= pyWidth {
		w.line(text)
		return
	}
	begin := strings.Index(text, "Literal[") + len("Literal[")
	end := begin + strings.Index(text[begin:], "]")
	w.line(text[:begin])
	for _, word := range strings.Split(text[begin:end], ", ") {
		w.line("    " + word + ",")
	}
	w.line(text[end:])
}

// pyType returns the type of a value in Python.
func pyType(s schema) string {
	s, null := s.nullable()
	text := pyTypeNotNull(s)
	if null {
		return "Optional[" + text + "]"
	}
	return text
}

func pyTypeNotNull(s schema) string {
	var all []string
	switch {
	case s.Ref != "":
		return typeName(s.Ref)
	case s.ContentEncoding == "base64":
		return "bytes"
	case len(s.Enum) > 0:
		return "Literal[" + pyQuoted(s.Enum) + "]"
	case len(s.Examples) > 0:
		return "Union[Literal[" + pyQuoted(s.Examples) + "], str]"
	}
	for _, one := range s.AnyOf {
		all = append(all, pyType(one))
	}
	for _, t := range s.Type {
		switch t {
		case "array":
			items := schema{}
			if s.Items != nil {
				items = *s.Items
			}
			all = append(all, "List["+pyType(items)+"]")
		case "object":
			values := schema{}
			if s.Additional != nil && s.Additional.schema != nil {
				values = *s.Additional.schema
			}
			all = append(all, "Dict[str, "+pyType(values)+"]")
		default:
			all = append(all, map[string]string{"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}[t])
		}
	}
	return pyUnion(all)
}

// pyUnion returns the type of a value that has one of several types.
func pyUnion(all []string) string {
	switch len(all) {
	case 0:
		return "Any"
	case 1:
		return all[0]
	}
	return "Union[" + strings.Join(all, ", ") + "]"
}

func pyQuoted(words []string) string { return `"` + strings.Join(words, `", "`) + `"` }

// object writes a TypedDict. The members that are always there have a class of their own, because Python 3.9 has no NotRequired.
func (w *pyWriter) object(name string, s schema) {
	var always, maybe members[schema]
	for _, m := range s.Properties {
		if slices.Contains(s.Required, m.Name) {
			always = append(always, m)
		} else {
			maybe = append(maybe, m)
		}
	}
	switch {
	case len(maybe) == 0:
		w.class(name, "TypedDict", s.Description, always)
	case len(always) == 0:
		w.class(name, "TypedDict, total=False", s.Description, maybe)
	default:
		w.class("_"+name, "TypedDict", "", always)
		w.class(name, "_"+name+", total=False", s.Description, maybe)
	}
}

func (w *pyWriter) class(name, base, description string, of members[schema]) {
	w.line("\n")
	if slices.ContainsFunc(of, func(m member[schema]) bool { return pyKeyword[m.Name] }) {
		w.line(name + " = TypedDict(")
		w.line(fmt.Sprintf("    %q,", name))
		w.line("    {")
		for _, m := range of {
			w.comment("        #: ", m.Value.Description)
			w.line(fmt.Sprintf("        %q: %q,", m.Name, pyType(m.Value)))
		}
		w.line("    },")
		w.line(")")
		return
	}
	w.line("class " + name + "(" + base + "):")
	if description != "" {
		w.comment("    ", `"""`+strings.ReplaceAll(description, `\`, `\\`)+`"""`)
	}
	for i, m := range of {
		if i > 0 || description != "" {
			w.line("")
		}
		w.comment("    #: ", m.Value.Description)
		w.line("    " + m.Name + ": " + pyType(m.Value))
	}
	if len(of) == 0 && description == "" {
		w.line("    pass")
	}
}

// pyKeyword has the names that no member of a class can have.
var pyKeyword = map[string]bool{"for": true, "from": true, "class": true, "global": true, "import": true, "in": true, "is": true, "not": true, "pass": true, "with": true}

// calls writes the overloads of call, one for each method.
func (w *pyWriter) calls(d *document) {
	w.line("\n\nclass Calls:")
	w.line(`    """Calls has the method call with the types of each method of the wire."""`)
	for _, m := range d.Methods {
		if len(m.Value.Result) == 0 { // a notification
			continue
		}
		params := "params: " + pyTypes(m.Value.Params)
		if !slices.ContainsFunc(m.Value.Params, func(ref string) bool { return len(d.Types.get(typeName(ref)).Required) > 0 }) {
			params = "params: Optional[" + pyTypes(m.Value.Params) + "] = None"
		}
		w.line("\n    @overload")
		w.line(fmt.Sprintf("    async def call(self, method: Literal[%q], %s) -> %s: ...", m.Name, params, pyTypes(m.Value.Result)))
	}
	w.line("\n    async def call(self, method: str, params: Any = None) -> Any:")
	w.line(`        """Sends a request with a method of the wire, and waits for the result, over any number of cuts."""`)
	w.line("        return await self.request(method, params)")
	w.line("\n    async def request(self, method: str, params: Optional[Mapping[str, Any]] = None) -> Any:")
	w.line(`        """Is call for a method of a newer server, without types."""`)
	w.line("        raise NotImplementedError")
}

// pyTypes returns the union of the types that refs name.
func pyTypes(refs []string) string {
	var all []string
	for _, ref := range refs {
		all = append(all, typeName(ref))
	}
	return pyUnion(all)
}

// tables writes the paths of the members with bytes, by method.
func (w *pyWriter) tables(d *document) {
	w.line("\n\n# The members of results that are bytes, by method, as paths: * is each element of a list.")
	w.line("RESULTS: Dict[str, Tuple[Tuple[str, ...], ...]] = {")
	for _, m := range d.Methods {
		w.paths(m.Name, d.bytesIn(m.Value.Result))
	}
	w.line("}\n\n# The members of notifications that are bytes, by method.")
	w.line("NOTIFICATIONS: Dict[str, Tuple[Tuple[str, ...], ...]] = {")
	for _, m := range d.Notifications {
		w.paths(m.Name, d.bytesIn(m.Value.Params))
	}
	w.line("}")
}

func (w *pyWriter) paths(name string, paths []string) {
	if len(paths) == 0 {
		return
	}
	w.WriteString(fmt.Sprintf("    %q: (", name))
	for _, path := range paths {
		w.WriteString("(" + pyQuoted(strings.Split(path, ".")) + ",), ")
	}
	w.Truncate(w.Len() - 1)
	w.line("),")
}
