package child

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/child/trees"
	"github.com/b6f6fdd7/troupe/internal/budget"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A pump that finds output in both pipes of a child takes the output in the order in which the pipes became readable,
// whichever pump comes first.
func TestOutputInOrder(t *testing.T) {
	for _, test := range []struct {
		writes string // o: a line to stdout; e: a line to stderr; O, E: the pump of that stream runs
		want   string // the streams of the facts
	}{
		{"oeE", "oe"},
		{"oeO", "o"},
		{"eoO", "eo"},
		{"oeEeoO", "oeeo"},
		{"oOoeE", "ooe"},
		{"oOeoO", "oeo"},
		{"oOeEoeE", "oeoe"},
		{"eE", "e"},
		{"ooeE", "oe"}, // a pipe does not tell two writes apart
	} {
		t.Run(test.writes, func(t *testing.T) {
			h := &Host{order: newOrder()}
			defer h.order.close()
			pipes := make(map[rune]*os.File)
			end := func(kind rune) *os.File {
				r, w, err := pipe()
				if err != nil {
					t.Fatal(err)
				}
				file, err := trees.OurFile(r, "test")
				if err != nil {
					t.Fatal(err)
				}
				pipes[kind] = os.NewFile(uintptr(w), "test")
				t.Cleanup(func() { file.Close(); pipes[kind].Close() })
				return file
			}
			in := NewIntake(1<<20, budget.NewOutput(0, func() {}), nil, func() {})
			p := newProcess(h, Born{Stdout: end('o'), Stderr: end('e')}, new(trees.Tree), in, nil)
			var got strings.Builder
			for _, c := range test.writes {
				switch c {
				case 'o', 'e':
					fmt.Fprintln(pipes[c], "line")
				default:
					pump := p.out[0]
					if c == 'E' {
						pump = p.out[1]
					}
					pump.moveInTurn()
					for f, ok := p.in.Next(); ok; f, ok = p.in.Next() {
						got.WriteByte(map[protocol.Stream]byte{protocol.Stdout: 'o', protocol.Stderr: 'e'}[f.Stream])
						p.in.Settle(0, 0)
					}
				}
			}
			if got.String() != test.want {
				t.Errorf("the output came as %s, want %s", &got, test.want)
			}
			for _, s := range p.out {
				s.end()
			}
			if n := len(p.host.order.members); n != 0 {
				t.Errorf("%d streams are known after their end", n)
			}
		})
	}
}
