package show

import (
	"encoding/binary"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Harmless returns s with all characters escaped that would move the cursor, change the terminal, or make a person
// read something else than what is there: control characters (also those of C1), line separators, bidirectional and
// invisible characters, and bytes that are not UTF-8. An escape looks like those of Go: \n, \x1b, \u202e. Harmless
// is for names and other short texts in tables and messages. The joiners U+200C and U+200D stay, because words and
// emoji need them.
func Harmless(s string) string { return escape(s, false) }

// HarmlessText is Harmless for output of programs: newlines and tabs stay, "\r\n" becomes "\n", and sequences that
// only set colours are removed.
func HarmlessText(s string) string { return escape(s, true) }

// AppendHarmless appends HarmlessText of s to dst.
func AppendHarmless(dst, s []byte) []byte {
	if plain(s) {
		return append(dst, s...)
	}
	return append(dst, HarmlessText(string(s))...)
}

// plain reports whether s has printable ASCII and tabs alone, and so is harmless as it is. plain may say no of other harmless
// text.
func plain(s []byte) bool {
	const ones = 0x0101010101010101
	for len(s) >= 8 {
		x := binary.LittleEndian.Uint64(s)
		if (x|(x+ones)|(x-' '*ones))&(0x80*ones) != 0 { // a byte of 0x80 or more, of 0x7f, or below the space
			break
		}
		s = s[8:]
	}
	for _, b := range s {
		if b < ' ' && b != '\t' || b >= 0x7f {
			return false
		}
	}
	return true
}

func escape(s string, text bool) string {
	if isHarmless(s, text) {
		return s
	}
	var b strings.Builder
	for len(s) > 0 {
		if text {
			if n := colourSequence(s); n > 0 {
				s = s[n:]
				continue
			}
			if strings.HasPrefix(s, "\r\n") {
				s = s[1:]
				continue
			}
		}
		r, n := utf8.DecodeRuneInString(s)
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x%02x`, s[0])
		case harmless(r, text):
			b.WriteString(s[:n])
		default:
			b.WriteString(escaped(r))
		}
		s = s[n:]
	}
	return b.String()
}

func isHarmless(s string, text bool) bool {
	if !utf8.ValidString(s) {
		return false
	}
	for _, r := range s {
		if !harmless(r, text) {
			return false
		}
	}
	return true
}

// harmless reports whether a character may reach a terminal as it is.
func harmless(r rune, text bool) bool {
	switch {
	case r >= ' ' && r < 0x7f:
		return true
	case r == '\n' || r == '\t':
		return text
	case r == 0x200c || r == 0x200d:
		return true
	}
	// Cf has the bidirectional and the invisible characters, Zl and Zp the line separators. Private and unassigned
	// characters are drawn as a box at worst.
	return !unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp)
}

func escaped(r rune) string {
	switch {
	case r == '\n':
		return `\n`
	case r == '\r':
		return `\r`
	case r == '\t':
		return `\t`
	case r < 0x100:
		return fmt.Sprintf(`\x%02x`, r)
	case r < 0x10000:
		return fmt.Sprintf(`\u%04x`, r)
	}
	return fmt.Sprintf(`\U%08x`, r)
}

// colourSequence returns the length of the sequence ESC [ digits ; … m at the start of s, or 0.
func colourSequence(s string) int {
	if !strings.HasPrefix(s, "\x1b[") {
		return 0
	}
	for i := 2; i < len(s); i++ {
		switch c := s[i]; {
		case c == 'm':
			return i + 1
		case c != ';' && c != ':' && (c < '0' || c > '9'):
			return 0
		}
	}
	return 0
}
