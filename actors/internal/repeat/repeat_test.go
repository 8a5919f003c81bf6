package repeat

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/b6f6fdd7/troupe/protocol"
)

// The newest answers are remembered, so many and no more, and not all of a long error.
func TestAnswersAreBounded(t *testing.T) {
	var a Answers
	params := func(i int) protocol.ProcessSignalParams {
		return protocol.ProcessSignalParams{Repeatable: protocol.Repeatable{RequestID: fmt.Sprint(i)}}
	}
	for i := range 3 * MaxAnswers {
		a.Add(params(i), i, nil)
	}
	for i := range 3 * MaxAnswers {
		answer, ok := a.To(params(i))
		if want := i >= 2*MaxAnswers; ok != want || ok && answer != (Answer{Result: i}) {
			t.Fatalf("answer %d: %+v, %v", i, answer, ok)
		}
	}
	a.Add(params(0), nil, protocol.Errorf(protocol.KindExists, protocol.CodeInvalidRequest, "%s", strings.Repeat("é", 1<<20)))
	if answer, _ := a.To(params(0)); answer.Err == nil || answer.Err.Code != protocol.CodeInvalidRequest || len(answer.Err.Message) > maxErrorText+len("…") || !utf8.ValidString(answer.Err.Message) {
		t.Errorf("of a long error %+v is remembered", answer.Err)
	}
	a.Add(protocol.ProcessSignalParams{}, 1, nil)
	if _, ok := a.To(protocol.ProcessSignalParams{}); ok {
		t.Error("a request without an id is remembered")
	}
	if _, ok := a.To(protocol.ProcessResizeParams{Repeatable: protocol.Repeatable{RequestID: fmt.Sprint(3*MaxAnswers - 1)}}); ok {
		t.Error("a request is answered as one of another type with the same id")
	}
}
