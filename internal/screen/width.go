package screen

import (
	"sync"

	"github.com/mattn/go-runewidth"
)

// widths has 2 bits for each code point. A locale does not matter: programs and terminals differ, but a screen is one for all viewers.
var widths = sync.OnceValue(func() *[0x110000 / 4]uint8 {
	c := runewidth.Condition{StrictEmojiNeutral: true}
	var w [0x110000 / 4]uint8
	for r := rune(0x20); r < 0x110000; r++ {
		w[r/4] |= uint8(min(c.RuneWidth(r), 2)) << (r % 4 * 2)
	}
	return &w
})

func runeWidth(r rune) int {
	if r < 0x7f {
		return 1
	}
	return int(widths()[r/4] >> (r % 4 * 2) & 3)
}
