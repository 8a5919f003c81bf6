package repeat

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/record"
	"github.com/b6f6fdd7/troupe/protocol"
)

// The remembered answers survive their way through bytes.
func TestAnswersSurvive(t *testing.T) {
	record.Register("Empty", protocol.Empty{})
	record.Register("ProcessStartResult", protocol.ProcessStartResult{})
	var a, got Answers
	for i := range MaxAnswers + 10 {
		params := protocol.ProcessSignalParams{Repeatable: protocol.Repeatable{RequestID: fmt.Sprint(i)}}
		switch i % 3 {
		case 0:
			a.Add(params, protocol.Empty{}, nil)
		case 1:
			a.Add(params, protocol.ProcessStartResult{ProcessID: fmt.Sprint(i)}, nil)
		case 2:
			a.Add(params, nil, protocol.Errorf(protocol.KindEnded, protocol.CodeInvalidRequest, "%d", i))
		}
	}
	if err := record.Decode(record.Encode(nil, &a), &got); err != nil || !reflect.DeepEqual(got, a) {
		t.Errorf("%+v, %v, want %+v", got, err, a)
	}
}
