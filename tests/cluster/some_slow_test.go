//go:build slow && !faults

package cluster

// allFaults is false: the long scenarios are left out.
const allFaults = false
