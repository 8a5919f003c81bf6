package sandbox

import (
	"encoding/json"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

// A path has any bytes, and the jail must get the same ones: a path with other bytes would guard another file.
func TestPolicyKeepsEveryByte(t *testing.T) {
	text := rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) })
	rapid.Check(t, func(t *rapid.T) {
		want := Policy{
			Files: true,
			Root:  Read,
			Paths: []Path{{text.Draw(t, "path"), Write, File, rapid.Uint64().Draw(t, "dev"), rapid.Uint64().Draw(t, "ino")}},
			Links: []Link{{text.Draw(t, "link"), text.Draw(t, "target")}},
		}
		raw, err := json.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		var got Policy
		if err := json.Unmarshal(raw, &got); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v: %+v, want %+v", err, got, want)
		}
	})
}
