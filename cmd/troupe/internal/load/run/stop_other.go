//go:build !unix

package run

import "errors"

var errNoStop = errors.New("this system cannot stop a process")

func halt(int) error    { return errNoStop }
func proceed(int) error { return errNoStop }
