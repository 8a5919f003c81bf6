//go:build slow && faults

package cluster

// allFaults has all scenarios run.
const allFaults = true
