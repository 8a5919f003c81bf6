package protocol

import (
	"errors"
	"testing"
)

// An error that names a limit keeps its advice, in either order, in both encodings.
func TestLimitOfAnError(t *testing.T) {
	const want = `{"kind":"limit","advice":"wait","limit":"max-starts-each","value":0.5,"used":3}`
	for _, e := range []*Error{Errorf(KindOrder, 1, "no").Exceeds("max-starts-each", 0.5, 3).Advise("wait"), Errorf(KindOrder, 1, "no").Advise("wait").Exceeds("max-starts-each", 0.5, 3)} {
		if string(e.Data) != want {
			t.Errorf("%s, want %s", e.Data, want)
		}
		for _, codec := range []Codec{JSON, Msgpack} {
			frame, err := codec.AppendFailure(nil, InvalidID, e)
			if err != nil {
				t.Fatal(err)
			}
			m, err := codec.Decode(frame)
			if err != nil {
				t.Fatal(err)
			}
			if kind := m.Error.Kind(); kind != KindLimit {
				t.Errorf("%s: kind %s", codec.Name(), kind)
			}
			if name, value, used := m.Error.Limit(); name != "max-starts-each" || value != 0.5 || used != 3 || m.Error.Advice() != "wait" {
				t.Errorf("%s: %s, %v, %v, %s", codec.Name(), name, value, used, m.Error.Advice())
			}
		}
	}
	for _, data := range []string{``, `{"limit":"x","value":1}`, `{"value":1,"used":1}`, `{"limit":1,"value":1,"used":1}`} {
		if name, value, used := (&Error{Data: []byte(data)}).Limit(); name != "" || value != 0 || used != 0 {
			t.Errorf("%s: %s, %v, %v", data, name, value, used)
		}
	}
}

// A client reads the advice of an error, and shows it. Data of another form is no advice.
func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		err          *Error
		advice, text string
	}{
		{Errorf(KindNotFound, CodeNotFound, "no such file"), "", "no such file"},
		{Errorf(KindNotFound, CodeNotFound, "no such file").Advise("create %q\nfirst", "/a"), "create \"/a\"\nfirst", "no such file: create \"/a\"\nfirst"},
		{&Error{Code: 1, Message: "no", Data: []byte(`{"advice":"wait","since":1}`)}, "wait", "no: wait"},
		{&Error{Code: 1, Message: "no", Data: []byte(`{"advice":1}`)}, "", "no"},
		{&Error{Code: 1, Message: "no", Data: []byte(`["wait"]`)}, "", "no"},
		{&Error{Code: 1, Message: "no", Data: []byte(`{`)}, "", "no"},
	} {
		if got := c.err.Advice(); got != c.advice {
			t.Errorf("%s: advice %q, want %q", c.err.Data, got, c.advice)
		}
		if got := c.err.Error(); got != c.text {
			t.Errorf("%s: %q, want %q", c.err.Data, got, c.text)
		}
	}
}

// The kind of an error is a string in its data. Data of another form has no kind.
func TestKindOfAnError(t *testing.T) {
	for data, want := range map[string]ErrorKind{
		`{"kind":"noProgram"}`:              KindNoProgram,
		`{"advice":"wait","kind":"newest"}`: "newest",
		`{"kind":1}`:                        "",
		`{"advice":"wait"}`:                 "",
		``:                                  "",
	} {
		if got := (&Error{Data: []byte(data)}).Kind(); got != want {
			t.Errorf("%s: kind %q, want %q", data, got, want)
		}
	}
}

// An error with another text keeps its code, its data and its cause.
func TestReword(t *testing.T) {
	cause := errors.New("the disk is full")
	e := Errorf(KindNotFound, CodeNotFound, "no").Because(cause).Reword("not %s", "here")
	if e.Message != "not here" || e.Code != CodeNotFound || e.Kind() != KindNotFound || !errors.Is(e, cause) {
		t.Errorf("%v with code %d, kind %s and cause %v", e, e.Code, e.Kind(), e.Unwrap())
	}
}
