package main

import (
	"strings"
	"testing"
)

// TestPythonOfASchema pins the rules by which a schema becomes Python.
func TestPythonOfASchema(t *testing.T) {
	null := schema{Type: types{"null"}}
	for _, c := range []struct {
		what string
		s    schema
		want string
	}{
		{"bytes", schema{Type: types{"string"}, ContentEncoding: "base64"}, "bytes"},
		{"all values", schema{Type: types{"string"}, Enum: []string{"a", "b"}}, `Literal["a", "b"]`},
		{"known values", schema{Type: types{"string"}, Examples: []string{"a"}}, `Union[Literal["a"], str]`},
		{"null", schema{Type: types{"integer", "null"}}, "Optional[int]"},
		{"nothing but null", schema{Type: types{"null"}}, "None"},
		{"a reference or null", schema{AnyOf: []schema{{Ref: "#/$defs/Error"}, null}}, "Optional[Error]"},
		{"a list of unions", schema{Type: types{"array"}, Items: &schema{Type: types{"string", "null"}}}, "List[Optional[str]]"},
		{"two types", schema{Type: types{"string", "array"}}, "Union[str, List[Any]]"},
		{"a map", schema{Type: types{"object"}, Additional: &additional{&schema{Type: types{"number"}}}}, "Dict[str, float]"},
		{"anything", schema{}, "Any"},
	} {
		if got := pyType(c.s); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
	text, maybe := schema{Type: types{"string"}, Description: "says so"}, schema{Type: types{"string", "null"}}
	for _, c := range []struct {
		what string
		s    schema
		want string
	}{
		{"members of both sorts", schema{Properties: members[schema]{{"a", text}, {"b", maybe}}, Required: []string{"a"}},
			"class _T(TypedDict):\n    #: says so\n    a: str\n\n\nclass T(_T, total=False):\n    b: Optional[str]\n"},
		{"a keyword", schema{Properties: members[schema]{{"for", text}}, Required: []string{"for"}},
			"T = TypedDict(\n    \"T\",\n    {\n        #: says so\n        \"for\": \"str\",\n    },\n)\n"},
		{"no members", schema{}, "class T(TypedDict):\n    pass\n"},
	} {
		w := &pyWriter{}
		w.object("T", c.s)
		if got := strings.TrimLeft(w.String(), "\n"); got != c.want {
			t.Errorf("%s: %q, want %q", c.what, got, c.want)
		}
	}
}
