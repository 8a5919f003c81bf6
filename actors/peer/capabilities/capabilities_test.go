package capabilities

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"

	"go.uber.org/goleak"

	"github.com/b6f6fdd7/troupe/actors/files"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/testleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

const deploy = "---\nname: deploy\ndescription: Deploy the service.\n---\nThe instructions.\n"

// tree makes files below a new directory, and returns the directory.
func tree(t *testing.T, contents map[string]string) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range contents {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func look(t *testing.T, dir string) protocol.CapabilityRootDiscovery {
	t.Helper()
	r, err := Roots(t.Context(), []protocol.CapabilityRoot{{ID: "r", Path: protocol.FileURI(dir)}}, nil, nil)
	if err != nil || len(r.Roots) != 1 {
		t.Fatal(r, err)
	}
	return r.Roots[0]
}

// below returns the paths of files, relative to dir.
func below(t *testing.T, dir string, found ...protocol.DiscoveredFile) (names []string) {
	t.Helper()
	for _, f := range found {
		path, err := protocol.ParseFileURI(f.Path)
		if err != nil {
			t.Fatal(err)
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, name)
	}
	return names
}

func instructions(d protocol.CapabilityRootDiscovery) (found []protocol.DiscoveredFile) {
	for _, skill := range d.Skills {
		found = append(found, skill.Instructions)
	}
	return found
}

func TestRoots(t *testing.T) {
	dir := tree(t, map[string]string{
		".codex-plugin/plugin.json":                `{"name":"demo","mcpServers":"./config/mcp.json","apps":"./config/apps.json"}`,
		".claude-plugin/plugin.json":               `{"name":"second choice"}`,
		"config/mcp.json":                          `{"mcpServers":{}}`,
		"config/apps.json":                         `{"apps":{}}`,
		"skills/deploy/SKILL.md":                   deploy,
		"skills/deploy/agents/openai.yaml":         "policy: {}\n",
		"nested/.claude-plugin/plugin.json":        `{"name":"nested"}`,
		"nested/.cursor-plugin/plugin.json":        `{"name":"nested, second choice"}`,
		"nested/skills/audit/SKILL.md":             deploy,
		"nested-cursor/.cursor-plugin/plugin.json": `{"name":"cursor"}`,
		"nested-cursor/plugin.json":                `{"name":"no manifest"}`,
		"a/b/c/d/e/f/SKILL.md":                     deploy,
		"a/b/c/d/e/f/g/SKILL.md":                   "beyond the depth",
	})
	d := look(t, dir)
	if d.ID != "r" || d.Path != protocol.FileURI(dir) || d.Error != nil || d.Warnings != nil {
		t.Errorf("%+v", d)
	}
	if got := below(t, dir, d.Plugin.Manifest, *d.Plugin.MCPConfig, *d.Plugin.AppsConfig); !slices.Equal(got, []string{".codex-plugin/plugin.json", "config/mcp.json", "config/apps.json"}) {
		t.Errorf("the plugin has %q", got)
	}
	if got := below(t, dir, d.NamespaceManifests...); !slices.Equal(got, []string{".codex-plugin/plugin.json", "nested/.claude-plugin/plugin.json", "nested-cursor/.cursor-plugin/plugin.json"}) {
		t.Errorf("manifests %q", got)
	}
	if got := below(t, dir, instructions(d)...); !slices.Equal(got, []string{"a/b/c/d/e/f/SKILL.md", "nested/skills/audit/SKILL.md", "skills/deploy/SKILL.md"}) {
		t.Errorf("skills %q", got)
	}
	if last := d.Skills[len(d.Skills)-1]; last.Metadata == nil || last.Metadata.Contents != "policy: {}\n" || last.Instructions.Contents != deploy {
		t.Errorf("%+v", last)
	}
}

// A root within a plugin has the namespace of the plugin, and is not the plugin.
func TestRootWithinPlugin(t *testing.T) {
	dir := tree(t, map[string]string{"p/.claude-plugin/plugin.json": `{"name":"p"}`, "p/skills/deploy/SKILL.md": deploy})
	d := look(t, filepath.Join(dir, "p/skills"))
	if got := below(t, dir, d.NamespaceManifests...); d.Plugin != nil || !slices.Equal(got, []string{"p/.claude-plugin/plugin.json"}) || len(d.Skills) != 1 {
		t.Errorf("%q, %+v", got, d)
	}
}

func TestRootsThatFail(t *testing.T) {
	dir := tree(t, map[string]string{"file": ""})
	for path, want := range map[string]string{
		dir + "/file":     "capability root %s is not a directory",
		dir + "/none":     "failed to inspect capability root %s: No such file or directory (os error 2)",
		dir + "/file/sub": "failed to inspect capability root %s: Not a directory (os error 20)",
	} {
		uri := protocol.FileURI(path)
		if d := look(t, path); d.Error == nil || *d.Error != fmt.Sprintf(want, uri) || d.Path != uri {
			t.Errorf("%s: %+v", path, d)
		}
	}
	if _, err := Roots(t.Context(), make([]protocol.CapabilityRoot, 129), nil, nil); err == nil || err.Error() != "capability root discovery accepts at most 128 roots" {
		t.Error(err)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Roots(over, []protocol.CapabilityRoot{{Path: protocol.FileURI(dir)}}, nil, nil); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// The files that a manifest names: in the right place, or with a warning.
func TestDeclaredFiles(t *testing.T) {
	const ignored = "ignoring mcpServers in %s: path must "
	for manifest, want := range map[string]struct{ mcp, warning string }{
		`{}`:                                {".mcp.json", ""},
		`no JSON`:                           {".mcp.json", ""},
		`{"mcpServers":null}`:               {".mcp.json", ""},
		`{"mcpServers":7}`:                  {".mcp.json", ""},
		`{"MCPServers":{}}`:                 {".mcp.json", ""},
		`{"mcpServers":{"a":{}}}`:           {"", ""},
		`{"mcpServers":"./sub/mcp.json"}`:   {"sub/mcp.json", ""},
		`{"mcpServers":"./none.json"}`:      {"", ""},
		`{"mcpServers":"sub/mcp.json"}`:     {".mcp.json", ignored + "start with `./`"},
		`{"mcpServers":"./"}`:               {".mcp.json", ignored + "remain below the capability root"},
		`{"mcpServers":"./../x"}`:           {".mcp.json", ignored + "remain below the capability root"},
		`{"mcpServers":"./sub\\..\\..\\x"}`: {".mcp.json", ignored + "remain below the capability root"},
		`{"mcpServers":".//etc/passwd"}`:    {".mcp.json", ignored + "remain below the capability root"},
	} {
		dir := tree(t, map[string]string{".cursor-plugin/plugin.json": manifest, ".mcp.json": "{}", "sub/mcp.json": "{}"})
		d := look(t, dir)
		var got struct{ mcp, warning string }
		if d.Plugin.MCPConfig != nil {
			got.mcp = below(t, dir, *d.Plugin.MCPConfig)[0]
		}
		if got.warning = strings.Join(d.Warnings, "\n"); want.warning != "" {
			want.warning = fmt.Sprintf(want.warning, d.Plugin.Manifest.Path)
		}
		if got != want {
			t.Errorf("%s: %+v, want %+v", manifest, got, want)
		}
	}
}

// Directories behind links are searched, and files behind links are read if a manifest names them.
func TestLinks(t *testing.T) {
	outside := tree(t, map[string]string{"skill/SKILL.md": deploy, "mcp.json": "{}"})
	dir := tree(t, map[string]string{".codex-plugin/plugin.json": `{"mcpServers":"./linked.json"}`, "skills/none": ""})
	for link, to := range map[string]string{"skills/linked": outside + "/skill", "linked.json": outside + "/mcp.json", "skills/loop": dir, "skills/dangling": outside + "/none"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	d := look(t, dir)
	if got := below(t, dir, instructions(d)...); !slices.Equal(got, []string{"skills/linked/SKILL.md"}) || d.Plugin.MCPConfig == nil || d.Warnings != nil {
		t.Errorf("%q, %+v", got, d)
	}
}

// A file that cannot be read is left out with a warning. The others are there.
func TestUnreadableFiles(t *testing.T) {
	defer func(file, bundle, all int) { maxFile, maxBundle, maxContents = file, bundle, all }(maxFile, maxBundle, maxContents)
	dir := tree(t, map[string]string{"a/SKILL.md": "\xff", "b/SKILL.md": "ab\xe2\x82", "c/SKILL.md": "abc\xe2\x82x", "d/SKILL.md": deploy, "e/SKILL.md": deploy + deploy})
	if err := syscall.Mkfifo(filepath.Join(dir, "plugin.json"), 0o644); err != nil {
		t.Fatal(err)
	}
	uri := protocol.FileURI(dir)
	utf8Warnings := []string{
		"capability file " + uri + "/a/SKILL.md is not UTF-8: invalid utf-8 sequence of 1 bytes from index 0",
		"capability file " + uri + "/b/SKILL.md is not UTF-8: incomplete utf-8 byte sequence from index 2",
		"capability file " + uri + "/c/SKILL.md is not UTF-8: invalid utf-8 sequence of 2 bytes from index 3",
	}
	size, encoded := len(deploy), files.EncodedLen(deploy)
	for _, c := range []struct {
		file, bundle, all, skills int
		warning                   string
	}{
		{1000, 1000, 1000, 2, ""},
		{size, 1000, 1000, 1, fmt.Sprintf("capability file %s/e/SKILL.md exceeds the %d-byte limit", uri, size)},
		{1000, 3*size - 1, 1000, 1, fmt.Sprintf("capability root bundle exceeds the %d-byte limit", 3*size-1)},
		{1000, 1000, 3*encoded - 1, 1, fmt.Sprintf(noRoom, uri+"/e/SKILL.md", 3*encoded-1)},
		{1000, 3 * size, 3 * encoded, 2, ""},
	} {
		maxFile, maxBundle, maxContents = c.file, c.bundle, c.all
		want := utf8Warnings
		if c.warning != "" {
			want = append(slices.Clone(want), c.warning)
		}
		if d := look(t, dir); len(d.Skills) != c.skills || !slices.Equal(d.Warnings, want) {
			t.Errorf("%+v: %d skills, %q", c, len(d.Skills), d.Warnings)
		}
	}
}

// All warnings of an answer together are bounded.
func TestManyWarnings(t *testing.T) {
	defer func(n int) { maxWarningBytes = n }(maxWarningBytes)
	root := protocol.CapabilityRoot{Path: protocol.FileURI(tree(t, map[string]string{"a/SKILL.md": "\xff"}))}
	maxWarningBytes = 500
	r, err := Roots(t.Context(), slices.Repeat([]protocol.CapabilityRoot{root}, maxRoots), nil, nil)
	size := 0
	for _, d := range r.Roots {
		size += len(strings.Join(d.Warnings, ""))
	}
	if err != nil || size == 0 || size > maxWarningBytes {
		t.Errorf("%d bytes of warnings: %v", size, err)
	}
}

// All memory of an answer is asked for, and the memory of a refused or finished search is given back.
func TestMemory(t *testing.T) {
	dir := tree(t, map[string]string{".codex-plugin/plugin.json": `{}`, "skills/a/SKILL.md": deploy, "skills/b/SKILL.md": "\xff" + deploy})
	held := 0
	hold := func(n int) error { held += n; return nil }
	roots := []protocol.CapabilityRoot{{Path: protocol.FileURI(dir)}}
	r, err := Roots(t.Context(), roots, nil, hold)
	want := 0
	for _, f := range append(instructions(r.Roots[0]), r.Roots[0].Plugin.Manifest) {
		want += len(f.Contents)
	}
	for _, warning := range r.Roots[0].Warnings {
		want += len(warning)
	}
	if err != nil || held != want || len(r.Roots[0].Warnings) == 0 {
		t.Errorf("holds %d bytes, want %d: %v", held, want, err)
	}
	full := errors.New("full")
	for room := range held {
		held = 0
		if _, err := Roots(t.Context(), roots, nil, func(n int) error {
			if held+n > room {
				return full
			}
			held += n
			return nil
		}); !errors.Is(err, full) {
			t.Fatalf("with %d bytes of memory: %v", room, err)
		}
	}
}

// homes makes the homes below dir.
func homes(dir string) Homes {
	return Homes{Codex: dir + "/codex", User: dir + "/user", System: dir + "/system"}
}

func installed(t *testing.T, dir string) protocol.CapabilitiesDiscoverResult {
	t.Helper()
	held := 0
	r, err := Installed(t.Context(), homes(dir), func(n int) error { held += n; return nil })
	if err != nil || held < 0 {
		t.Fatal(held, err)
	}
	return r
}

func TestInstalled(t *testing.T) {
	const at = "codex/plugins/cache/market/"
	dir := tree(t, map[string]string{
		at + "demo/local/.codex-plugin/plugin.json":        `{"name":"demo"}`,
		at + "demo/9.9.9/.codex-plugin/plugin.json":        `{"name":"not local"}`,
		at + "demo/main/.codex-plugin/plugin.json":         `{"name":"not local"}`,
		at + "demo/local/skills/deploy/SKILL.md":           deploy,
		at + "demo/local/nested/.codex-plugin/plugin.json": `{"name":"team"}`,
		at + "demo/local/nested/skills/x/SKILL.md":         deploy,
		at + "demo/.codex-remote-plugin-install.json":      `{"schema_version":1,"remote_plugin_id":" plugin_1 "}`,
		at + "a.b/1.10.0/.claude-plugin/plugin.json":       `{}`,
		at + "a.b/1.9.0/.claude-plugin/plugin.json":        `{}`,
		at + "not valid/local/.codex-plugin/plugin.json":   `{}`,
		at + "no-version":                               "a file",
		"codex/plugins/cache/bad.market/p/local/x":      "",
		"codex/skills/deploy  skill/SKILL.md":           strings.Replace(deploy, "name: deploy\n", "", 1),
		"codex/skills/nested/.codex-plugin/plugin.json": `{"name":" "}`,
		"codex/skills/nested/skills/deploy/SKILL.md":    deploy,
		"user/.agents/skills/mine/SKILL.md":             "---\nname: mine\ndescription: d\nmetadata:\n  short-description: s\n---\n",
		"user/.agents/skills/mine/agents/openai.yaml":   "x",
		"system/skills/ours/SKILL.md":                   "---\nname: ours\ndescription: d\n---\n",
	})
	r := installed(t, dir)
	if r.Warnings != nil {
		t.Errorf("%q", r.Warnings)
	}
	text := func(s string) *string { return &s }
	skill := func(name, path string, namespace *string) protocol.InstalledSkill {
		return protocol.InstalledSkill{Name: name, Namespace: namespace, Description: "Deploy the service.", Path: protocol.FileURI(filepath.Join(dir, path))}
	}
	mine := skill("mine", "user/.agents/skills/mine/SKILL.md", nil)
	mine.Description, mine.ShortDescription = "d", text("s")
	mine.Metadata = &protocol.DiscoveredFile{Path: protocol.FileURI(dir + "/user/.agents/skills/mine/agents/openai.yaml"), Contents: "x"}
	ours := skill("ours", "system/skills/ours/SKILL.md", nil)
	ours.Description = "d"
	if want := []protocol.InstalledSkill{
		skill("deploy skill", "codex/skills/deploy  skill/SKILL.md", nil), skill("deploy", "codex/skills/nested/skills/deploy/SKILL.md", text("nested")), mine, ours,
	}; !reflect.DeepEqual(r.Skills, want) {
		t.Errorf("skills\n%+v, want\n%+v", r.Skills, want)
	}
	if len(r.Plugins) != 2 {
		t.Fatalf("%+v", r.Plugins)
	}
	if p := r.Plugins[0]; p.ID != "a.b@market" || p.Version != "1.10.0" || p.RemotePluginID != nil || p.Skills != nil {
		t.Errorf("%+v", p)
	}
	p := r.Plugins[1]
	if p.ID != "demo@market" || p.Version != "local" || p.RemotePluginID == nil || *p.RemotePluginID != "plugin_1" || p.Root != protocol.FileURI(dir+"/"+at+"demo/local") || p.Files.Manifest.Contents != `{"name":"demo"}` {
		t.Errorf("%+v", p)
	}
	if want := []protocol.InstalledSkill{skill("deploy", at+"demo/local/nested/skills/x/SKILL.md", text("team")), skill("deploy", at+"demo/local/skills/deploy/SKILL.md", text("demo"))}; !reflect.DeepEqual(p.Skills, want) {
		t.Errorf("skills of the plugin\n%+v, want\n%+v", p.Skills, want)
	}
}

// What is wrong with one directory is a warning. The warning names no path.
func TestInstalledWarns(t *testing.T) {
	const at, skills = "codex/plugins/cache/market/demo/", "codex/skills/x/SKILL.md"
	for _, c := range []struct {
		name    string
		tree    map[string]string
		plugins int
		want    []string
	}{
		{"nothing there", nil, 0, nil},
		{"no manifest", map[string]string{at + "local/x": ""}, 0, []string{warnMetadata}},
		{"a bad skill", map[string]string{skills: "no front matter"}, 0, []string{warnMetadata}},
		{"a long name", map[string]string{"codex/skills/.codex-plugin/plugin.json": `{"name":"` + strings.Repeat("n", 123) + `"}`, skills: deploy}, 0, []string{warnMetadata}},
		{"a bad install file", map[string]string{at + "local/.codex-plugin/plugin.json": "{}", at + installFile: `{"schema_version":2,"remote_plugin_id":"p"}`}, 1, []string{warnLocations}},
		{"a blank id", map[string]string{at + "local/.codex-plugin/plugin.json": "{}", at + installFile: `{"schema_version":1,"remote_plugin_id":" "}`}, 1, []string{warnLocations}},
		{"a large install file", map[string]string{at + "local/.codex-plugin/plugin.json": "{}", at + installFile: strings.Repeat(" ", maxInstallFile) + `{}`}, 1, []string{warnLocations}},
		{"no directory at all", map[string]string{"codex": "a file"}, 0, []string{"could not prewarm capability discovery: NotADirectory"}},
	} {
		r := installed(t, tree(t, c.tree))
		if len(r.Plugins) != c.plugins || len(r.Skills) != 0 || !slices.Equal(r.Warnings, c.want) {
			t.Errorf("%s: %+v", c.name, r)
		}
	}
}

// An answer that is cut says so, and fits its bounds.
func TestInstalledIsBounded(t *testing.T) {
	defer func(bytes, count int) { maxAnswer, maxCapabilities = bytes, count }(maxAnswer, maxCapabilities)
	all := map[string]string{"codex/plugins/cache/m/p/local/.codex-plugin/plugin.json": "{}"}
	for i := range 5 {
		all[fmt.Sprintf("codex/plugins/cache/m/p/local/s%d/SKILL.md", i)] = deploy
		all[fmt.Sprintf("codex/skills/s%d/SKILL.md", i)] = deploy
	}
	dir := tree(t, all)
	for count := range 12 {
		maxCapabilities = count
		r := installed(t, dir)
		got := len(r.Plugins) + len(r.Skills)
		for _, p := range r.Plugins {
			got += len(p.Skills)
		}
		if cut := slices.Equal(r.Warnings, []string{warnLimit}); got != min(count, 11) || cut != (count < 11) {
			t.Errorf("at most %d: %d, %q", count, got, r.Warnings)
		}
	}
	maxCapabilities = 11
	whole := sizeOf(installed(t, dir))
	for _, bytes := range []int{whole, whole - 1, whole / 2, 200} {
		maxAnswer = bytes
		r := installed(t, dir)
		if cut := slices.Equal(r.Warnings, []string{warnLimit}); sizeOf(r) > bytes || cut != (bytes < whole) {
			t.Errorf("at most %d bytes: %d, %q", bytes, sizeOf(r), r.Warnings)
		}
	}
}

// A skill that does not fit leaves room for smaller ones.
func TestLargeSkill(t *testing.T) {
	defer func(bytes int) { maxAnswer = bytes }(maxAnswer)
	dir := tree(t, map[string]string{"codex/skills/a/SKILL.md": "---\ndescription: " + strings.Repeat("d", 2_000) + "\n---\n", "codex/skills/b/SKILL.md": deploy})
	maxAnswer = 1_000
	if r := installed(t, dir); len(r.Skills) != 1 || r.Skills[0].Name != "deploy" || !slices.Equal(r.Warnings, []string{warnLimit}) {
		t.Errorf("%+v", r)
	}
}

func TestNewer(t *testing.T) {
	for _, order := range [][2]string{{"1.10.0", "1.9.0"}, {"1.0.0", "1.0.0-rc.1"}, {"1.0.0+b", "1.0.0+a"}, {"b", "a"}, {"9", "10"}, {"1.9", "1.10"}} {
		if !newer(order[0], order[1]) || newer(order[1], order[0]) {
			t.Errorf("%s is not newer than %s", order[0], order[1])
		}
	}
}

func TestParseSkill(t *testing.T) {
	long := strings.Repeat("ä", 64)
	for text, want := range map[string]string{
		"name: n\ndescription: d":                                            "n|d|",
		"description: d":                                                     "the dir|d|",
		"name: '  '\ndescription: \" a \\n b \"":                             "the dir|a b|",
		"name: ~\ndescription: >\n  folded\n  text\n":                        "the dir|folded text|",
		"name: n\ndescription: d\nmetadata:\n  short-description: s\nx: [1]": "n|d|s",
		"name: n\ndescription: d\nmetadata:":                                 "n|d|",
		"name: n\ndescription: Build for AWS: ECS":                           "n|Build for AWS: ECS|",
		"name: n\ndescription: it's for AWS: ECS # comment":                  "n|it's for AWS: ECS|",
		"name: n\ndescription: [a, b":                                        "n|[a, b|",
		"name: n\ndescription: @me":                                          "n|@me|",
		"name: n\ndescription: d\nargument-hint: <x: e.g. 7d>":               "n|d|",
		"name: n\ndescription: |\n  a: b: c\nhint: a: b":                     "n|a: b: c|",
		"name: &a n\ndescription: *a":                                        "n|n|",
		"name: yes\ndescription: 2001-01-01":                                 "yes|2001-01-01|",
		"name: " + long + "\ndescription: d":                                 long + "|d|",
		"# only a comment":                                                   "error",
		"name: " + long + "x\ndescription: d":                                "error",
		"name: n":                                                            "error",
		"name: n\ndescription: 7":                                            "error",
		"name: n\ndescription: true":                                         "error",
		"name: n\ndescription: [d]":                                          "error",
		"name: n\nname: m\ndescription: d":                                   "error",
		"name: n\ndescription: d\nmetadata: text":                            "error",
		"name: n\ndescription: d\nmetadata: {short-description: 7}":          "error",
		"- name: n": "error",
		"name: 'n":  "error",
	} {
		skill, err := parseSkill("---\n"+text+"\n---\nbody: not looked at: at all\n", "the  dir")
		got := skill.name + "|" + skill.description + "|"
		if skill.short != nil {
			got += *skill.short
		}
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %q, want %q; %v", text, got, want, err)
		}
	}
	for _, text := range []string{"", "---", "---\n---\n", "name: n\n---\n", "---\nname: n\ndescription: d\n", "---\ndescription: " + strings.Repeat("d", maxFrontMatter) + "\n---\n"} {
		if _, err := parseSkill(text, "d"); err == nil {
			t.Errorf("%.40q is not a front matter", text)
		}
	}
	if skill, err := parseSkill(" --- \r\ndescription: d\r\n---", " "); err != nil || skill.name != "skill" || skill.description != "d" {
		t.Errorf("%+v, %v", skill, err)
	}
}

// Aliases that stand for aliases are never expanded.
func TestAliasBomb(t *testing.T) {
	text := "a0: &a0 [x,x]\n"
	for i := range 60 {
		text += fmt.Sprintf("a%d: &a%d [*a%d,*a%[3]d]\n", i+1, i+1, i)
	}
	if skill, err := parseSkill("---\n"+text+"description: d\n---\n", "bomb"); err != nil || skill.name != "bomb" {
		t.Errorf("%+v, %v", skill, err)
	}
	if _, err := parseSkill("---\n"+text+"description: *a60\n---\n", "bomb"); err == nil {
		t.Error("a list is not a description")
	}
}

var _ files.Hold = func(int) error { return nil }
