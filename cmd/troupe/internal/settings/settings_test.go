package settings

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// of are settings as a command has them.
type of struct {
	listen, digest, json string
	origins              []string
	most                 int
	rate                 float64
	wait                 time.Duration
	loud                 bool
}

func (o *of) source() Source {
	f, g := pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	f.SortFlags = false
	f.String("config", "", "the file")
	f.StringVar(&o.listen, "listen", "ws://127.0.0.1:1", "the `URL`")
	f.StringArrayVar(&o.origins, "allow-origin", nil, "of `pages`")
	f.StringVar(&o.digest, "digest", "", "a secret")
	f.StringVar(&o.json, "max-limits", "", "some `JSON`")
	f.Bool("foreground", false, "not in a file")
	f.Bool("check", false, "for the command line")
	g.IntVar(&o.most, "max-sessions", 10, "how many | there are")
	g.Float64Var(&o.rate, "rate", 0, "how fast")
	g.DurationVar(&o.wait, "tls-1.2", time.Second, "how long")
	g.BoolVar(&o.loud, "verbose", false, "how loud")
	return Source{
		Sections: []Section{{"Address", f}, {"Limits", g}}, Prefix: "APP_", File: "config", Secret: []string{"digest"},
		NoFile: map[string]string{"foreground": "it comes too late"}, NoOther: []string{"check"}, JSON: []string{"max-limits"},
	}
}

// complete completes settings by a command line, variables and the text of a file.
func complete(t *testing.T, args, environ []string, text string) (*of, *InForce, error) {
	t.Helper()
	o := new(of)
	s := o.source()
	path := t.TempDir() + "/f.yaml"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	all := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, part := range s.Sections {
		all.AddFlagSet(part.FlagSet)
	}
	if err := all.Parse(append([]string{"--config", path}, args...)); err != nil {
		t.Fatal(err)
	}
	in, err := s.Complete(environ)
	return o, in, err
}

// A flag goes before a variable, and a variable before the file.
func TestOrder(t *testing.T) {
	o, in, err := complete(t, []string{"--max-sessions", "1", "--allow-origin", "a", "--allow-origin", "b"},
		[]string{"APP_MAX_SESSIONS=2", "APP_LISTEN=of a variable", "APP_TLS_1_2=2m", "OTHER=x", "APP_RATE=", "APP_VERBOSE=true"}, `# a comment
max-sessions: 3
listen: of the file
rate: 2.5
digest: "0123"
allow-origin: [c]
max-limits:
  nofile: 1024
  nice: 5
`)
	if err != nil {
		t.Fatal(err)
	}
	if o.most != 1 || o.listen != "of a variable" || o.rate != 2.5 || o.digest != "0123" || !slices.Equal(o.origins, []string{"a", "b"}) || o.json != `{"nice":5,"nofile":1024}` || o.wait != 2*time.Minute || !o.loud {
		t.Errorf("%+v", o)
	}
	var shown bytes.Buffer
	in.Show(&shown)
	for _, want := range []string{
		"# Address\n", "\nmax-sessions: 1 ", " # --max-sessions\n", "\nlisten: of a variable ", " # APP_LISTEN\n", "/f.yaml:4\n", "\n# digest: (secret) ",
		"\nallow-origin: [a, b] ", `max-limits: {"nice":5,"nofile":1024} `, "\n# foreground: false ", " # default\n",
	} {
		if !strings.Contains(shown.String(), want) {
			t.Errorf("%q is not shown:\n%s", want, &shown)
		}
	}
	if strings.Contains(shown.String(), "0123") {
		t.Errorf("a secret is shown:\n%s", &shown)
	}
	if at := in.FromFile("rate"); !strings.HasSuffix(at, "f.yaml:4") || in.FromFile("listen") != "" || in.FromFile("max-sessions") != "" {
		t.Errorf("the rate comes from %q", at)
	}

	// What is shown means the same as a file, but for secrets.
	again, _, err := complete(t, nil, nil, shown.String())
	if err != nil || again.most != 1 || again.listen != o.listen || again.json != o.json || again.wait != o.wait || !slices.Equal(again.origins, o.origins) {
		t.Errorf("%+v, %v", again, err)
	}
}

// A list in a variable has commas, one in the file is a list or a single value.
func TestLists(t *testing.T) {
	for _, c := range []struct{ environ, text, want string }{
		{"APP_ALLOW_ORIGIN=a,b", "allow-origin: c", "a b"}, {"", "allow-origin: c", "c"}, {"", "allow-origin: [c, d]", "c d"}, {"", "x: &x [c]\n", ""}, {"", "", ""}, {"", "---\n", ""},
	} {
		o, _, err := complete(t, nil, []string{c.environ}, c.text)
		if got := strings.Join(o.origins, " "); got != c.want || (err != nil) != strings.HasPrefix(c.text, "x") {
			t.Errorf("%+v: %q, %v", c, got, err)
		}
	}
}

// Each fault is told, with its place and what to do.
func TestFaults(t *testing.T) {
	_, _, err := complete(t, nil, []string{"APP_MAX_SESSION=1", "APP_RATE=fast", "APP_CHECK=1"}, `max-sesions: 3
max_sessions: 3
max-sessions: ten
verbose: loud
tls-1.2: 5
listen: [a, b]
listen: c
config: other.yaml
foreground: true
check: true
digest:
allow-origin: [[a]]
weather: fine
`)
	if err == nil {
		t.Fatal("no fault")
	}
	lines := strings.Split(err.Error(), "\n")
	for i, want := range []string{
		`APP_CHECK: there is no such setting`,
		`APP_MAX_SESSION: there is no such setting: did you mean APP_MAX_SESSIONS?`,
		`APP_RATE: "fast": write a number, such as 2.5`,
		`f.yaml:7: listen is set twice: remove this line, or line 6`,
		`f.yaml:1: there is no setting "max-sesions": did you mean max-sessions?`,
		`f.yaml:2: there is no setting "max_sessions": did you mean max-sessions?`,
		`f.yaml:3: max-sessions: "ten": write a whole number, such as 1000`,
		`f.yaml:4: verbose: "loud": write true or false`,
		`f.yaml:5: tls-1.2: "5": write a time, such as 30s, 5m or 24h`,
		`f.yaml:6: listen has one value, and not a list`,
		`f.yaml:8: config is for the command line: remove the line`,
		`f.yaml:9: foreground cannot be set in a file: it comes too late`,
		`f.yaml:10: check is for the command line: remove the line`,
		`f.yaml:11: digest: there is no value: write one, or remove the line`,
		`f.yaml:12: allow-origin: line 12: an element of a list is a text`,
		`f.yaml:13: there is no setting "weather": docs/CONFIGURATION.md lists them all`,
	} {
		if i >= len(lines) || !strings.HasSuffix(lines[i], want) {
			t.Errorf("line %d should be %q:\n%v", i, want, err)
		}
	}
	for text, want := range map[string]string{
		"a: b: c":               "f.yaml: mapping values are not allowed",
		"rate: 1\nx:\n - a\n b": "f.yaml:4: ",
		"- a":                   ":1: write settings as NAME: VALUE",
		"rate: 1\n---\nb: [":    "f.yaml:",
		"rate: 1\n---\nb: c":    ":2: a second document",
		"max-limits: {1: {}}":   "max-limits: ",
	} {
		if _, _, err := complete(t, nil, nil, text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Again reads the variables and the file again, and keeps the command line.
func TestAgain(t *testing.T) {
	_, in, err := complete(t, []string{"--max-sessions", "1", "--allow-origin", "a"}, nil, "rate: 1\nmax-sessions: 7\n")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(in.find("config").Value.String(), []byte("rate: 2\nmax-sessions: 8\nverbose: true"), 0o600); err != nil {
		t.Fatal(err)
	}
	var o of
	now, err := in.Again(o.source(), nil)
	if err != nil || o.most != 1 || o.rate != 2 || !o.loud || !slices.Equal(o.origins, []string{"a"}) {
		t.Errorf("%+v, %v", o, err)
	}
	if got := in.Differ(now); !slices.Equal(got, []string{"rate", "verbose"}) {
		t.Errorf("%q differ", got)
	}
}

// FuzzFile: no file panics.
func FuzzFile(f *testing.F) {
	f.Add("max-sessions: 1\n")
	f.Add("a: &x [*x]\n")
	f.Add("max-limits: {? [a] : b}")
	f.Fuzz(func(t *testing.T, text string) {
		o := new(of)
		s := o.source()
		in := &InForce{Source: s, text: make(map[string]string), from: make(map[string]string)}
		values, _ := parse("f", []byte(text))
		for _, v := range values {
			in.take(v)
		}
		in.Show(new(bytes.Buffer))
	})
}
