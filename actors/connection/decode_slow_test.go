//go:build slow

package connection

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/tests/support/bombs"
	"github.com/vmihailenco/msgpack/v5"
)

// The memory of a decoded message is bounded by the bytes of the message, whichever member is a list
// or a map of the smallest values, and also if the message is refused.
func TestMessagesDoNotGrowInMemory(t *testing.T) {
	tested := 0
	for method, entry := range All.Params() {
		for _, of := range entry {
			for where, params := range bombs.Of(reflect.TypeOf(of), bombSize) {
				tested++
				message := map[string]any{"id": 1, "method": method, "params": params}
				asJSON, err := json.Marshal(message)
				if err != nil {
					t.Fatal(err)
				}
				asMsgpack, err := msgpack.Marshal(message)
				if err != nil {
					t.Fatal(err)
				}
				wantSmall(t, fmt.Sprintf("%s %s as JSON", method, where), protocol.JSON, asJSON)
				wantSmall(t, fmt.Sprintf("%s %s as msgpack", method, where), protocol.Msgpack, asMsgpack)
			}
		}
	}
	if tested < 50 {
		t.Errorf("%d messages: this tests little", tested)
	}
}

func wantSmall(t *testing.T, what string, codec protocol.Codec, frame []byte) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	in := (&incoming{table: All, codec: codec}).decode(frame)
	runtime.ReadMemStats(&after)
	// TotalAlloc includes garbage, so the peak was far lower.
	if got, most := after.TotalAlloc-before.TotalAlloc, uint64(10*len(frame)+16<<20); got > most {
		t.Errorf("%s: decoding %d bytes allocated %d, %.1f times as much", what, len(frame), got, float64(got)/float64(len(frame)))
	}
	runtime.KeepAlive(in)
}

const bombSize = 1<<17 - 1
