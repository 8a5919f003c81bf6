//go:build !race

package slab

const poisoned = false
