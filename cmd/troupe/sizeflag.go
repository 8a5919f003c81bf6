//go:build unix

package main

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/b6f6fdd7/troupe/internal/show"
)

// sizeFlag is a flag with a number of bytes, which may have a unit: 512MiB, 2G, 1000, or -1.
type sizeFlag struct{ to *int64 }

// sizeVar defines a flag with a number of bytes.
func sizeVar(f *pflag.FlagSet, to *int64, name string, value int64, usage string) {
	*to = value
	f.Var(sizeFlag{to}, name, usage)
}

func (f sizeFlag) Type() string { return "bytes" }

// String returns the number, with the largest unit of which it is a multiple.
func (f sizeFlag) String() string {
	n := *f.to
	for _, unit := range []struct {
		name  string
		shift uint
	}{{"TiB", 40}, {"GiB", 30}, {"MiB", 20}, {"KiB", 10}} {
		if n > 0 && n%(1<<unit.shift) == 0 {
			return strconv.FormatInt(n>>unit.shift, 10) + unit.name
		}
	}
	return strconv.FormatInt(n, 10)
}

func (f sizeFlag) Set(s string) error {
	if strings.HasPrefix(s, "-") {
		n, err := strconv.ParseInt(s, 10, 64)
		if err == nil {
			*f.to = n
		}
		return err
	}
	n, err := show.ParseBytes(s)
	if err == nil {
		*f.to = int64(n) // less than 1<<63
	}
	return err
}
