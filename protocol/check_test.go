package protocol

import (
	"math"
	"reflect"
	"regexp/syntax"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Check says of each value, right or wrong, what Unmarshal says of its encoding.
func TestCheckIsUnmarshal(t *testing.T) {
	t.Parallel()
	for _, sample := range wireTypes {
		typ := reflect.TypeOf(sample)
		t.Run(typ.Name(), rapid.MakeCheck(func(t *rapid.T) {
			v := reflect.New(typ)
			fill(t, v.Elem(), false)
			if err := Check(v.Elem().Interface()); err != nil {
				t.Fatalf("%+v is right, and Check says %v", v.Elem(), err)
			}
			spoil(t, v.Elem())
			encoded, err := appendJSON(nil, v.Interface())
			if err != nil {
				return // nobody can send such a value
			}
			got := Check(v.Elem().Interface())
			want, _ := JSON.Unmarshal(encoded, reflect.New(typ).Interface()).(*Error)
			if (got == nil) != (want == nil) || got != nil && (got.Code != want.Code || got.Message != want.Message || string(got.Data) != string(want.Data)) {
				t.Fatalf("%s:\n Check says     %v\n Unmarshal says %v", encoded, got, want)
			}
		}))
	}
}

// spoil changes some parts of v, without regard for the rules of their types.
func spoil(t *rapid.T, v reflect.Value) {
	wrong := rapid.IntRange(0, 3).Draw(t, "wrong") == 0
	switch v.Kind() {
	case reflect.Struct:
		for f, value := range v.Fields() {
			if f.IsExported() && v.Type() != limitType {
				spoil(t, value)
			}
		}
	case reflect.Pointer:
		if wrong {
			v.Set(reflect.New(v.Type().Elem()))
		}
		if !v.IsNil() {
			spoil(t, v.Elem())
		}
	case reflect.Slice:
		if wrong && v.Type() != rawType {
			v.SetZero()
		}
		for i := range v.Len() {
			spoil(t, v.Index(i))
		}
	case reflect.String:
		if wrong {
			v.SetString(rapid.SampledFrom([]string{"", "(", "owner", "http://x", "077", strings.Repeat("x", 1025)}).Draw(t, "text"))
		}
	case reflect.Int:
		if wrong {
			v.SetInt(1001)
		}
	case reflect.Uint16, reflect.Uint64:
		if wrong {
			v.SetUint(0)
		}
	case reflect.Float64:
		if wrong {
			v.SetFloat(-1)
		}
	}
}

// A value that nobody can send is refused, too. Types of other packages have no rules.
func TestCheckWhatCannotBeSent(t *testing.T) {
	for _, row := range []struct {
		params any
		want   string // "": right
	}{
		{ProcessStartParams{Argv: []string{"a"}, Restart: &Restart{Policy: "permanent", Backoff: &Backoff{Jitter: new(math.NaN())}}}, "found NaN, expected f64, in `restart.backoff.jitter`"},
		{ProcessStartParams{Argv: []string{"a"}, Ready: &Ready{Line: "up", Stream: 9}}, "unknown variant `stream 9`, expected one of `stdout`, `stderr`, `pty`"},
		{GroupStartParams{Processes: []ProcessStartParams{{Argv: []string{"a"}}, {}}}, "in `processes[1]`"},
		{&ProcessSignalParams{Signal: "SIGFOO"}, "`SIGFOO`"},
		{ProcessStartParams{Argv: []string{"caf\xe9"}}, ""},
		{(*ProcessSignalParams)(nil), ""},
		{nil, ""},
		{&syntax.Regexp{}, ""},
		{[]any{1}, ""},
	} {
		err := Check(row.params)
		if said := (err != nil); said != (row.want != "") || said && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v, want %q", row.params, err, row.want)
		}
	}
}
