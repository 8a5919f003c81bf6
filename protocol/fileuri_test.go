package protocol

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"runtime"
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
		{"file:///%2F/C:", "/C:"},
		{"file:///C|/x", "/C|/x"},
		{"file:///C:x", "/C:x"},
		{"file://%6cocalhost/tmp", "/tmp"},
		{"file:///t\tm\r\np", "/tmp"},
		{"file:///a//..//C:", "/a/C:"},
		{"file:" + strings.Repeat("/", maxFileURI-6) + "a", "/a"},
	} {
		if got, err := ParseFileURI(c.uri); err != nil || got != c.want {
			t.Errorf("%q: %q, %v; want %q", c.uri, got, err, c.want)
		}
	}
}

// The texts are those of the peer: its client compares them. (exec-server wire §3.)
func TestParseFileURIRefuses(t *testing.T) {
	for _, c := range []struct {
		uri, text string // 'X' in text stands for the URI X on this system
		foreign   bool
	}{
		{"", "invalid URI: relative URL without a base", false},
		{"/tmp", "invalid URI: relative URL without a base", false},
		{"tmp", "invalid URI: relative URL without a base", false},
		{"/tmp/a:b", "invalid URI: relative URL without a base", false},
		{"://tmp", "invalid URI: relative URL without a base", false},
		{"http://x/", "unsupported path URI scheme `http`", false},
		{"C:/x", "unsupported path URI scheme `c`", false},
		{"file://server/share", "'file://server/share'", true},
		{"file://SERVER/share/../x y", "'file://server/x%20y'", true},
		{"file://server", "'file://server/'", true},
		{"file://server//x//y/", "'file://server/x//y/'", true},
		{"file://server/a\"b<c>d`e{f}g^h|i[j]k'l\u00e9%zz%41\\z", "'file://server/a%22b%3Cc%3Ed%60e%7Bf%7Dg^h|i[j]k'l%C3%A9%zz%41/z'", true},
		{"file://[::1]/tmp", "'file://[::1]/tmp'", true},
		{"file://[::1/x", "invalid URI: invalid IPv6 address", false},
		{"file://[zz]/x", "invalid URI: invalid IPv6 address", false},
		{"file://[127.0.0.1]/x", "invalid URI: invalid IPv6 address", false},
		{"file://localhost:80/tmp", "invalid URI: invalid international domain name", false},
		{"file://u@localhost/tmp", "invalid URI: invalid international domain name", false},
		{"file://ser ver/share", "invalid URI: invalid international domain name", false},
		{"file://ser%00ver/share", "invalid URI: invalid international domain name", false},
		{"file:///C:/x", "'file:///C:/x'", true},
		{"file:///c%3A/x", "'file:///C%3A/x'", true},
		{"file:c|/x", "'file:///C:/x'", true},
		{"file://c|/x", "'file:///C:/x'", true},
		{"file://C:", "'file:///C:'", true},
		{"file://server/C:/x", "'file:///C:/x'", true},
		{"file:////C:", "'file:///C:'", true},
		{"file:///a/../C:", "'file:///C:'", true},
		{"file:///C:/../../x", "'file:///C:/x'", true},
		{"file:///D:/a/../b c", "'file:///D:/b%20c'", true},
		{"file:///" + strings.Repeat("a", maxFileURI-7), "path URI of 16385 bytes: at most 16384", false},
		{"file:///tmp?x=1", "query parameters are not allowed in path URIs", false},
		{"file:///tmp?", "query parameters are not allowed in path URIs", false},
		{"file://server/x?q", "query parameters are not allowed in path URIs", false},
		{"file:///tmp#frag?", "fragments are not allowed in path URIs", false},
		{"file:///tmp/%00x", "'file:///tmp/%00x'", false},
		{"FILE:///tmp/a\x00b", "'file:///tmp/a%00b'", false},
		{"file:///%00/bad/path/L3RtcC8AeA", "file name contained an unexpected NUL byte", true},
		{"file:///%00/bad/path/L3RtcC94", "'file:///%00/bad/path/L3RtcC94'", true},
		{"file:///%00/bad/path/QwA6AFwA", "'file:///%00/bad/path/QwA6AFwA'", true},
		{"file:///%00/bad/path/rel", "'file:///%00/bad/path/rel'", false},
		{"file:///%00/bad/path/!!", "'file:///%00/bad/path/!!'", false},
	} {
		want := c.text
		if strings.HasPrefix(want, "'") {
			want += " is invalid on '" + runtime.GOOS + "'"
		}
		got, err := ParseFileURI(c.uri)
		if uri, ok := errors.AsType[*URIError](err); !ok || uri.Text != want || uri.Foreign != c.foreign || uri.Advice == "" {
			t.Errorf("%q: %q, %#v; want %s, foreign %v", c.uri, got, err, want, c.foreign)
		}
	}
}

func TestFileURI(t *testing.T) {
	for _, c := range []struct{ path, want string }{
		{"/", "file:///"},
		{"/srv/a b/é", "file:///srv/a%20b/%C3%A9"},
		{"/C:/100%?#\\", "file:///C:/100%25%3F%23%5C"},
		{"/a\n!\"$&'()*+,-.;<=>@[]^_`{|}~\x7f", "file:///a%0A!%22$&'()*+,-.;%3C=%3E@[]^_%60%7B|%7D~%7F"},
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
		case refusal != "" && refusal != anyRefusal && !strings.Contains(err.Error(), refusal):
			t.Errorf("%q: %v, want %s", s, err, refusal)
		case refusal == "" && (err != nil || got != want):
			t.Errorf("%q: %q, %v; want %q", s, got, err, want)
		}
		if err != nil {
			if got = path.Clean("/" + s); strings.IndexByte(got, 0) >= 0 { // another valid path for a round trip
				return
			}
		}
		if !path.IsAbs(got) || path.Clean(got) != got {
			t.Errorf("%q is the path %q", s, got)
		}
		uri := FileURI(got)
		if u, err := url.Parse(uri); err != nil || u.Scheme != "file" || u.Host != "" || u.Path != got || u.RawQuery != "" || u.Fragment != "" {
			t.Errorf("%q is %s, which net/url takes for %#v, %v", got, uri, u, err)
		}
		if len(uri) <= maxFileURI && !driveFirst.MatchString(got) {
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
	driveLetters = regexp.MustCompile(`^[A-Za-z]:$`)
	driveFirst   = regexp.MustCompile(`^/[A-Za-z]:(/|$)`)
	driveAsHost  = regexp.MustCompile(`(?i)^file:(//)?[a-z][:|]([/?#]|$)`)
	authorities  = regexp.MustCompile(`(?i)^file://[^/?#]*`)
	notInHost    = regexp.MustCompile(`[\x00-\x20\x7f#%<>?@\\^|:]`)
)

// anyRefusal stands for any error.
const anyRefusal = "*"

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
	s = regexp.MustCompile("[\t\r\n]").ReplaceAllString(s, "")
	s = percentEncoded(controls, strings.ReplaceAll(s, `\`, "/"))
	s = percents.ReplaceAllStringFunc(s, func(p string) string {
		if p == "%" {
			return "%25"
		}
		return p
	})
	if driveAsHost.MatchString(s) {
		return "", anyRefusal
	}
	if at := authorities.FindString(s); at != "" {
		host, err := url.PathUnescape(at[len("file://"):])
		if err != nil || notInHost.MatchString(host) || strings.ContainsAny(host, "/[]") {
			return "", "invalid"
		}
		s = "file://" + host + s[len(at):]
	}
	u, err := url.Parse(s)
	switch {
	case err != nil:
		return "", anyRefusal
	case u.Scheme == "":
		return "", "invalid URI: relative URL without a base"
	case u.Scheme != "file":
		return "", "unsupported path URI scheme"
	case u.ForceQuery || u.RawQuery != "":
		return "", "query parameters are not allowed"
	case strings.Contains(s, "#"):
		return "", "fragments are not allowed"
	case u.Host != "" && !strings.EqualFold(u.Host, "localhost"):
		return "", "invalid"
	}
	raw := cmp.Or(u.RawPath, u.EscapedPath(), "/")
	if u.Opaque != "" {
		raw = "/" + u.Opaque
	}
	segments := strings.Split(raw, "/")
	for i, segment := range segments {
		name, _ := url.PathUnescape(segment)
		if driveLetters.MatchString(name) && strings.Trim(resolved(strings.Join(segments[:i], "/")).EscapedPath(), "/") == "" {
			return "", "invalid"
		}
	}
	file = path.Clean("/" + resolved(raw).Path)
	if strings.Contains(file, "\x00") {
		return "", "invalid"
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
