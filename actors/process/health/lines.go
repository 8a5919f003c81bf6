package health

import (
	"bytes"

	"github.com/b6f6fdd7/troupe/protocol"
)

// maxLine is how much of a line is matched, in bytes.
const maxLine = 4 << 10

// lines collects the lines that may make a run ready. The zero lines collects none.
type lines struct {
	of       protocol.Stream            // 0: of all streams
	open     map[protocol.Stream][]byte // unfinished lines, cut at maxLine; nil: no line is wanted
	matching [][]byte                   // lines that somebody matches; nil: nobody does
}

func (l *lines) begin(of protocol.Stream) {
	*l = lines{of: of, open: make(map[protocol.Stream][]byte)}
}

// add takes output, and reports whether there are lines to match.
func (l *lines) add(s protocol.Stream, data []byte) bool {
	if l.open == nil || l.of != 0 && l.of != s {
		return false
	}
	for len(data) > 0 {
		piece, rest, ends := bytes.Cut(data, []byte{'\n'})
		line := l.open[s]
		line = append(line, piece[:min(len(piece), maxLine-len(line))]...)
		if !ends {
			l.open[s] = line
			break
		}
		delete(l.open, s)
		l.matching, data = append(l.matching, line), rest
	}
	return l.matching != nil
}
