package protocol

import (
	"path"
	"strings"
	"testing"
)

func TestParseFileURI(t *testing.T) {
	for _, c := range []struct{ uri, want string }{
		{"file:///tmp", "/tmp"},
		{"file:///srv/a%20b", "/srv/a b"},
		{"file:///srv/a b", "/srv/a b"},
		{"file:///srv/é", "/srv/é"},
		{"file:///srv/%C3%a9", "/srv/é"},
		{"file:///tmp/%FF", "/tmp/\xff"},
		{"FILE:///tmp", "/tmp"},
		{"file:/tmp", "/tmp"},
		{"file:tmp", "/tmp"},
		{"file:", "/"},
		{"file://localhost/tmp", "/tmp"},
		{"file://LOCALHOST/tmp", "/tmp"},
		{"file:////tmp", "/tmp"},
		{"file:///tmp//", "/tmp"},
		{"file:///tmp/a%20b/../", "/tmp"},
		{"file:///tmp/./%2E/x", "/tmp/x"},
		{"file:///tmp/%2e%2e/etc", "/etc"},
		{"file:///../../etc", "/etc"},
		{"file:///a//../b", "/a/b"},
		{"file:///tmp/%2Fetc", "/tmp/etc"},
		{"file:///tmp/%2e%2e%2fetc", "/etc"},
		{" file:///tmp \n", "/tmp"},
		{`file:\\\tmp\x`, "/tmp/x"},
		{"file:///tmp/100%", "/tmp/100%"},
		{"file:///tmp/%4", "/tmp/%4"},
		{"file:///tmp/%zz%3F%23", "/tmp/%zz?#"},
		{"file:///tmp/C:/x", "/tmp/C:/x"},
		{"file:///C%3A/x", "/C:/x"},
		{"file:///%2F/C:", "/C:"},
		{"file:///a//..//C:", "/a/C:"},
		{"file:" + strings.Repeat("/", maxFileURI-6) + "a", "/a"},
	} {
		if got, err := ParseFileURI(c.uri); err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.uri, got, err, c.want)
		}
	}
	for _, c := range []struct{ uri, want string }{
		{"", "invalid URI: relative URL without a base"},
		{"/tmp", "invalid URI: relative URL without a base"},
		{"tmp", "invalid URI: relative URL without a base"},
		{"/tmp/a:b", "invalid URI: relative URL without a base"},
		{"://tmp", "invalid URI: relative URL without a base"},
		{"http://x/", "unsupported path URI scheme `http`"},
		{"C:/x", "unsupported path URI scheme `C`"},
		{"file://server/share", "cwd URI `file://server/share` is not valid on this exec-server host: 'file://server/share' is invalid on '"},
		{"file://localhost:80/tmp", "it names the host localhost:80"},
		{"file:///C:/x", "it names the drive C:"},
		{"file:c|/x", "it names the drive c|"},
		{"file:////C:", "it names the drive C:"},
		{"file:///a/../C:", "it names the drive C:"},
		{"file:///a//../../../C:", "it names the drive C:"},
		{"file:///" + strings.Repeat("a", maxFileURI-7), "path URI of 16385 bytes: at most 16384"},
		{"file:///tmp?x=1", "query parameters are not allowed in path URIs"},
		{"file:///tmp?", "query parameters are not allowed in path URIs"},
		{"file:///tmp#frag?", "fragments are not allowed in path URIs"},
		{"file:///tmp/%00x", "'file:///tmp/%00x' is invalid on '"},
	} {
		if got, err := ParseFileURI(c.uri); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %q, %v; want … %s", c.uri, got, err, c.want)
		}
	}
}

func TestFileURI(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"/", "file:///"},
		{"/srv/a b/é", "file:///srv/a%20b/%C3%A9"},
		{"/C:/100%?#\\", "file:///C%3A/100%25%3F%23%5C"},
		{"/tmp//x/../y/", "file:///tmp/y"},
	} {
		if got := FileURI(c.path); got != c.want {
			t.Errorf("%q: %s, want %s", c.path, got, c.want)
		}
	}
}

func FuzzFileURI(f *testing.F) {
	for _, s := range []string{"file:///tmp/a%20b", `file:\\localhost\..\x`, "file://h/x", "/C:/%2e%2e/x", "file:///%2F%2e%2e%2F/C:/", " FILE:c|"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > maxFileURI/4 { // percent-encoded it would be too long
			return
		}
		p, err := ParseFileURI(s)
		if err != nil {
			p = path.Clean("/" + s) // then s is a path, to be told and read back
			if strings.IndexByte(p, 0) >= 0 {
				return
			}
		}
		if !path.IsAbs(p) || path.Clean(p) != p || strings.IndexByte(p, 0) >= 0 {
			t.Fatalf("%q is the path %q", s, p)
		}
		if back, err := ParseFileURI(FileURI(p)); err != nil || back != p {
			t.Fatalf("%q is %s, which is %q, %v", p, FileURI(p), back, err)
		}
	})
}
