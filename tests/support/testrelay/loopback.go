package testrelay

import (
	"fmt"
	"math/rand/v2"
)

// Loopback returns a random address of this machine, one of 16 million: nobody else listens there, at any port.
func Loopback() string {
	n := rand.IntN(1 << 24)
	return fmt.Sprintf("127.%d.%d.%d", 1+n>>16%254, n>>8%256, 1+n%254)
}
