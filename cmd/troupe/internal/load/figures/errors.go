//go:build unix

package figures

import (
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxText bounds the text of an error in a report, in bytes.
const maxText = 200

// withDigit matches a word, an address, an id or a part of a path with a digit, without the colon, point or dash after it. It is compiled at the
// first error: each start in a sandbox executes this program, and waits for the variables of all packages.
var withDigit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[\w.:-]*\d(?:[\w.:-]*\w)?`) })

// plainError returns the text of an error without ids and numbers, so errors of the same kind have the same text: each match of withDigit becomes a #.
func plainError(text string) string {
	s := strings.ToValidUTF8(withDigit().ReplaceAllString(text[:min(len(text), 16*maxText)], "#"), "\uFFFD")
	if len(s) <= maxText {
		return s
	}
	n := maxText - len("…")
	for !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "…"
}
