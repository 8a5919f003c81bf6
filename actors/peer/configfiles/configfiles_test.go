package configfiles

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// machine makes files below a new directory: the user's in codex, the system's in etc.
func machine(t *testing.T, contents map[string]string) (dir string, places Places) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, contents)
	return dir, Places{Codex: dir + "/codex", System: dir + "/etc"}
}

// write makes files. DIR in a text stands for dir.
func write(t *testing.T, dir string, contents map[string]string) {
	t.Helper()
	for name, text := range contents {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// told returns each layer as one line: the source without dir, and the TOML.
func told(dir string, l protocol.ConfigLayers) (lines []string) {
	for _, layer := range l.Layers {
		lines = append(lines, strings.ReplaceAll(layer.Source, dir+"/", "")+": "+strings.ReplaceAll(layer.TOML, "\n", ";"))
	}
	return lines
}

func read(t *testing.T, places Places, cwd string, paths ...[]string) (config, requirements protocol.ConfigLayers) {
	t.Helper()
	config, requirements, err := Read(t.Context(), places, cwd, protocol.EnvironmentConfigReadParams{ConfigPaths: paths, RequirementsPaths: paths}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return config, requirements
}

func TestLayers(t *testing.T) {
	dir, places := machine(t, map[string]string{
		"etc/config.toml":         "x = 1\ny = 1\n",
		"codex/config.toml":       "x = 2\nproject_root_markers = ['.root']\n[projects.'DIR/p']\ntrust_level = 'trusted'\n",
		"p/.root":                 "",
		"p/.codex/config.toml":    "x = 3\nopenai_base_url = 'https://elsewhere'\n",
		"p/q/.codex/config.toml":  "x = 4\n",
		"p/q/r/.codex/other.toml": "x = 5\n",
		"etc/managed_config.toml": "x = 6\napproval_policy = 'never'\nsandbox_mode = 'workspace-write'\napprovals_reviewer = 'guardian_subagent'\n",
		"etc/requirements.toml":   "x = 7\n",
	})
	config, requirements := read(t, places, dir+"/p/q/r", []string{"x"}, []string{"openai_base_url"}, []string{"allowed_sandbox_modes"}, []string{"allowed_approval_policies"}, []string{"allowed_approvals_reviewers"})
	if got, want := told(dir, config), []string{
		"system (etc/config.toml): x = 1;", "user (codex/config.toml): x = 2;", "project (p/.codex/config.toml): x = 3;",
		"project (p/q/.codex/config.toml): x = 4;", "legacy managed_config.toml (etc/managed_config.toml): x = 6;",
	}; !slices.Equal(got, want) || config.CloudInsertionIndex != 1 {
		t.Errorf("%q, want %q; index %d", got, want, config.CloudInsertionIndex)
	}
	if got, want := told(dir, requirements), []string{
		"etc/requirements.toml: x = 7;",
		`etc/managed_config.toml: allowed_approval_policies = ["never"];allowed_approvals_reviewers = ["auto_review", "user"];allowed_sandbox_modes = ["read-only", "workspace-write"];`,
	}; !slices.Equal(got, want) || requirements.CloudInsertionIndex != 1 {
		t.Errorf("%q, want %q; index %d", got, want, requirements.CloudInsertionIndex)
	}
	var bases []string
	for _, l := range slices.Concat(config.Layers, requirements.Layers) {
		bases = append(bases, strings.TrimPrefix(l.BaseDir, protocol.FileURI(dir)))
	}
	if want := []string{"/etc", "/codex", "/p/.codex", "/p/q/.codex", "/etc", "/etc", "/etc"}; !slices.Equal(bases, want) {
		t.Errorf("base directories %q, want %q", bases, want)
	}
	// A layer without anything selected is left out, and counts for no index.
	config, requirements = read(t, places, dir+"/p", []string{"y"})
	if got := told(dir, config); !slices.Equal(got, []string{"system (etc/config.toml): y = 1;"}) || config.CloudInsertionIndex != 1 || requirements.Layers != nil || requirements.CloudInsertionIndex != 0 {
		t.Errorf("%q, %+v", got, requirements)
	}
	if config, _ = read(t, places, "/", []string{"project_root_markers"}); config.CloudInsertionIndex != 0 || len(config.Layers) != 1 {
		t.Errorf("%+v", config)
	}
}

func TestProjection(t *testing.T) {
	const text = "ignored = true\n\"literal.key\" = 'l'\narray = [1, 2]\n[a]\nb = 1\nc = 2\n[a.d]\ne = 1\n[[t]]\nx = 1\n"
	for _, c := range []struct {
		paths [][]string
		want  string
	}{
		{[][]string{{"a", "b"}}, "[a];b = 1;"},
		{[][]string{{"a", "b"}, {"a"}}, "[a];b = 1;c = 2;;[a.d];e = 1;"},
		{[][]string{{"a"}, {"a", "b"}}, "[a];b = 1;c = 2;;[a.d];e = 1;"},
		{[][]string{{"a", "d"}}, "[a.d];e = 1;"},
		{[][]string{{"a", "none"}}, "[a];"},
		{[][]string{{"array", "unused"}}, "array = [1, 2];"},
		{[][]string{{"literal.key"}}, `"literal.key" = "l";`},
		{[][]string{{"t"}}, "[[t]];x = 1;"},
		{[][]string{{"literal", "key"}, {"none"}}, ""},
	} {
		values, err := parse("f", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		room := maxAnswer
		got, err := project(stack{layers: []layer{{"s", "/", values}}}, c.paths, &room, nil)
		if want := c.want; err != nil || strings.Join(told("", got), "") != map[bool]string{true: "", false: "s: " + want}[want == ""] {
			t.Errorf("%q: %q, want %q; %v", c.paths, told("", got), want, err)
		}
	}
}

func TestWrongPaths(t *testing.T) {
	for want, p := range map[string]protocol.EnvironmentConfigReadParams{
		"at least one config or requirements path is required": {},
		"TOML paths must contain at least one key segment":     {ConfigPaths: [][]string{{"a"}}, RequirementsPaths: [][]string{{}}},
		"": {ConfigPaths: [][]string{{"a"}}, RequirementsPaths: [][]string{make([]string, 4_095)}},
		"TOML paths have 4097 key segments, at most 4096: send fewer at once": {ConfigPaths: [][]string{{"a"}}, RequirementsPaths: [][]string{make([]string, 4_096)}},
	} {
		err := CheckPaths(p)
		if e, ok := errors.AsType[*protocol.Error](err); ok != (want != "") || ok && (e.Code != protocol.CodeInvalidParams || e.Message != want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Only the files of projects that the user trusts count. The nearest decision of the user wins.
func TestTrust(t *testing.T) {
	for _, c := range []struct{ projects, cwd, want string }{
		{"", "p", ""},
		{"[projects.'DIR/p']\ntrust_level='untrusted'", "p", ""},
		{"[projects.'DIR/p']\n", "p", ""},
		{"[projects.'DIR/p']\ntrust_level='trusted'", "p", "p"},
		{"[projects.'DIR/p']\ntrust_level='trusted'", "p/q", "p p/q"},
		{"[projects.'DIR/p']\ntrust_level='trusted'\n[projects.'DIR/p/q']\ntrust_level='untrusted'", "p/q", "p"},
		{"[projects.'DIR/p/q']\ntrust_level='trusted'", "p/q", "p/q"},
		{"[projects.'DIR']\ntrust_level='trusted'", "p/q", ""},
		{"[projects.'DIR/p']\ntrust_level='trusted'", "link", "link"},
		{"[projects.'DIR/link']\ntrust_level='trusted'", "link", "link"},
		{"[projects.'DIR/link']\ntrust_level='trusted'", "p", ""},
		{"[projects.'DIR/p']\ntrust_level='trusted'", "p/gone/deeper", "p"},
		{"project_root_markers=[]\n[projects.'DIR/p/q']\ntrust_level='trusted'", "p/q", "p/q"},
		{"project_root_markers=['none']\n[projects.'DIR/p']\ntrust_level='trusted'", "p/q", "p/q"},
	} {
		dir, places := machine(t, map[string]string{
			"codex/config.toml": c.projects, "p/.git/HEAD": "", "p/.codex/config.toml": "x = 1", "p/q/.codex/config.toml": "x = 1",
		})
		if err := os.Symlink("p", dir+"/link"); err != nil {
			t.Fatal(err)
		}
		config, _ := read(t, places, dir+"/"+c.cwd, []string{"x"})
		var got []string
		for _, line := range told(dir, config) {
			line, _ = strings.CutPrefix(line, "project (")
			at, _, _ := strings.Cut(line, "/.codex")
			got = append(got, at)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%q in %s: %q, want %q", c.projects, c.cwd, got, c.want)
		}
	}
}

// A project cannot trust itself, and the user's own directory is no project.
func TestNoProject(t *testing.T) {
	dir, places := machine(t, map[string]string{
		"p/.git/HEAD": "", "p/.codex/config.toml": "x = 1\n[projects.'DIR/p']\ntrust_level = 'trusted'\n",
		"home/.git/HEAD": "", "home/.codex/config.toml": "x = 2\n[projects.'DIR/home']\ntrust_level = 'trusted'\n",
	})
	if config, _ := read(t, places, dir+"/p", []string{"x"}); config.Layers != nil {
		t.Errorf("%q", told(dir, config))
	}
	if config, _ := read(t, Places{Codex: dir + "/home/.codex", System: dir + "/etc"}, dir+"/home", []string{"x"}); len(config.Layers) != 1 || !strings.HasPrefix(config.Layers[0].Source, "user (") {
		t.Errorf("%q", told(dir, config))
	}
}

func TestSanitize(t *testing.T) {
	for _, c := range []struct{ broker, project, want string }{
		{"", "x=1\nmodel_provider='p'\n[model_providers.p]\n[profiles.p]\n[otel]\n", "x = 1;"},
		{"", "[features]\nrespect_system_proxy=true\nnetwork_proxy=true\n", "[features];network_proxy = true;"},
		{"", "[tui.keymap.chat]\nup='f9'\nnext_permission_mode='x'\nprevious_permission_mode='y'\n", `[tui.keymap.chat];up = "f9";`},
		{"", "tui=1\nfeatures=2\n", "features = 2;tui = 1;"},
		{"", "[shell_environment_policy.set]\nGH_HOST='h'\n", `[shell_environment_policy.set];GH_HOST = "h";`},
		{"[features.network_proxy]\ncredential_broker=true\n", "x=1\n[shell_environment_policy.set]\nGH_HOST='h'\n[features]\nnetwork_proxy=true\nshell_snapshot=false\n", "x = 1;;[features];"},
	} {
		dir, places := machine(t, map[string]string{
			"codex/config.toml": "[projects.'DIR/p']\ntrust_level = 'trusted'\n" + c.broker, "p/.git/HEAD": "", "p/.codex/config.toml": c.project,
		})
		var paths [][]string
		for _, key := range []string{"x", "model_provider", "model_providers", "profiles", "otel", "features", "tui", "shell_environment_policy"} {
			paths = append(paths, []string{key})
		}
		config, _ := read(t, places, dir+"/p", paths...)
		got := told(dir, config)
		if len(got) == 0 || got[len(got)-1] != "project (p/.codex/config.toml): "+c.want {
			t.Errorf("%q: %q, want %q", c.project, got, c.want)
		}
	}
}

// A linked worktree is trusted with its main checkout, and has its hooks.
func TestWorktree(t *testing.T) {
	dir, places := machine(t, map[string]string{
		"codex/config.toml":               "[projects.'DIR/main']\ntrust_level = 'trusted'\n",
		"main/.codex/config.toml":         "x = 1\nhooks = ['main']\n",
		"main/.git/worktrees/w/gitdir":    "DIR/w/.git\n",
		"main/.git/worktrees/w/commondir": "../..\n",
		"w/.git":                          "gitdir: DIR/main/.git/worktrees/w\n",
		"w/.codex/config.toml":            "x = 2\nhooks = ['w']\n",
		"forged/.git":                     "gitdir: DIR/main/.git/worktrees/w\n",
		"forged/.codex/config.toml":       "x = 3\n",
	})
	layers := func(cwd string) string {
		config, _ := read(t, places, dir+"/"+cwd, []string{"x"}, []string{"hooks"})
		return strings.Join(told(dir, config), " ")
	}
	const want = `project (w/.codex/config.toml): x = 2; project (main/.codex/config.toml): hooks = ["main"];`
	if got := layers("w"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got := layers("forged"); got != "" {
		t.Errorf("a forged worktree: %q", got)
	}
	for name, text := range map[string]string{"gitdir": "DIR/forged/.git\n", "commondir": "../../..\n"} {
		write(t, dir, map[string]string{"main/.git/worktrees/w/" + name: text})
		if got := layers("w"); got != "" {
			t.Errorf("with %s %q: %q", name, text, got)
		}
		write(t, dir, map[string]string{"main/.git/worktrees/w/gitdir": "DIR/w/.git\n", "main/.git/worktrees/w/commondir": "../..\n"})
	}
	if got := layers("w"); got != want {
		t.Errorf("%q", got)
	}
	if err := errors.Join(os.Rename(dir+"/main/.git/worktrees/w/gitdir", dir+"/elsewhere"), os.Symlink(dir+"/elsewhere", dir+"/main/.git/worktrees/w/gitdir")); err != nil {
		t.Fatal(err)
	}
	if got := layers("w"); got != "" {
		t.Errorf("with a link: %q", got)
	}
}

// The files of a worktree that git itself makes.
func TestWorktreeOfGit(t *testing.T) {
	needs.Program(t, "git")
	dir, places := machine(t, map[string]string{"codex/config.toml": "[projects.'DIR/main']\ntrust_level = 'trusted'\n"})
	for _, script := range []string{
		"git init -q main && cd main && git -c user.name=n -c user.email=e commit -q --allow-empty -m c && git worktree add -q ../w",
		"mkdir -p w/.codex && echo 'x = 1' > w/.codex/config.toml",
	} {
		cmd := exec.Command("sh", "-c", script)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if config, _ := read(t, places, dir+"/w", []string{"x"}); len(config.Layers) != 1 {
		t.Errorf("%q", told(dir, config))
	}
}

func TestBadFiles(t *testing.T) {
	const fail = "failed to load executor-local config: "
	for _, c := range []struct{ file, text, want string }{
		{"codex/config.toml", "a = 1\nb = \n", fail + "DIR/codex/config.toml:2:5: toml: "},
		{"codex/config.toml", "a = '\xff'\n", fail + "Failed to read config file DIR/codex/config.toml: stream did not contain valid UTF-8"},
		{"etc/config.toml/x", "", fail + "Failed to read config file DIR/etc/config.toml: path `DIR/etc/config.toml` is not a file"},
		{"etc/requirements.toml", "[", fail + "DIR/etc/requirements.toml:1:"},
		{"etc/managed_config.toml", "sandbox_mode = 'future'", fail + "Failed to parse config requirements as TOML: unknown variant `future` in `sandbox_mode`"},
		{"codex/config.toml", "project_root_markers = 1", fail + "project_root_markers must be an array of strings"},
		{"codex/config.toml", "project_root_markers = [1]", fail + "project_root_markers must be an array of strings"},
		{"codex/config.toml", "[projects.p]\ntrust_level = 'maybe'", fail + "unknown variant `maybe`, expected `trusted` or `untrusted`"},
		{"codex/config.toml", "[projects]\np = 1", fail + `projects."p" must be a table`},
		{"codex/config.toml", strings.Repeat("a.", maxDots+1) + "a = 1", fail + "DIR/codex/config.toml:1:1: a line has more than 10000 dots"},
		{"codex/config.toml", "a = " + strings.Repeat("[", 100_000), fail + "DIR/codex/config.toml:1:"},
		{"codex/config.toml", strings.Repeat("\na = 1", maxValues/2) + strings.Repeat("\n[a]", maxValues/2+1), fail + "DIR/codex/config.toml:10002:1: a file has at most 10000 keys and tables"},
		{"codex/config.toml", "#" + strings.Repeat("x", maxFiles), fail + "Failed to read config file DIR/codex/config.toml: all files of a request together may have at most 2097152 bytes"},
	} {
		dir, places := machine(t, map[string]string{c.file: c.text})
		_, _, err := Read(t.Context(), places, dir, protocol.EnvironmentConfigReadParams{ConfigPaths: [][]string{{"a"}}}, nil)
		if want := strings.ReplaceAll(c.want, "DIR", dir); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.30q: %v, want %q", c.text, err, want)
		}
	}
	// The file of a project that the user does not trust is not even read.
	dir, places := machine(t, map[string]string{"p/.git/HEAD": "", "p/.codex/config.toml": "no TOML"})
	read(t, places, dir+"/p", []string{"a"})
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := Read(over, places, dir, protocol.EnvironmentConfigReadParams{ConfigPaths: [][]string{{"a"}}}, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The memory of the answer stays taken, and nothing else. Without memory the call fails.
func TestMemory(t *testing.T) {
	dir, places := machine(t, map[string]string{"codex/config.toml": "a = 1\nb = 2\n", "etc/requirements.toml": "a = 3\n"})
	p := protocol.EnvironmentConfigReadParams{ConfigPaths: [][]string{{"a"}}, RequirementsPaths: [][]string{{"a"}}}
	held := 0
	config, requirements, err := Read(t.Context(), places, dir, p, func(n int) error { held += n; return nil })
	if want := len(config.Layers[0].TOML) + len(requirements.Layers[0].TOML); err != nil || held != want {
		t.Errorf("holds %d, want %d: %v", held, want, err)
	}
	full := errors.New("full")
	for room := range 900 {
		held = 0
		if _, _, err := Read(t.Context(), places, dir, p, func(n int) error {
			if held+n > room {
				return full
			}
			held += n
			return nil
		}); !errors.Is(err, full) || held > len(config.Layers[0].TOML) {
			t.Fatalf("with %d bytes: %v, and %d stay taken", room, err, held)
		}
	}
	defer func(n int) { maxAnswer = n }(maxAnswer)
	maxAnswer = len("a = 1\na = 3\n")
	read(t, places, dir, []string{"a"})
	maxAnswer--
	_, _, err = Read(t.Context(), places, dir, p, nil)
	if e, ok := errors.AsType[*protocol.Error](err); !ok || e.Code != protocol.CodeInvalidParams || e.Message != "environment config response exceeds the 11-byte limit" {
		t.Error(err)
	}
}

// The memory of parsed files is never more than was asked for.
func TestParsedBytes(t *testing.T) {
	deep := "a" + strings.Repeat(".a", maxDots-1) + " = 1\n"
	for _, text := range []string{
		"a." + deep + "b." + deep,
		"a = [" + strings.Repeat("{},", 50_000) + "]",
		"a = [" + strings.Repeat("{a=1},", maxValues-1) + "]",
		"a = [" + strings.Repeat("[],", 50_000) + "]",
		"a = [" + strings.Repeat("1,", 50_000) + "]",
		strings.Repeat("[[a]]\n", maxValues),
		"a = '" + strings.Repeat("x", 1<<20) + "'",
	} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		values, err := parse("x", []byte(text))
		runtime.GC()
		runtime.ReadMemStats(&after)
		if took, most := int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(parsedBytes([]byte(text))); err != nil || took > most {
			t.Errorf("%.20q takes %d bytes, and %d were asked for: %v", text, took, most, err)
		}
		runtime.KeepAlive(values)
	}
}

// Tables below a long name cannot make an answer far longer than the files.
func TestEncodeIsBounded(t *testing.T) {
	values, err := parse("f", []byte("["+strings.Repeat("a.", 2_000)+"a]\n"+strings.Repeat("x.y=1\n", 1)))
	if err != nil {
		t.Fatal(err)
	}
	if text, ok := encode(values, 100); ok || len(text) > 100_000 {
		t.Errorf("%d bytes, %t", len(text), ok)
	}
}

func TestEncode(t *testing.T) {
	for text, want := range map[string]string{
		"b = 1\na = true\n[t]\nx = 1\n[t.u]\ny = 1\n[s]\n":                                  "a = true\nb = 1\n\n[s]\n\n[t]\nx = 1\n\n[t.u]\ny = 1\n",
		"[[a]]\nx = 1\n[a.b]\ny = 1\n[[a]]\n[c]\nz = 1":                                     "[[a]]\nx = 1\n\n[a.b]\ny = 1\n\n[[a]]\n\n[c]\nz = 1\n",
		"a = [[1, 2.5], [{b = 1}, 2], [], {}]":                                              "a = [[1, 2.5], [{ b = 1 }, 2], [], {}]\n",
		"a = 1e20\nb = -0.0\nc = inf\nd = -inf\ne = nan\nf = -7":                            "a = 100000000000000000000.0\nb = -0.0\nc = inf\nd = -inf\ne = nan\nf = -7\n",
		"a = 1979-05-27T07:32:00.5Z\nb = 1979-05-27\nc = 07:32:00\nd = 1979-05-27T07:32:00": "a = 1979-05-27T07:32:00.5Z\nb = 1979-05-27\nc = 07:32:00\nd = 1979-05-27T07:32:00\n",
		`"" = 1` + "\n'a b' = 2\n'/x/\"y' = 3\n" + `"it's\"" = 4`:                           "\"\" = 1\n'/x/\"y' = 3\n\"a b\" = 2\n\"it's\\\"\" = 4\n",
	} {
		values, err := parse("f", []byte(text))
		if err != nil {
			t.Fatal(text, err)
		}
		if got, ok := encode(values, 1000); got != want || !ok {
			t.Errorf("%q:\n%q, want\n%q", text, got, want)
		}
	}
	for text, want := range map[string]string{
		"":             `""`,
		"a\tb":         "\"a\tb\"",
		`say "a"`:      `'say "a"'`,
		`C:\x`:         `'C:\x'`,
		`it's "a"`:     `"""it's "a""""`,
		"a\nb":         "\"\"\"\na\nb\"\"\"",
		"\n":           "\"\"\"\n\n\"\"\"",
		"a\\b\n":       "'''\na\\b\n'''",
		`it's \`:       `'''it's \'''`,
		"\x00\"\r\x7f": `"\u0000\"\r\u007F"`,
		`'''\`:         `"'''\\"`,
	} {
		if got := stringText(text); got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
}

// What is encoded is read as the same values.
func TestEncodedComesBack(t *testing.T) {
	text := rapid.OneOf(rapid.String(), rapid.StringOf(rapid.SampledFrom([]rune("a'\"\\\n\r\t\x00. é"))))
	var value func(depth int) *rapid.Generator[any]
	table := func(depth int) *rapid.Generator[map[string]any] { return rapid.MapOfN(text, value(depth), 0, 4) }
	value = func(depth int) *rapid.Generator[any] {
		kinds := []*rapid.Generator[any]{
			text.AsAny(), rapid.Int64().AsAny(), rapid.Bool().AsAny(),
			rapid.Float64().Filter(func(f float64) bool { return !math.IsNaN(f) }).AsAny(),
		}
		if depth > 0 {
			kinds = append(kinds, table(depth-1).AsAny(), rapid.SliceOfN(value(depth-1), 0, 3).AsAny())
		}
		return rapid.OneOf(kinds...)
	}
	rapid.Check(t, func(t *rapid.T) {
		want := table(3).Draw(t, "table")
		text, ok := encode(want, 1<<30)
		got := make(map[string]any)
		if err := toml.Unmarshal([]byte(text), &got); err != nil || !ok || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v\n%s\n got %#v\nwant %#v", err, text, got, want)
		}
	})
}

func TestHome(t *testing.T) {
	dir, _ := machine(t, map[string]string{"file": "", "home/x": ""})
	if err := os.Symlink("home", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for value, want := range map[string]string{
		"":              "/u/.codex",
		dir + "/link":   dir + "/home",
		dir + "/none":   fmt.Sprintf("CODEX_HOME points to %q, but that path does not exist", dir+"/none"),
		dir + "/file":   fmt.Sprintf("CODEX_HOME points to %q, but that path is not a directory", dir+"/file"),
		dir + "/file/x": fmt.Sprintf("failed to read CODEX_HOME %q: Not a directory (os error 20)", dir+"/file/x"),
	} {
		t.Setenv("CODEX_HOME", value)
		got, err := Home("/u")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q: %q, want %q", value, got, want)
		}
	}
}

func TestHostname(t *testing.T) {
	name, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	if got := Hostname(); got != plainName(name) && !strings.HasPrefix(got, plainName(name)+".") && !strings.Contains(got, ".") {
		t.Errorf("%q, the system says %q", got, name)
	}
	if got := plainName(" Runner-01.Example.COM. "); got != "runner-01.example.com" {
		t.Errorf("%q", got)
	}
}
