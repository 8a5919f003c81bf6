//go:build unix

package protocol_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/peer"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/google/jsonschema-go/jsonschema"
)

var update = flag.Bool("update", false, "write docs/protocol/schema.json")

// TestSchema compares docs/protocol/schema.json with the types of this package and the table of methods.
func TestSchema(t *testing.T) {
	const path = "../docs/protocol/schema.json"
	var want bytes.Buffer
	enc := json.NewEncoder(&want)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	if err := enc.Encode(newGenerator(t).document()); err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, want.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want.Bytes()) {
		t.Errorf("%s is not the schema of the types (%v): run this test with -update, and look at the difference", path, err)
	}
}

// generator makes a JSON Schema (draft 2020-12) of Go types, by the rules of value.go.
type generator struct {
	t         *testing.T
	members   map[string]string     // names of fields ("Size.Rows", and "Rows"), as on the wire
	docs      map[string]string     // of types ("Size") and fields ("Size.Rows")
	constants map[string][]string   // the names of the constants of a string type, in the order of the sources
	values    map[string]string     // of these constants
	same      map[string]string     // constants that have the value of another one
	asked     map[reflect.Type]bool // types of which clients send values
	defs      map[string]*jsonschema.Schema
	rawsSeen  map[string]bool // keys of RawMembers
}

func newGenerator(t *testing.T) *generator {
	g := &generator{t: t, docs: make(map[string]string), members: make(map[string]string), constants: make(map[string][]string), values: make(map[string]string), same: make(map[string]string),
		asked: make(map[reflect.Type]bool), defs: make(map[string]*jsonschema.Schema), rawsSeen: make(map[string]bool)}
	paths, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			if d, ok := d.(*ast.GenDecl); ok {
				g.read(d)
			}
		}
	}
	return g
}

// read notes the comments of types and fields, and the constants of strings.
func (g *generator) read(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		switch spec := spec.(type) {
		case *ast.TypeSpec:
			g.docs[spec.Name.Name] = cleaned(spec.Doc)
			if !d.Lparen.IsValid() {
				g.docs[spec.Name.Name] = cleaned(d.Doc)
			}
			if body, ok := spec.Type.(*ast.StructType); ok {
				g.readFields(spec.Name.Name, body)
			}
		case *ast.ValueSpec:
			if d.Tok == token.CONST && len(spec.Values) == 1 {
				g.readConstant(spec.Names[0].Name, spec.Type, spec.Values[0])
			}
		}
	}
}

func (g *generator) readFields(owner string, body *ast.StructType) {
	for _, f := range body.Fields.List {
		for _, name := range f.Names {
			key := owner + "." + name.Name
			g.docs[key] = cleaned(f.Doc, f.Comment)
			if f.Tag != nil {
				member, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
				g.members[key], g.members[name.Name] = member, member
			}
		}
	}
}

// readConstant notes a constant: NAME = "value", NAME TYPE = "value", or NAME = TYPE(value), where value may be another constant.
func (g *generator) readConstant(name string, typ, value ast.Expr) {
	if conversion, ok := value.(*ast.CallExpr); ok && typ == nil && len(conversion.Args) == 1 {
		typ, value = conversion.Fun, conversion.Args[0]
	}
	switch value := value.(type) {
	case *ast.BasicLit:
		if value.Kind != token.STRING {
			return
		}
		g.values[name], _ = strconv.Unquote(value.Value)
	case *ast.Ident:
		g.same[name] = value.Name
	default:
		return
	}
	if of, ok := typ.(*ast.Ident); ok {
		g.constants[of.Name] = append(g.constants[of.Name], name)
	}
}

// describe returns the comment of a type or field, with the names of members and values instead of those of Go. A name that could be
// an English word stays, unless the field is of the same type.
func (g *generator) describe(owner, key string) string {
	return aName.ReplaceAllStringFunc(g.docs[key], func(word string) string {
		if value, ok := g.values[cmp.Or(g.same[word], word)]; ok {
			return "`" + value + "`"
		}
		member, ok := g.members[owner+"."+word]
		if !ok && strings.ToLower(word[1:]) != word[1:] {
			member, ok = g.members[word]
		}
		if ok {
			return "`" + member + "`"
		}
		return word
	})
}

var (
	aName      = regexp.MustCompile(`\b[A-Z]\w+\b`)
	aNil       = regexp.MustCompile(`\b[Nn]il\b`)
	aReference = regexp.MustCompile(`\s*\((?:[a-z-]+ wire §[0-9., §and]+|Ours)[^)]*\)`)
)

// cleaned is a comment for readers who do not know Go: they see no nil, and the names of fields as members.
func cleaned(comments ...*ast.CommentGroup) string {
	var text []string
	for _, c := range comments {
		if c != nil {
			text = append(text, strings.Join(strings.Fields(c.Text()), " "))
		}
	}
	return aReference.ReplaceAllString(aNil.ReplaceAllString(strings.Join(text, " "), "absent"), "")
}

// document is the whole schema: what a message may be, the types in it, and facts about methods.
func (g *generator) document() *jsonschema.Schema {
	rows := peer.Methods.Rows()
	for _, r := range rows {
		for _, p := range r.Params {
			g.mark(reflect.TypeOf(p))
		}
	}
	id := &jsonschema.Schema{Types: []string{"string", "integer"}}
	var messages []*jsonschema.Schema
	methods := make(map[string]any)
	for _, r := range rows {
		about := map[string]any{"about": r.About, "observer": r.Observer, "guest": r.Guest, "repeat": r.Repeat, "params": g.refs(r.Params)}
		members := map[string]*jsonschema.Schema{"method": constant(r.Name), "params": g.anyOf(r.Params)}
		required := []string{"method"}
		if r.Results != nil {
			about["result"] = g.refs(r.Results)
			members["id"], required = id, []string{"id", "method"}
		}
		if slices.ContainsFunc(r.Params, func(p any) bool { return len(g.required(reflect.TypeOf(p))) > 0 }) {
			required = append(required, "params")
		} else {
			members["params"] = orNull(members["params"])
		}
		methods[r.Name] = about
		messages = append(messages, object(members, required))
	}
	notifications := make(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(protocol.Notifications)) {
		params := protocol.Notifications[name]
		notifications[name] = map[string]any{"params": g.refs(params)}
		messages = append(messages, object(map[string]*jsonschema.Schema{"method": constant(name), "params": g.anyOf(params)}, []string{"method", "params"}))
	}
	messages = append(messages,
		object(map[string]*jsonschema.Schema{"id": id, "result": {Description: "of the type that x-methods names"}}, []string{"id", "result"}),
		object(map[string]*jsonschema.Schema{"id": id, "error": g.of(reflect.TypeFor[protocol.Error]())}, []string{"id", "error"}))
	for member := range protocol.RawMembers {
		if !g.rawsSeen[member] {
			g.t.Errorf("RawMembers has %s, which no type of the wire has", member)
		}
	}
	return &jsonschema.Schema{
		Schema: "https://json-schema.org/draft/2020-12/schema",
		Title:  "The wire of troupe: " + protocol.Version,
		Description: "A message of a client or of the server. x-methods and x-notifications name the types of params and results, which are in $defs; " +
			"the columns are those of section 21 of PROTOCOL.md. A receiver ignores members that it does not know, unless additionalProperties forbids them. Made from the sources by a test.",
		AnyOf: messages,
		Defs:  g.defs,
		Extra: map[string]any{"x-methods": methods, "x-notifications": notifications},
	}
}

func constant(v any) *jsonschema.Schema { return &jsonschema.Schema{Const: &v} }

func object(members map[string]*jsonschema.Schema, required []string) *jsonschema.Schema {
	return &jsonschema.Schema{Type: "object", Properties: members, Required: required}
}

var ofWire = reflect.TypeFor[protocol.Error]().PkgPath()

// ignored reports whether the server ignores params of type t.
func ignored(t reflect.Type) bool { return t.PkgPath() != ofWire }

// refs returns the names of the types of values.
func (g *generator) refs(values []any) (names []string) {
	for _, v := range values {
		t := reflect.TypeOf(v)
		if ignored(t) {
			t = reflect.TypeFor[protocol.Empty]()
		}
		if ref := g.of(t).Ref; !slices.Contains(names, ref) {
			names = append(names, ref)
		}
	}
	return names
}

func (g *generator) anyOf(values []any) *jsonschema.Schema {
	var all []*jsonschema.Schema
	for _, ref := range g.refs(values) {
		all = append(all, &jsonschema.Schema{Ref: ref})
	}
	if len(all) == 1 {
		return all[0]
	}
	return &jsonschema.Schema{AnyOf: all}
}

// mark notes that clients send values of t, and of the types in t.
func (g *generator) mark(t reflect.Type) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		g.mark(t.Elem())
	case reflect.Struct:
		if g.asked[t] || ignored(t) {
			return
		}
		g.asked[t] = true
		for _, f := range reflect.VisibleFields(t) {
			if raws, ok := protocol.RawMembers[g.rawName(t, f)]; ok {
				for _, raw := range raws {
					g.mark(reflect.TypeOf(raw))
				}
			} else if f.IsExported() {
				g.mark(f.Type)
			}
		}
	}
}

func memberOf(f reflect.StructField) (name string, omitted bool) {
	name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name, options != ""
}

// rawName is the key of RawMembers for a field of t, or of the struct that t embeds.
func (g *generator) rawName(t reflect.Type, f reflect.StructField) string {
	name, _ := memberOf(f)
	return declaredIn(t, f).Name() + "." + name
}

func declaredIn(t reflect.Type, f reflect.StructField) reflect.Type {
	for _, i := range f.Index[:len(f.Index)-1] {
		t = t.Field(i).Type
	}
	return t
}

// required returns the members that values of t always have. A client may leave out more than the server.
func (g *generator) required(t reflect.Type) (names []string) {
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if name, omitted := memberOf(f); !f.Anonymous && f.IsExported() && (f.Tag.Get("wire") == "required" || !g.asked[t] && !omitted) {
			names = append(names, name)
		}
	}
	return names
}

// of returns the schema of a type: a reference, if the type has a name of its own.
func (g *generator) of(t reflect.Type) *jsonschema.Schema {
	least := func(n float64) *float64 { return &n }
	switch t {
	case reflect.TypeFor[[]byte]():
		return &jsonschema.Schema{Type: "string", ContentEncoding: "base64"}
	case reflect.TypeFor[protocol.Limit]():
		return &jsonschema.Schema{Types: []string{"integer", "null"}}
	case reflect.TypeFor[protocol.Stream]():
		return g.define("Stream", &jsonschema.Schema{Type: "string", Enum: []any{protocol.Stdout.String(), protocol.Stderr.String(), protocol.PTY.String()}})
	case reflect.TypeFor[protocol.FsPaths]():
		return g.define("FsPaths", &jsonschema.Schema{AnyOf: []*jsonschema.Schema{{Type: "string"}, {Type: "array", Items: &jsonschema.Schema{Type: "string"}}}})
	}
	switch t.Kind() {
	case reflect.Pointer:
		return g.of(t.Elem())
	case reflect.String:
		return g.ofString(t)
	case reflect.Bool:
		return &jsonschema.Schema{Type: "boolean"}
	case reflect.Int, reflect.Int64:
		return &jsonschema.Schema{Type: "integer"}
	case reflect.Uint64:
		return &jsonschema.Schema{Type: "integer", Minimum: least(0)}
	case reflect.Uint16:
		return &jsonschema.Schema{Type: "integer", Minimum: least(0), Maximum: least(1<<16 - 1)}
	case reflect.Float64:
		return &jsonschema.Schema{Type: "number"}
	case reflect.Slice:
		return &jsonschema.Schema{Type: "array", Items: g.of(t.Elem())}
	case reflect.Map:
		values := g.of(t.Elem())
		if t.Elem().Kind() == reflect.Pointer {
			values = orNull(values)
		}
		return &jsonschema.Schema{Type: "object", AdditionalProperties: values}
	case reflect.Struct:
		return g.ofStruct(t)
	}
	g.t.Fatalf("%s is not a type of the wire", t)
	return nil
}

// define puts a named type into the definitions, and returns a reference to it.
func (g *generator) define(name string, s *jsonschema.Schema) *jsonschema.Schema {
	if g.defs[name] == nil {
		s.Description = g.describe(name, name)
		g.defs[name] = s
	}
	return &jsonschema.Schema{Ref: "#/$defs/" + name}
}

// ofString returns the schema of a string. If the rules of its type refuse a value that is none of its constants, these are all
// values; otherwise later versions may have more, so they are examples.
func (g *generator) ofString(t reflect.Type) *jsonschema.Schema {
	s := &jsonschema.Schema{Type: "string"}
	if t.PkgPath() == "" {
		return s
	}
	var values []any
	for _, name := range g.constants[t.Name()] {
		values = append(values, g.values[cmp.Or(g.same[name], name)])
	}
	if values == nil {
		return s
	}
	other := reflect.New(t).Elem()
	other.SetString("no value of any type")
	// A signal may have other names, too.
	if rules, ok := other.Interface().(interface{ Validate() error }); ok && rules.Validate() != nil && t != reflect.TypeFor[protocol.Signal]() {
		s.Enum = values
	} else {
		s.Examples = values
	}
	return g.define(t.Name(), s)
}

func (g *generator) ofStruct(t reflect.Type) *jsonschema.Schema {
	name := strings.ToUpper(t.Name()[:1]) + t.Name()[1:]
	ref := &jsonschema.Schema{Ref: "#/$defs/" + name}
	if g.defs[name] != nil {
		return ref
	}
	s := &jsonschema.Schema{Type: "object", Properties: make(map[string]*jsonschema.Schema), Required: g.required(t), Description: g.describe(t.Name(), t.Name())}
	g.defs[name] = s // before its members: a type may contain itself
	for _, f := range reflect.VisibleFields(t) {
		if f.Tag.Get("wire") == "closed" || t == reflect.TypeFor[protocol.NoParams]() {
			s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
		}
		if f.Anonymous || !f.IsExported() {
			continue
		}
		member, omitted := memberOf(f)
		m := g.ofMember(t, f)
		// A client may send null for a member that it may leave out, and the server for a member that it does not leave out.
		if f.Tag.Get("wire") == "" && g.asked[t] || f.Type.Kind() == reflect.Pointer && !omitted {
			m = orNull(m)
		}
		owner := declaredIn(t, f).Name()
		m.Description = g.describe(owner, owner+"."+f.Name)
		s.Properties[member] = m
		s.PropertyOrder = append(s.PropertyOrder, member)
	}
	return ref
}

func (g *generator) ofMember(t reflect.Type, f reflect.StructField) *jsonschema.Schema {
	if f.Type != reflect.TypeFor[json.RawMessage]() {
		return g.of(f.Type)
	}
	name := g.rawName(t, f)
	raws, ok := protocol.RawMembers[name]
	if !ok {
		g.t.Errorf("%s of %s is undecoded: say in RawMembers of export_test.go what it may be", name, t)
	}
	g.rawsSeen[name] = true
	var all []*jsonschema.Schema
	for _, raw := range raws {
		all = append(all, g.of(reflect.TypeOf(raw)))
	}
	switch len(all) {
	case 0:
		return &jsonschema.Schema{Type: "null"}
	case 1:
		return all[0]
	}
	return &jsonschema.Schema{AnyOf: all}
}

// orNull returns a schema for a value of s, or null.
func orNull(s *jsonschema.Schema) *jsonschema.Schema {
	switch {
	case s.Type == "null" || slices.Contains(s.Types, "null"):
		return s
	case s.Type != "":
		s.Types, s.Type = []string{s.Type, "null"}, ""
		return s
	}
	return &jsonschema.Schema{AnyOf: []*jsonschema.Schema{s, {Type: "null"}}}
}
