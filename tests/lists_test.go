package tests

import (
	"fmt"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/internal/system"
)

// BenchmarkSessionList asks for all processes of an identity, 2,000 in two sessions, and says how much processor
// time the server takes for an answer:
//
//	go test ./tests -run XXX -bench SessionList -benchtime 20x
func BenchmarkSessionList(b *testing.B) {
	s := startServer(b, "--listen", "ws://127.0.0.1:0")
	var c *conn
	for range 2 {
		c = s.session(nil)
		for i := range 1000 {
			c.start(fmt.Sprint("p", i), obj{"argv": []string{"sleep", "1000"}})
		}
	}
	for _, detail := range []any{nil, "processes", "info"} {
		b.Run(fmt.Sprint(detail), func(b *testing.B) {
			before, err := system.CPU(s.pid())
			if err != nil {
				b.Fatal(err)
			}
			bytes := 0
			for b.Loop() {
				answer := c.call("session/list", obj{"detail": detail})
				if bytes == 0 {
					bytes = len(jsonText(answer))
					for _, session := range answer["sessions"].([]any) {
						if list, ok := session.(obj)["list"].([]any); ok && len(list) != 1000 {
							b.Fatalf("%d processes", len(list))
						}
					}
				}
			}
			after, err := system.CPU(s.pid())
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric((after-before).Seconds()*1e3/float64(b.N), "ms-of-server/op")
			b.ReportMetric(float64(bytes), "bytes")
		})
	}
}
