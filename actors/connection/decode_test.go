package connection

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// A request weighs at least the memory of its decoded params: each empty string of a list takes 3 bytes of JSON
// and 16 bytes of memory.
func TestWeightOfARequest(t *testing.T) {
	const strings = 1000
	argv, err := json.Marshal(make([]string, strings))
	if err != nil {
		t.Fatal(err)
	}
	frame := fmt.Appendf(nil, `{"id":1,"method":"process/start","params":{"processId":"p","cwd":"file:///","env":{},"tty":false,"argv":%s}}`, argv)
	if in := (&incoming{table: All, codec: protocol.JSON}).decode(frame); in.err != nil || in.weight < 16*strings {
		t.Errorf("a request of %d bytes with %d strings weighs %d: %v", len(frame), strings, in.weight, in.err)
	}
}
