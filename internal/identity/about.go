package identity

// About is what a transport knows about the client of a connection, fixed when the connection is accepted. The zero About is a client of
// whom nothing is known, and whom nothing bounds, such as one in the same program.
type About struct {
	// Transport names the kind of connection, for the audit log: "websocket".
	Transport string

	// Peer names the machine, or the user at a unix socket. Clients without a name are told apart by Peer where sessions are counted.
	// "": by the remote address.
	Peer string

	// Identity is who the client is, and whose sessions the client may reach. For all other clients, a session does not exist.
	Identity Identity

	// ReadsToken: the transport looks for a credential in initialize. Without ReadsToken the troupe refuses an initialize with a token,
	// because nobody reads it.
	ReadsToken bool

	// OnlyResumes is why only a client that resumes a session may use the connection, such as a limit that is used up. "": any client may.
	OnlyResumes string

	// MaxMessage is the largest message in either direction, in bytes. 0: no bound.
	MaxMessage int
}
