package connection_test

import (
	"github.com/b6f6fdd7/troupe/actors/connection"
	"github.com/b6f6fdd7/troupe/actors/peer"
)

func init() { connection.All = peer.Methods }
