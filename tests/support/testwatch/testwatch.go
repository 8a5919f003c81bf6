// Package testwatch helps tests of a client.Watch.
package testwatch

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/protocol"
)

// Await waits until a Watch has the processes that session/list tells of the session of c.
func Await(ctx context.Context, t *testing.T, w *client.Watch, c *client.Client) {
	t.Helper()
	for {
		state, err := w.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		list, err := c.Sessions(ctx, protocol.DetailInfo)
		if err != nil {
			t.Fatal(err)
		}
		if len(state) == len(list) && len(state) > 0 && states(state[0].List) == states(list[0].List) {
			return
		}
	}
}

// states returns the processes of a session, as "id state run".
func states(list []protocol.ProcessInfoResult) string {
	var all []string
	for _, p := range list {
		all = append(all, fmt.Sprint(p.ProcessID, " ", p.State, " ", p.Run))
	}
	return strings.Join(all, ", ")
}
