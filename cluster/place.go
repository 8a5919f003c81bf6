package cluster

// A Wish is what a client asks of the node of its new session.
type Wish struct {
	Labels map[string]string // the node has all of these
	Node   string            // the name of the node; "": any
	Key    string            // sessions with the same key go to the same node while it has room; "": none
}
