package outcome

import (
	"strings"
	"unicode/utf8"
)

// text returns b as valid UTF-8. U+FFFD replaces each longest part that could have begun a character,
// as Unicode recommends. cut: b was cut off, and an incomplete character at the end is left out.
func text(b []byte, cut bool) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			if cut && !utf8.FullRune(b) {
				break
			}
			for n < len(b) && !utf8.FullRune(b[:n+1]) {
				n++
			}
		}
		s.WriteRune(r)
		b = b[n:]
	}
	return s.String()
}
