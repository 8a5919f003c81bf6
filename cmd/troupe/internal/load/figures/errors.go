package figures

import (
	"strings"
	"unicode/utf8"
)

// maxText bounds the text of an error in a report, in bytes.
const maxText = 200

// plainError returns the text of an error without ids and numbers, so errors of the same kind have the same text. Each word, address, id or
// part of a path with a digit becomes a #.
func plainError(text string) string {
	var b strings.Builder
	for len(text) > 0 && b.Len() <= maxText {
		n := strings.IndexFunc(text, func(r rune) bool { return !inWord(r) })
		if n < 0 {
			n = len(text)
		}
		word, tail := text[:n], ""
		for len(word) > 0 && strings.IndexByte(".:-", word[len(word)-1]) >= 0 { // such as the colon in "read tcp 127.0.0.1:80: closed"
			word, tail = word[:len(word)-1], word[len(word)-1:]+tail
		}
		if strings.ContainsAny(word, "0123456789") {
			word = "#"
		}
		b.WriteString(word)
		b.WriteString(tail)
		text = text[n:]
		if len(text) > 0 {
			r, size := utf8.DecodeRuneInString(text)
			b.WriteRune(r)
			text = text[size:]
		}
	}
	s := strings.ToValidUTF8(b.String(), "\uFFFD")
	if len(s) <= maxText {
		return s
	}
	n := maxText - len("…")
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}

func inWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' || r == '.' || r == ':'
}
