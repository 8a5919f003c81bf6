package protocol

import "testing"

// BenchmarkPack packs output with the packer, and with the library's Encoder for whole structs:
// docs/decisions/0007-msgpack.md has the figures.
func BenchmarkPack(b *testing.B) {
	type output struct {
		ProcessID string `msgpack:"processId"`
		Seq       uint64 `msgpack:"seq"`
		Stream    string `msgpack:"stream"`
		Chunk     []byte `msgpack:"chunk"`
	}
	type notification struct {
		Method string `msgpack:"method"`
		Params output `msgpack:"params"`
	}
	chunk := make([]byte, 16)
	ours := OutputNotification{ProcessID: "p-01", Seq: 1 << 20, Stream: Stdout, Chunk: chunk}
	theirs := notification{NotifyOutput, output{"p-01", 1 << 20, "stdout", chunk}}
	var frame []byte
	b.Run("packer", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			frame, _ = Msgpack.AppendNotification(frame[:0], NotifyOutput, &ours)
		}
	})
	b.Run("library", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			k := sinkOf(frame[:0], true)
			frame, _ = k.end(nil, k.p.enc.Encode(&theirs))
		}
	})
}
