package protocol

import (
	"cmp"
	"fmt"
	"net/url"
	"path"
	"regexp"
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

// uriSeeds are URIs in every form known to ParseFileURI.
var uriSeeds = []string{
	"file:///tmp/a%20b", `file:\\localhost\..\x`, "file://h/x", "/C:/%2e%2e/x", "file:///%2F%2e%2e%2F/C:/", " FILE:c|",
	"file:tmp/./x", "file:/tmp", "file:////tmp//", "file://LocalHost", "file://localhost:80/", "file://u@localhost/", "file://[::1]/x", "file://%6cocalhost/",
	"file:///a//../b", "file:///a//../../b", "file:///%3F%23", "file:///a/%2E%2e/../c", "file:///a%2Fb/../c", "file:///%2e%2e%2fetc", "file:///a/.../b", "file:///..%20/b",
	"file:///a?b#c", "file:///a#b?c", "file:///?", "file:#", "file:///a/C:", "file:///a/../C|", "file:///C%3A/..", "file:///C:/..", "file:c:d",
	"file:///tmp/100%", "file:///%zz%4", "file:///%00", "file:///a%00/../b", "file:///\xff%FF", "file:///é%C3%A9", "file:///a\nb\tc", "\x01file:///a \r\n",
	"http://x/", "a:", ":", "1:", "file", "%66ile:///a", "fi le:///a", "file:/[", "file:///[a]|^`{}\"<>", "file://localho\u017ft/a",
}

// FuzzParseFileURI compares ParseFileURI with package net/url. net/url accepts fewer characters in
// a URI, so the test passes it an equivalent form. net/url does not know file paths, so the test
// has its own rules for paths, written differently from ParseFileURI. (exec-server wire §3.)
func FuzzParseFileURI(f *testing.F) {
	for _, s := range uriSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > maxFileURI {
			return
		}
		got, err := ParseFileURI(s)
		want, refusal := fileOfURL(s)
		switch {
		case refusal != "" && err == nil:
			t.Errorf("%q is %q, want %s", s, got, refusal)
		case refusal != "" && !strings.Contains(err.Error(), refusal):
			t.Errorf("%q: %v, want %s", s, err, refusal)
		case refusal == "" && (err != nil || got != want):
			t.Errorf("%q: %q, %v; want %q", s, got, err, want)
		}
		if err != nil {
			return
		}
		uri := FileURI(got)
		if u, err := url.Parse(uri); err != nil || u.Scheme != "file" || u.Host != "" || u.Path != got || u.RawQuery != "" || u.Fragment != "" {
			t.Errorf("%q is %s, which net/url takes for %#v, %v", got, uri, u, err)
		}
		if len(uri) <= maxFileURI {
			if back, err := ParseFileURI(uri); err != nil || back != got {
				t.Errorf("%q is %s, which is %q, %v", got, uri, back, err)
			}
		}
	})
}

var (
	percents     = regexp.MustCompile(`%([0-9A-Fa-f]{2})?`)
	controls     = regexp.MustCompile("[\x00-\x1f\x7f]")
	notInPath    = regexp.MustCompile(`[^A-Za-z0-9/%._~-]`)
	encodedDot   = regexp.MustCompile(`(?i)%2e`)
	driveLetters = regexp.MustCompile(`^[A-Za-z][:|]$`)
)

// percentEncoded is s with all matches of the regular expression percent-encoded, byte by byte.
func percentEncoded(what *regexp.Regexp, s string) string {
	return what.ReplaceAllStringFunc(s, func(bytes string) (text string) {
		for i := range len(bytes) {
			text += fmt.Sprintf("%%%02X", bytes[i])
		}
		return text
	})
}

// fileOfURL is the path in s according to net/url, or a part of the expected error.
func fileOfURL(s string) (file, refusal string) {
	s = strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	s = percentEncoded(controls, strings.ReplaceAll(s, `\`, "/"))
	s = percents.ReplaceAllStringFunc(s, func(p string) string {
		if p == "%" {
			return "%25"
		}
		return p
	})
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", "URI" // all these errors contain "URI"
	case u.Scheme == "":
		return "", "invalid URI: relative URL without a base"
	case u.Scheme != "file":
		return "", "unsupported path URI scheme"
	case u.ForceQuery || u.RawQuery != "":
		return "", "query parameters are not allowed"
	case strings.Contains(s, "#"):
		return "", "fragments are not allowed"
	case u.User != nil || u.Host != "" && !strings.EqualFold(u.Host, "localhost"):
		return "", "it names the host"
	}
	raw := cmp.Or(u.RawPath, u.EscapedPath(), "/")
	if u.Opaque != "" {
		raw = "/" + u.Opaque
	}
	segments := strings.Split(raw, "/")
	for i, segment := range segments {
		if driveLetters.MatchString(segment) && strings.Trim(resolved(strings.Join(segments[:i], "/")).EscapedPath(), "/") == "" {
			return "", "it names the drive"
		}
	}
	file = path.Clean("/" + resolved(raw).Path)
	if strings.Contains(file, "\x00") {
		return "", "a path cannot contain NUL"
	}
	return file, ""
}

// resolved is a path without its dot segments, as a reference in RFC 3986 §5.2.4.
func resolved(raw string) *url.URL {
	raw = encodedDot.ReplaceAllString(percentEncoded(notInPath, cmp.Or(raw, "/")), ".")
	u, err := url.Parse("file://" + raw)
	if err != nil {
		panic(err)
	}
	return (&url.URL{Scheme: "file", Path: "/"}).ResolveReference(u)
}

func FuzzFileURI(f *testing.F) {
	for _, s := range uriSeeds {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > maxFileURI/4 { // percent-encoded, s would be too long
			return
		}
		p, err := ParseFileURI(s)
		if err != nil {
			p = path.Clean("/" + s) // a valid path for a round trip
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
