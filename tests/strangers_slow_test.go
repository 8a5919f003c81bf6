//go:build slow

package tests

import (
	"fmt"
	"net"
	"testing"
)

// TestMoreStrangers is TestStrangersShutNobodyOut with strangers who do something else.
func TestMoreStrangers(t *testing.T) {
	silent := func(net.Conn) {}
	t.Run("silent", func(t *testing.T) { strangersShutNobodyOut(t, loopback, silent) })
	t.Run("silent, from 32 addresses", func(t *testing.T) {
		strangersShutNobodyOut(t, func(i int) string { return fmt.Sprint("127.0.0.", 2+i%32) }, silent)
	})
	t.Run("half-open upgrades", func(t *testing.T) {
		strangersShutNobodyOut(t, loopback, func(c net.Conn) {
			c.Write([]byte(getLine + "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"))
		})
	})
}
