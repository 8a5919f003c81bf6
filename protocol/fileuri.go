package protocol

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
)

// maxFileURI is the limit in bytes: PATH_MAX of Linux, 4 KiB, with every byte percent-encoded, and
// some reserve.
const maxFileURI = 16 << 10

// ParseFileURI returns the absolute, clean path named by a file URI on this host. Like a URL
// parser, ParseFileURI ignores surrounding blanks, the case of the scheme and the number of slashes
// after it; a backslash is a slash; dot segments are resolved, also if written %2e; percent-encoded
// bytes are decoded, and a stray percent sign stands for itself. Forbidden are other schemes and
// hosts, drive letters, queries, fragments, NUL, and more than maxFileURI bytes. (exec-server wire
// §3; the errors use the words of exec-server.)
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
	// Segments are split before decoding, as in a URL: %2F is decoded but splits nothing.
	var segments []string
	named := 0 // number of non-empty segments
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

// FileURI returns the file URI of an absolute path. The path is cleaned first. For a path with any
// bytes, ParseFileURI returns the same path.
func FileURI(p string) string {
	const hex = "0123456789ABCDEF"
	p = path.Clean("/" + p)
	b := append(make([]byte, 0, len("file://")+len(p)), "file://"...)
	for i := range len(p) {
		// The colon is encoded, because at the start of a path it would make a drive letter.
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

// isScheme checks the grammar of RFC 3986 §3.1.
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
