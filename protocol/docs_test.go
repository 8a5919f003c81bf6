package protocol

import (
	"bytes"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"
)

// The MessagePack bytes in docs/protocol/transports.md encode the JSON above them.
func TestMsgpackOfTheDocumentation(t *testing.T) {
	text, err := os.ReadFile("../docs/protocol/transports.md")
	if err != nil {
		t.Fatal(err)
	}
	heading := regexp.MustCompile(`\n##[0-9. ]* msgpack\n`).FindIndex(text)
	if heading == nil {
		t.Fatal("there is no section of msgpack")
	}
	section, _, _ := strings.Cut(string(text[heading[1]:]), "\n##")
	parts := regexp.MustCompile("`({\"id\".*})`").Split(section, -1)
	frames := regexp.MustCompile("`({\"id\".*})`").FindAllStringSubmatch(section, -1)
	if len(frames) != 2 {
		t.Fatalf("%d messages in JSON", len(frames))
	}
	for i, frame := range frames {
		var packed []byte
		for _, line := range strings.Split(parts[i+1], "\n") {
			if !strings.HasPrefix(line, "    ") {
				continue
			}
			for field := range strings.FieldsSeq(line) {
				b, err := hex.DecodeString(field)
				if err != nil || len(field) != 2 {
					break // the meaning of the bytes
				}
				packed = append(packed, b...)
			}
		}
		inJSON, err := JSON.Decode([]byte(frame[1]))
		if err != nil {
			t.Fatal(err)
		}
		inMsgpack, err := Msgpack.Decode(packed)
		if err != nil {
			t.Fatalf("%x: %v", packed, err)
		}
		var v, w any = new(ProcessWriteParams), new(ProcessWriteParams)
		if inJSON.Kind == Response {
			v, w = new(ProcessWriteResult), new(ProcessWriteResult)
		}
		if err := JSON.Unmarshal(inJSON.Payload, v); err != nil {
			t.Fatal(err)
		}
		if err := Msgpack.Unmarshal(inMsgpack.Payload, w); err != nil {
			t.Fatal(err)
		}
		encode := func(v any) ([]byte, error) {
			if inJSON.Kind == Response {
				return Msgpack.AppendResponse(nil, inJSON.ID, v)
			}
			return Msgpack.AppendRequest(nil, inJSON.ID, inJSON.Method, v)
		}
		if want, err := encode(v); err != nil || !bytes.Equal(packed, want) {
			t.Errorf("%s is %x, %v; the text has %x", frame[1], want, err, packed)
		}
		if again, err := encode(w); err != nil || !bytes.Equal(packed, again) {
			t.Errorf("%x came back as %x, %v", packed, again, err)
		}
		if length := hex.EncodeToString([]byte{byte(len(packed))}) + " 00 00 00"; !strings.Contains(section, length) {
			t.Errorf("the length of %s is %s", frame[1], length)
		}
	}
}
