package protocol

import "testing"

func TestConfinesReads(t *testing.T) {
	restricted := func(entries string) string {
		return `{"permissions":{"type":"managed","file_system":{"type":"restricted","entries":[` + entries + `]},"network":"restricted"}}`
	}
	const root, project = `{"type":"special","value":{"kind":"root"}}`, `{"type":"special","value":{"kind":"project_roots"}}`
	for sandbox, want := range map[string]bool{
		`{"permissions":{"type":"disabled"}}`:                                                             false,
		`{"permissions":{"type":"disabled"},"cwd":null,"future":1}`:                                       false,
		`{"permissions":{"type":"external","network":"enabled"}}`:                                         false,
		`{"permissions":{"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"}}`: false,
		restricted(`{"path":` + root + `,"access":"read"}`):                                               false,
		restricted(`{"path":` + root + `,"access":"write","missing_path_behavior":"skip"}`):               false,
		restricted(`{"path":` + root + `,"access":"read"},{"path":` + project + `,"access":"write"}`):     false,

		`{}`: true, `[]`: true, `"read-only"`: true, `{"permissions":{}}`: true,
		`{"permissions":{"type":"future"}}`:                                                     true,
		`{"permissions":{"Type":"disabled"}}`:                                                   true,
		`{"permissions":{"type":"disabled","narrower":true}}`:                                   true,
		`{"permissions":{"type":"managed","file_system":{"type":"unrestricted","narrower":1}}}`: true,
		`{"permissions":{"type":"managed","file_system":{"type":"restricted"}}}`:                true,
		restricted(``): true,
		restricted(`{"path":` + project + `,"access":"read"}`):                                            true,
		restricted(`{"path":` + root + `,"access":"deny"}`):                                               true,
		restricted(`{"path":` + root + `,"access":"read"},{"path":` + project + `,"access":"deny"}`):      true,
		restricted(`{"path":` + root + `,"access":"read"},{"path":` + project + `,"access":"none"}`):      true,
		restricted(`{"path":` + root + `,"access":"read","narrower":1}`):                                  true,
		restricted(`{"path":{"type":"special","value":{"kind":"root","subpath":"usr"}},"access":"read"}`): true,
		restricted(`{"path":{"type":"path","path":"file:///","value":{"kind":"root"}},"access":"read"}`):  true,
	} {
		if got := (Confinement{Sandbox: []byte(sandbox)}).confinesReads(); got != want {
			t.Errorf("%s confines reads: %t", sandbox, got)
		}
	}
	if (Confinement{}).confinesReads() {
		t.Error("no sandbox confines reads")
	}
}
