package needs

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

// A verdict is a test that keeps how lack has ended it.
type verdict struct {
	testing.TB
	how, text string
}

func (v *verdict) Helper() {}

func (v *verdict) Skip(args ...any) { v.end("skip", fmt.Sprint(args...)) }

func (v *verdict) Fatalf(format string, args ...any) { v.end("fail", fmt.Sprintf(format, args...)) }

func (v *verdict) end(how, text string) {
	v.how, v.text = how, text
	runtime.Goexit()
}

// TestLack: a test whose need the machine lacks is skipped with the reason. In CI it fails, unless the environment lacks the need for certain.
func TestLack(t *testing.T) {
	for _, c := range []struct {
		ci        string
		need      need
		how, text string
	}{
		{"", needRoot, "skip", "needs root: why"},
		{"true", needRoot, "fail", "needs root: why. In this environment of CI (true)"},
		{"user", needRoot, "skip", "needs root: why"},
		{"user", needProgram, "fail", "needs a program: why. "},
		{"container", needMount, "skip", "needs mount(2): why"},
		{"container", needRoot, "fail", "needs root: why. "},
		{"mine", needRoot, "fail", `the environment of CI is "mine"`},
	} {
		t.Setenv("CI", c.ci)
		v := &verdict{TB: t}
		over := make(chan bool)
		go func() {
			defer close(over)
			lack(v, c.need, "why")
		}()
		<-over
		if v.how != c.how || !strings.HasPrefix(v.text, c.text) {
			t.Errorf("CI=%s without %s: %q, %q, want %q, %q", c.ci, c.need, v.how, v.text, c.how, c.text)
		}
	}
}
