package cluster

// For tests of package cluster_test, which may import memberships.
var (
	Choose       = choose
	ReportWorthy = reportWorthy
)
