package protocol

import "testing"

// A client reads the advice of an error, and shows it. Data of another form is no advice.
func TestAdvice(t *testing.T) {
	for _, c := range []struct {
		err          *Error
		advice, text string
	}{
		{Errorf(CodeNotFound, "no such file"), "", "no such file (code -32004)"},
		{Errorf(CodeNotFound, "no such file").Advise("create %q\nfirst", "/a"), "create \"/a\"\nfirst", "no such file (code -32004): create \"/a\"\nfirst"},
		{&Error{Code: 1, Message: "no", Data: []byte(`{"advice":"wait","since":1}`)}, "wait", "no (code 1): wait"},
		{&Error{Code: 1, Message: "no", Data: []byte(`{"advice":1}`)}, "", "no (code 1)"},
		{&Error{Code: 1, Message: "no", Data: []byte(`["wait"]`)}, "", "no (code 1)"},
		{&Error{Code: 1, Message: "no", Data: []byte(`{`)}, "", "no (code 1)"},
	} {
		if got := c.err.Advice(); got != c.advice {
			t.Errorf("%s: advice %q, want %q", c.err.Data, got, c.advice)
		}
		if got := c.err.Error(); got != c.text {
			t.Errorf("%s: %q, want %q", c.err.Data, got, c.text)
		}
	}
}
