package screen

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
)

// Indices of terminal.colors after the 256 of the palette: OSC 10, 11 and 12.
const (
	colorForeground = 256 + iota
	colorBackground
	colorCursor
)

// setColors is OSC 4 and 104 (colors of the palette), 10 to 12 and 110 to 112 (defaults, and the cursor). Questions and names of colors have
// no effect.
func (t *terminal) setColors(number string, text []byte) {
	list := bytes.Split(text, []byte{';'})
	set := func(i int, spec []byte) {
		if c, ok := parseColor(string(spec)); ok {
			if t.colors == nil {
				t.colors = make(map[int]uint32)
			}
			t.colors[i] = c
		}
	}
	switch number {
	case "4":
		for ; len(list) >= 2; list = list[2:] {
			if i, err := strconv.ParseUint(string(list[0]), 10, 8); err == nil {
				set(int(i), list[1])
			}
		}
	case "104":
		if len(text) == 0 {
			maps.DeleteFunc(t.colors, func(i int, _ uint32) bool { return i < colorForeground })
		}
		for _, n := range list {
			if i, err := strconv.ParseUint(string(n), 10, 8); err == nil {
				delete(t.colors, int(i))
			}
		}
	case "10", "11", "12": // further specifications are for the numbers after
		for i := colorForeground + int(number[1]-'0'); i <= colorCursor && len(list) > 0; i, list = i+1, list[1:] {
			set(i, list[0])
		}
	default:
		delete(t.colors, colorForeground+int(number[2]-'0'))
	}
}

// parseColor reads rgb:R/G/B with 1 to 4 hexadecimal digits each, a part of the greatest value, and #RGB, whose digits are the upper bits.
func parseColor(s string) (color uint32, ok bool) {
	var r, g, b string
	scaled := false
	switch n := len(s) / 3; {
	case len(s) > 4 && s[:4] == "rgb:":
		parts := bytes.Split([]byte(s[4:]), []byte{'/'})
		if len(parts) != 3 {
			return 0, false
		}
		r, g, b, scaled = string(parts[0]), string(parts[1]), string(parts[2]), true
	case len(s) == 3*n+1 && s[0] == '#':
		r, g, b = s[1:1+n], s[1+n:1+2*n], s[1+2*n:]
	}
	for _, part := range []string{r, g, b} {
		v, err := strconv.ParseUint(part, 16, 16)
		if err != nil || len(part) > 4 {
			return 0, false
		}
		bits := 4 * len(part)
		if most := uint64(1)<<bits - 1; scaled {
			v = (v*255 + most/2) / most
		} else {
			v = v << 16 >> bits >> 8
		}
		color = color<<8 | uint32(v)
	}
	return color, true
}

// colorText returns a color of a cell as Span has it.
func (t *terminal) colorText(c uint32) string {
	switch c & colorMask &^ 0xffffff {
	case colorIndexed:
		if s := t.redefined(int(c & 0xff)); s != "" {
			return s
		}
		return strconv.Itoa(int(c & 0xff))
	case colorRGB:
		return fmt.Sprintf("#%06x", c&0xffffff)
	}
	return ""
}

// redefined returns the color that the program has given to an index, or "".
func (t *terminal) redefined(i int) string {
	if c, ok := t.colors[i]; ok {
		return fmt.Sprintf("#%06x", c)
	}
	return ""
}

// colors makes the redefined colors of the other terminal equal.
func (r *restorer) colors() {
	for _, i := range slices.Sorted(maps.Keys(r.t.colors)) {
		c := r.t.colors[i]
		number := "4;" + strconv.Itoa(i)
		if i >= colorForeground {
			number = strconv.Itoa(10 + i - colorForeground)
		}
		r.add(fmt.Sprintf("\x1b]%s;rgb:%02x/%02x/%02x\x1b\\", number, c>>16, c>>8&0xff, c&0xff))
	}
}
