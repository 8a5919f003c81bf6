package repeat

import (
	"bytes"
	"fmt"
	"reflect"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/record"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Answers that are made again from their news are the same, beyond the number that is remembered.
func TestNews(t *testing.T) {
	type owner struct{ Answers Answers }
	var o, again owner
	o.Answers.Follow()
	w, reader := record.Writer{Owner: "o"}, record.Reader{}
	size := 0
	for i := range MaxAnswers + 50 {
		err := (*protocol.Error)(nil)
		if i%3 == 0 {
			err = protocol.WrongParams("%d", i)
		}
		o.Answers.Add(protocol.ProcessSignalParams{Repeatable: protocol.Repeatable{RequestID: fmt.Sprint(i)}}, protocol.Empty{}, err)
		w.Write(&o, func(b []byte) bool {
			if err := reader.Read(bytes.Clone(b)); err != nil {
				t.Fatal(err)
			}
			size += len(b)
			return true
		})
	}
	w.Write(&o, func(b []byte) bool {
		t.Errorf("without an answer there are news of %d bytes", len(b))
		return true
	})
	if size > 1<<20 {
		t.Errorf("%d answers take %d bytes of records", MaxAnswers+50, size)
	}
	if _, err := reader.Fill("o", &again); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(again.Answers.memory, o.Answers.memory) {
		t.Error("the answers are others")
	}
}
