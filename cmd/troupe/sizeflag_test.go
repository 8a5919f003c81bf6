//go:build unix

package main

import (
	"testing"

	"github.com/spf13/pflag"
)

func TestSizeFlag(t *testing.T) {
	for text, want := range map[string]struct {
		n     int64
		shown string
	}{
		"0": {0, "0"}, "1000": {1000, "1000"}, "1024": {1024, "1KiB"}, "64k": {64 << 10, "64KiB"}, "512MiB": {512 << 20, "512MiB"}, "1.5g": {3 << 29, "1536MiB"}, "2T": {2 << 40, "2TiB"}, "-1": {-1, "-1"},
	} {
		var n int64
		f := pflag.NewFlagSet("x", pflag.ContinueOnError)
		sizeVar(f, &n, "size", 7, "a `size`")
		if n != 7 || f.Lookup("size").DefValue != "7" {
			t.Errorf("the default is %d, %s", n, f.Lookup("size").DefValue)
		}
		if err := f.Set("size", text); err != nil || n != want.n || f.Lookup("size").Value.String() != want.shown {
			t.Errorf("%q: %d %s, %v; want %+v", text, n, f.Lookup("size").Value, err, want)
		}
	}
	for _, text := range []string{"", "many", "1X", "--1", "-1G", "1e99", "NaN", "9999999T"} {
		n := int64(7)
		if err := (sizeFlag{&n}).Set(text); err == nil || n != 7 {
			t.Errorf("%q: %d, %v", text, n, err)
		}
	}
}
