package protocol

// Methods about the servers of a cluster. (Ours.) The comments name the params and the result.
const (
	MethodClusterNodes = "cluster/nodes" // Empty → ClusterNodesResult
	MethodClusterDrain = "cluster/drain" // ClusterDrainParams → Empty
)

// ClusterNodesResult has the nodes of the cluster, as the server knows them.
type ClusterNodesResult struct {
	Nodes []ClusterNode `json:"nodes"` // sorted by ID
	// Problem says why the server does not know whether other nodes join or leave: it goes on with what it knows. Absent: it knows.
	Problem string `json:"problem,omitempty"`
}

// ClusterNode is a server of a cluster.
type ClusterNode struct {
	// ID is another one whenever the programs of the node have ended with it. The ids of the sessions of a node are its ID, a dot and 128 random bits.
	ID       string            `json:"id"`
	Name     string            `json:"name"`
	Self     bool              `json:"self,omitempty"` // it is the server that answers
	Address  string            `json:"address"`        // HOST:PORT, where other nodes reach it
	Version  string            `json:"version"`
	Labels   map[string]string `json:"labels,omitempty"`
	Draining bool              `json:"draining,omitempty"` // it opens no session
	// LeftAtMs is when nobody could tell of the node any more, since the Unix epoch. Lost: it does not answer either, and its sessions are lost. Nodes that
	// have left are told for an hour.
	LeftAtMs int64 `json:"leftAtMs,omitempty"`
	Lost     bool  `json:"lost,omitempty"`

	Sessions       int64   `json:"sessions"`
	MaxSessions    int64   `json:"maxSessions"`
	Processes      int64   `json:"processes"` // that run
	CPU            float64 `json:"cpu"`       // the busy part of its processors, 0 to 1
	MemoryBytes    int64   `json:"memoryBytes"`
	MaxMemoryBytes int64   `json:"maxMemoryBytes"`
	Files          int64   `json:"files"` // descriptors of the server
	MaxFiles       int64   `json:"maxFiles"`
}

// State returns ready, draining, unheard (nobody tells of the node any more, and its machine still takes connections), ended (it was drained) or lost.
func (n *ClusterNode) State() string {
	switch {
	case n.Lost && n.Draining:
		return "ended"
	case n.Lost:
		return "lost"
	case n.LeftAtMs != 0:
		return "unheard"
	case n.Draining:
		return "draining"
	}
	return "ready"
}

// ClusterDrainParams have a node open no session from now on.
type ClusterDrainParams struct {
	Node string `json:"node" wire:"required"` // its name or its id
	// ForMs is how long its sessions may go on, in milliseconds, at most a year. The node ends with the last one.
	ForMs uint64 `json:"forMs"`
	// Cancel takes an earlier drain back. ForMs does not count then.
	Cancel bool `json:"cancel,omitempty"`
}
