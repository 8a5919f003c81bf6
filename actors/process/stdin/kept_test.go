package stdin

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/internal/repeat"
	"github.com/b6f6fdd7/troupe/internal/record"
	"pgregory.net/rapid"
)

// A queue that is made again from its news remembers the same of each write, also if several servers have written the news.
func TestNews(t *testing.T) {
	type owner struct{ Queue Queue[string] }
	rapid.Check(t, func(t *rapid.T) {
		o, again := new(owner), new(owner)
		q := &o.Queue
		q.Follow()
		w, reader := record.Writer{Owner: "o"}, record.Reader{}
		now := time.Now()
		for range rapid.IntRange(1, 30).Draw(t, "turns") {
			for range rapid.IntRange(0, 3).Draw(t, "inputs") {
				switch rapid.IntRange(0, 7).Draw(t, "input") {
				case 0:
					q.NextRun()
				case 1:
					q.Closed()
				case 2:
					if q.Len() > 0 {
						q.Refused(now, 0, true)
					}
				case 3:
					q.Found(repeat.IDOf(rapid.StringN(1, 1, 1).Draw(t, "id")), rapid.IntRange(1, 4).Draw(t, "n"), rapid.Bool().Draw(t, "last"))
				default:
					q.Add(Request[string]{Write: true, ID: repeat.IDOf(rapid.StringN(1, 1, 1).Draw(t, "id")), Guest: rapid.Bool().Draw(t, "guest"), Chunk: make([]byte, 4)})
					for q.Len() > 1 {
						q.Answered()
					}
					q.Wrote(rapid.IntRange(0, 1).Draw(t, "n"))
				}
			}
			w.Write(o, func(b []byte) bool {
				if err := reader.Read(bytes.Clone(b)); err != nil {
					t.Fatal(err)
				}
				return true
			})
			if rapid.IntRange(0, 3).Draw(t, "lives") == 0 {
				o = new(owner)
				var err error
				if w, err = reader.Fill("o", o); err != nil {
					t.Fatal(err)
				}
				q = &o.Queue
				q.Follow()
			}
		}
		w.Write(o, func(b []byte) bool {
			t.Errorf("without a change there are news of %d bytes", len(b))
			return true
		})
		if _, err := reader.Fill("o", again); err != nil {
			t.Fatal(err)
		}
		got := again.Queue
		if !reflect.DeepEqual(got.taken, q.taken) || !reflect.DeepEqual(got.guests, q.guests) || got.ended != q.ended || !got.refused.Equal(q.refused) && got.refused.Sub(q.refused).Abs() > time.Minute {
			t.Fatalf("%+v\nwant\n%+v", got, *q)
		}
	})
}
