package screen

import (
	"sync"
	"unicode"

	"github.com/mattn/go-runewidth"
)

// widths has 2 bits for each code point. As in wcwidth of C libraries and in terminals, marks and format characters have no width, and
// East Asian characters that are wide or fullwidth take 2 columns. A locale changes nothing: all viewers have the same screen.
var widths = sync.OnceValue(func() *[0x110000 / 4]uint8 {
	c := runewidth.Condition{StrictEmojiNeutral: true}
	var w [0x110000 / 4]uint8
	for r := rune(0x20); r < 0x110000; r++ {
		n := uint8(1)
		switch {
		case r == '\u00ad': // soft hyphen
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) || r >= '\u1160' && r <= '\u11ff': // vowels and finals of Hangul join
			n = 0
		case c.RuneWidth(r) == 2:
			n = 2
		}
		w[r/4] |= n << (r % 4 * 2)
	}
	return &w
})

func runeWidth(r rune) int {
	if r < 0x300 {
		return 1
	}
	return int(widths()[r/4] >> (r % 4 * 2) & 3)
}
