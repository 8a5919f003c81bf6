package protocol

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
)

// maxFileURI is in bytes: PATH_MAX of Linux, 4 KiB, each of them percent-encoded, and some.
const maxFileURI = 16 << 10

// ParseFileURI returns the absolute, clean path that a file URI names on this
// host. It reads as a URL parser does: blanks around it do not count, nor does the
// case of the scheme, or how many slashes there are; a backslash is a slash; dot
// segments are resolved, also %2e; what is percent-encoded is decoded, and a
// percent sign that begins no such thing stands for itself. What may not be are
// other schemes and hosts, drive letters, queries, fragments and NUL.
// A URI has at most maxFileURI bytes.
// (exec-server wire §3; the errors are in the peer's words.)
func ParseFileURI(s string) (string, error) {
	if len(s) > maxFileURI {
		return "", fmt.Errorf("path URI of %d bytes: at most %d", len(s), maxFileURI)
	}
	uri := strings.TrimFunc(s, func(r rune) bool { return r <= ' ' })
	scheme, rest, ok := strings.Cut(uri, ":")
	switch {
	case !ok || !isScheme(scheme):
		return "", fmt.Errorf("invalid URI: relative URL without a base: %q; a file URI looks like file:///tmp", clip(s))
	case !strings.EqualFold(scheme, "file"):
		return "", fmt.Errorf("unsupported path URI scheme `%s`, expected `file`", clip(scheme))
	}
	if i := strings.IndexAny(rest, "?#"); i >= 0 {
		if rest[i] == '?' {
			return "", errors.New("query parameters are not allowed in path URIs; a question mark in a path is %3F")
		}
		return "", errors.New("fragments are not allowed in path URIs; a number sign in a path is %23")
	}
	invalid := func(why string) error {
		return fmt.Errorf("cwd URI `%s` is not valid on this exec-server host: '%[1]s' is invalid on '%s': %s", clip(s), runtime.GOOS, why)
	}

	rest = strings.ReplaceAll(rest, `\`, "/")
	if authority, ok := strings.CutPrefix(rest, "//"); ok {
		host, p, _ := strings.Cut(authority, "/")
		if host != "" && !strings.EqualFold(host, "localhost") {
			return "", invalid("it names the host " + clip(host))
		}
		rest = p
	}
	// Segment by segment, as a URL has it: %2F is decoded and yet parts nothing.
	var segments []string
	named := 0 // of segments: those that are in the path
	for raw := range strings.SplitSeq(rest, "/") {
		switch segment := unescapePercent(raw); segment {
		case ".":
		case "..":
			if last := len(segments) - 1; last >= 0 {
				if segments[last] != "" {
					named--
				}
				segments = segments[:last]
			}
		default:
			if isDriveLetter(raw) && named == 0 {
				return "", invalid("it names the drive " + raw)
			}
			if segment != "" {
				named++
			}
			segments = append(segments, segment)
		}
	}
	p := path.Clean("/" + strings.Join(segments, "/"))
	if strings.IndexByte(p, 0) >= 0 {
		return "", invalid("a path cannot contain NUL")
	}
	return p, nil
}

// FileURI is the file URI of an absolute path, which is cleaned first. Whatever
// bytes the path has, ParseFileURI returns it.
func FileURI(p string) string {
	const hex = "0123456789ABCDEF"
	p = path.Clean("/" + p)
	b := append(make([]byte, 0, len("file://")+len(p)), "file://"...)
	for i := range len(p) {
		// No colon: at the start of a path it would make a drive letter.
		if c := p[i]; isAlphanumeric(c) || strings.IndexByte("/-._~!$&'()*+,;=@", c) >= 0 {
			b = append(b, c)
		} else {
			b = append(b, '%', hex[c>>4], hex[c&15])
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

// isScheme is the grammar of RFC 3986 §3.1.
func isScheme(s string) bool {
	for i := range len(s) {
		if !isLetter(s[i]) && (i == 0 || !isAlphanumeric(s[i]) && strings.IndexByte("+-.", s[i]) < 0) {
			return false
		}
	}
	return s != ""
}

func isDriveLetter(s string) bool {
	return len(s) == 2 && isLetter(s[0]) && (s[1] == ':' || s[1] == '|')
}

// unescapePercent decodes what is well formed and leaves the rest.
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

// hexDigit is the value of a hexadecimal digit, -1 for what is none.
func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c|0x20 && c|0x20 <= 'f':
		return int(c|0x20-'a') + 10
	}
	return -1
}
