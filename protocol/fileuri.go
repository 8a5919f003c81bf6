package protocol

import (
	"encoding/base64"
	"fmt"
	"net/netip"
	"path"
	"runtime"
	"strings"
)

// maxFileURI is the limit in bytes: PATH_MAX of Linux, 4 KiB, with every byte percent-encoded, and
// some reserve.
const maxFileURI = 16 << 10

// URIError says why a string names no path of this host.
type URIError struct {
	Text    string // in the words of exec-server
	Advice  string // for people
	URI     string // normalized, if the string is a file URI; else empty
	Foreign bool   // the URI is well-formed, and names a path of another host
}

func (e *URIError) Error() string { return e.Text + ": " + e.Advice }

// Wire returns e as an Error with this code.
func (e *URIError) Wire(code int) *Error {
	return Errorf(KindParams, code, "%s", e.Text).Advise("%s", e.Advice)
}

var withoutBreaks = strings.NewReplacer("\t", "", "\n", "", "\r", "")

// ParseFileURI returns the absolute, clean path named by a file URI on this host. Like a URL
// parser, ParseFileURI ignores surrounding blanks, tabs and ends of lines, the case of the scheme and
// the number of slashes after it; a backslash is a slash; dot segments are resolved, also if written
// %2e; percent-encoded bytes are decoded, and a stray percent sign stands for itself. Forbidden are
// other schemes and hosts, drive letters, queries, fragments, NUL, and more than maxFileURI bytes.
// Every error is a *URIError. (exec-server wire §3.)
func ParseFileURI(s string) (string, error) {
	if len(s) > maxFileURI {
		return "", &URIError{Text: fmt.Sprintf("path URI of %d bytes: at most %d", len(s), maxFileURI), Advice: "use a shorter path"}
	}
	uri := strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	uri = withoutBreaks.Replace(uri)
	scheme, rest, ok := strings.Cut(uri, ":")
	switch {
	case !ok || !isScheme(scheme):
		return "", &URIError{Text: "invalid URI: relative URL without a base", Advice: fmt.Sprintf("%q is not a URI; a file URI looks like file:///tmp", clip(s))}
	case !strings.EqualFold(scheme, "file"):
		return "", &URIError{Text: fmt.Sprintf("unsupported path URI scheme `%s`", clip(strings.ToLower(scheme))), Advice: "use the scheme `file`"}
	}
	// The peer's parser fails at the host before it looks at the query.
	host, rest, err := splitHost(strings.ReplaceAll(rest, `\`, "/"))
	if err != nil {
		return "", err
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		if rest[i] == '?' {
			return "", &URIError{Text: "query parameters are not allowed in path URIs", Advice: "write a question mark in a path as %3F"}
		}
		return "", &URIError{Text: "fragments are not allowed in path URIs", Advice: "write a number sign in a path as %23"}
	}
	segments, drive := resolveSegments(rest)
	if drive {
		host = "" // as the peer's parser
	}
	p := path.Clean("/" + unescapePercent(strings.Join(segments, "/")))
	invalid := &URIError{URI: "file://" + host + "/" + escape(strings.TrimLeft(strings.Join(segments, "/"), "/"), "")}
	invalid.Text = fmt.Sprintf("'%s' is invalid on '%s'", invalid.URI, runtime.GOOS)
	switch opaque := opaquePath(host, segments); {
	case opaque != "":
		invalid.Advice, invalid.Foreign = "it stands for a path without a URI", true
		if opaque[0] == '/' && strings.IndexByte(opaque, 0) >= 0 {
			invalid.Text = "file name contained an unexpected NUL byte"
		}
	case strings.IndexByte(p, 0) >= 0:
		invalid.Advice = "a path cannot contain NUL"
	case drive:
		invalid.Advice, invalid.Foreign = "it names a drive: use a path of this host", true
	case host != "":
		invalid.Advice, invalid.Foreign = "it names the host "+clip(host)+": leave the host out", true
	default:
		return p, nil
	}
	return "", invalid
}

// splitHost splits what follows `file:` into a host, in lower case and empty for this host, and the
// rest. A drive in the place of the host belongs to the rest, with a colon.
func splitHost(s string) (host, rest string, err error) {
	authority, ok := strings.CutPrefix(s, "//")
	if !ok {
		authority = s
	}
	i := strings.IndexAny(authority+"/", "/?#")
	if first := authority[:i]; len(first) == 2 && isLetter(first[0]) && (first[1] == ':' || first[1] == '|') {
		return "", first[:1] + ":" + authority[i:], nil
	}
	if !ok {
		return "", s, nil
	}
	host, rest = strings.ToLower(unescapePercent(authority[:i])), authority[i:]
	if strings.HasPrefix(host, "[") {
		if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil || !a.Is6() || !strings.HasSuffix(host, "]") {
			return "", "", &URIError{Text: "invalid URI: invalid IPv6 address", Advice: "leave the host out"}
		}
	} else if strings.ContainsFunc(host, forbiddenInHost) {
		return "", "", &URIError{Text: "invalid URI: invalid international domain name", Advice: "leave the host out: a file URI has neither a port nor a user"}
	}
	if strings.EqualFold(host, "localhost") {
		host = ""
	}
	return host, rest, nil
}

// forbiddenInHost reports whether no host contains r. Source: URL standard, forbidden domain code points.
func forbiddenInHost(r rune) bool {
	return r <= ' ' || r == 0x7f || strings.ContainsRune("#%/:<>?@[\\]^|", r)
}

// resolveSegments splits a path at its slashes and resolves dot segments. Splitting precedes decoding,
// as in a URL: %2F splits nothing. drive reports whether the first segment with a name is a drive
// letter; dot segments do not go above a drive.
func resolveSegments(s string) (segments []string, drive bool) {
	named := 0 // number of non-empty segments
	last := ""
	for raw := range strings.SplitSeq(strings.TrimPrefix(s, "/"), "/") {
		last = unescapePercent(raw)
		switch {
		case last == ".":
		case last == "..":
			if n := len(segments) - 1; n >= 0 && !(drive && n == 0) {
				if segments[n] != "" {
					named--
				}
				segments = segments[:n]
			}
		case named == 0 && len(last) == 2 && isLetter(last[0]) && last[1] == ':':
			segments, named, drive = []string{strings.ToUpper(raw)}, 1, true
		default:
			if raw != "" {
				named++
			}
			segments = append(segments, raw)
		}
	}
	if last == "." || last == ".." {
		segments = append(segments, "")
	}
	return segments, drive
}

// opaquePath returns the path in a URI that exec-server makes for a path without a URI:
// file:///%00/bad/path/ and the path of a POSIX or Windows host, in base64. For other URIs it is empty.
func opaquePath(host string, segments []string) string {
	if host != "" || len(segments) != 4 || segments[0] != "%00" || segments[1] != "bad" || segments[2] != "path" {
		return ""
	}
	path, err := base64.RawURLEncoding.DecodeString(segments[3])
	if err != nil || len(path) < 2 || path[0] != '/' && path[1] != 0 {
		return ""
	}
	return string(path)
}

// FileURI returns the file URI of an absolute path, spelled like the URIs of exec-server. The path is
// cleaned first. For a path with any bytes, ParseFileURI returns the same path, unless the first name
// looks like a drive (/C:/x).
func FileURI(p string) string { return "file://" + escape(path.Clean("/"+p), "#%?\\") }

// escape percent-encodes blanks, control characters, what is not ASCII, and the characters in also. Source:
// URL standard, path percent-encode set.
func escape(s, also string) string {
	const hex = "0123456789ABCDEF"
	b := make([]byte, 0, len(s))
	for i := range len(s) {
		if c := s[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>`{}", c) >= 0 || strings.IndexByte(also, c) >= 0 {
			b = append(b, '%', hex[c>>4], hex[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}

func isAlphanumeric(c byte) bool {
	return '0' <= c && c <= '9' || isLetter(c)
}

func isLetter(c byte) bool {
	return 'a' <= c|0x20 && c|0x20 <= 'z'
}

// isScheme checks the grammar of RFC 3986 §3.1.
func isScheme(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && (i == 0 || !isAlphanumeric(s[i]) && strings.IndexByte("+-.", s[i]) < 0) {
			return false
		}
	}
	return s != ""
}

// unescapePercent decodes valid escapes and leaves the rest unchanged.
func unescapePercent(s string) string {
	if strings.IndexByte(s, '%') < 0 {
		return s
	}
	b := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			high, low := hexDigit(s[i+1]), hexDigit(s[i+2])
			if high >= 0 && low >= 0 {
				b = append(b, byte(high<<4|low))
				i += 2
				continue
			}
		}
		b = append(b, s[i])
	}
	return string(b)
}

// hexDigit is the value of a hexadecimal digit, or -1 for other characters.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
