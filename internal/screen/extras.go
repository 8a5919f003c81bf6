package screen

// An extra belongs to few cells. A link is the text of OSC 8 after its number: params, ";" and the URI.
type extra struct {
	combining string // characters that join the cell's
	underline uint32 // a color
	link      string
}

const (
	maxCombining   = 128     // bytes of a cell; more characters are dropped
	maxExtras      = 1 << 16 // of a screen, and
	maxExtrasBytes = 4 << 20 // of their texts; further cells get none
)

// extras has each extra once. The index of none is 0.
type extras struct {
	list  []extra
	index map[extra]uint32
	bytes int
	since int // how many were new since the unused ones were dropped
	live  int // how many were left then
}

func (x *extras) get(i uint32) extra {
	if i == 0 {
		return extra{}
	}
	return x.list[i]
}

// intern returns the index of e.
func (t *terminal) intern(e extra) uint32 {
	x := &t.extras
	if e == (extra{}) {
		return 0
	}
	if i, ok := x.index[e]; ok {
		return i
	}
	if x.since++; x.since > 1024+x.live {
		t.sweepExtras()
	}
	if len(x.list) >= maxExtras || x.bytes+len(e.combining)+len(e.link) > maxExtrasBytes {
		return 0
	}
	if x.index == nil {
		x.index = make(map[extra]uint32)
		x.list = make([]extra, 1, 8)
	}
	i := uint32(len(x.list))
	x.list = append(x.list, e)
	x.index[e] = i
	x.bytes += len(e.combining) + len(e.link)
	return i
}

// sweepExtras drops extras without a cell.
func (t *terminal) sweepExtras() {
	old := t.extras
	t.extras = extras{index: make(map[extra]uint32), list: make([]extra, 1)}
	x := &t.extras
	moved := make([]uint32, len(old.list))
	move := func(i uint32) uint32 {
		if i == 0 {
			return 0
		}
		if moved[i] == 0 {
			e := old.list[i]
			moved[i] = uint32(len(x.list))
			x.list = append(x.list, e)
			x.index[e] = moved[i]
			x.bytes += len(e.combining) + len(e.link)
		}
		return moved[i]
	}
	for _, b := range []*buffer{&t.main, &t.alt} {
		for i := range b.lines {
			for k := range b.lines[i].cells {
				c := &b.lines[i].cells[k]
				c.ext = move(c.ext)
			}
		}
		b.saved.pen.ext = move(b.saved.pen.ext)
	}
	t.pen.ext = move(t.pen.ext)
	t.history.moveExtras(move)
	x.live = len(x.list)
}
