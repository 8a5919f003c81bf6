// Package nodeid has the form of ids in a cluster. The id of a node is NAME-INCARNATION. The id of a session begins with the id of its node
// and a dot, and so does the token of a share after its prefix. A server without a cluster has neither.
package nodeid

import (
	"crypto/rand"
	"encoding/hex"
	"strings"
)

// New returns the id of a node. incarnation has no hyphen.
func New(name, incarnation string) string { return name + "-" + incarnation }

// Name returns the name in the id of a node; "": there is none.
func Name(node string) string { return before(node, '-') }

// Session returns an id for a session of a node: nobody can guess its 128 random bits.
func Session(node string) string {
	random := make([]byte, 16)
	rand.Read(random) // never fails
	return node + "." + hex.EncodeToString(random)
}

// Of returns the node in the id of a session, or in a token without its prefix; "": there is none.
func Of(session string) string { return before(session, '.') }

// before returns the text before the last sep; "": there is no sep.
func before(text string, sep byte) string { return text[:max(strings.LastIndexByte(text, sep), 0)] }
