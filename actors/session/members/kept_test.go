package members

import (
	"bytes"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/actors/message"
	"github.com/b6f6fdd7/troupe/internal/record"
	"pgregory.net/rapid"
)

// owner has a table in its record.
type owner struct{ Processes Table }

// A table that is made again from its news is the same table, after any turn, and whichever server has written the news.
func TestNews(t *testing.T) {
	if err := record.Check(reflect.TypeFor[Table]()); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		var o owner
		o.Processes.Follow()
		table, w, n := &o.Processes, record.Writer{Owner: "o"}, 0
		var reader record.Reader
		pick := func() *Process {
			if len(table.known) == 0 {
				return nil
			}
			return table.known[rapid.SampledFrom(slices.Sorted(maps.Keys(table.known))).Draw(t, "name")]
		}
		now := time.Unix(1000, 0)
		for range rapid.IntRange(1, 40).Draw(t, "turns") {
			for range rapid.IntRange(0, 3).Draw(t, "changes") {
				p := pick()
				switch what := rapid.IntRange(0, 7).Draw(t, "what"); {
				case what < 3 || p == nil:
					id := fmt.Sprint("p", rapid.IntRange(0, 3).Draw(t, "id"))
					if old := table.Get(id); old != nil {
						table.Retire(old)
					}
					n++
					table.Add(&Process{ID: id, Name: fmt.Sprint("n", n), Token: "t"})
				case what == 3:
					table.Close(p.Name)
				case what == 4:
					table.Reopen(p.Name)
				case what == 5:
					p.Began, p.Ended.Last = true, uint64(n)
					table.Touch(p)
				case what == 6:
					if p, live := table.Gone(p.Name); live {
						table.Remember(now, time.Hour, message.ProcessRemoved{ID: p.ID, Reason: fmt.Sprint(n)})
						table.Forget(p)
					}
				default:
					if table.Named(p.Name) != nil {
						table.Retire(p)
					}
				}
			}
			w.Write(&o, func(b []byte) bool {
				if err := reader.Read(bytes.Clone(b)); err != nil {
					t.Fatal(err)
				}
				return true
			})
			var again owner
			next, err := reader.Fill("o", &again)
			if err != nil {
				t.Fatal(err)
			}
			got, want := again.Processes, o.Processes
			if len(got.known) != len(want.known) || len(got.live) != len(want.live) || got.closed != want.closed || len(got.stay) != len(want.stay) {
				t.Fatalf("%+v\nwant\n%+v", got, want)
			}
			for name, p := range want.known {
				if q := got.known[name]; q == nil || !reflect.DeepEqual(*q, *p) || got.isLive(q) != want.isLive(p) {
					t.Fatalf("%s is %+v, want %+v", name, q, p)
				}
			}
			if !reflect.DeepEqual(got.Removed(), want.Removed()) {
				t.Fatalf("removed %+v, want %+v", got.Removed(), want.Removed())
			}
			if rapid.IntRange(0, 3).Draw(t, "lives") == 0 {
				w, o = next, again
				table.Follow() // table is that of o
			}
		}
	})
	var quiet Table
	quiet.Add(&Process{ID: "a", Name: "b"})
	if len(quiet.touched) > 0 {
		t.Error("a table that nobody follows notes its changes")
	}
}
