//go:build !race

package arena

const poisoned = false
