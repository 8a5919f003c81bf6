//go:build unix && !linux

package program

import "errors"

func programsOf(string) ([]int, error) {
	return nil, errors.New("a census needs /proc of Linux")
}
