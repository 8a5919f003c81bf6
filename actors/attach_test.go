package actors_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors"
	"github.com/b6f6fdd7/troupe/protocol"
)

// A token that no transport has read is refused: the client may think that the token says who it is. The
// refusal does not repeat the token, and the client may try again without.
func TestTokenThatNobodyReads(t *testing.T) {
	t.Parallel()
	troupe := start(t, actors.Config{KillGrace: -1})
	for params, code := range map[string]int{
		`{"clientName":"test","token":"hush"}`:                                            protocol.CodeInvalidParams,
		`{"clientInfo":{"name":"test","version":"1"},"token":"hush"}`:                     protocol.CodeInvalidRequest,
		`{"clientName":"test","resumeSessionId":"of somebody else","token":"hush"}`:       protocol.CodeInvalidParams,
		`{"clientName":"test","token":"hush","role":"observer","resumeSessionId":"none"}`: protocol.CodeInvalidParams,
	} {
		p := connect(t, troupe)
		m := p.call("initialize", params)
		if m.Error == nil || m.Error.Code != code || !strings.Contains(m.Error.Message, "token is only for length-prefixed frames") || strings.Contains(fmt.Sprint(m.Error), "hush") {
			t.Errorf("%s: %+v", params, m.Error)
		}
		if again := strings.Replace(params, `"hush"`, `""`, 1); !strings.Contains(params, "resume") {
			if m := p.call("initialize", again); m.Error != nil {
				t.Errorf("%s: %+v", again, m.Error)
			}
		}
	}
}
