// Package slots lets more tests run at a time than there are processors.
package slots

import (
	"flag"
	"runtime"
	"strconv"
)

// each is how many tests share a processor. Tests of a server wait for most of their time: for
// programs, for each other's turn, and for limits of 10 or 30 seconds.
const each = 2

// Widen is for TestMain, before m.Run: unless -parallel is given, it is each for a processor.
func Widen() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		flag.Set("test.parallel", strconv.Itoa(each*runtime.GOMAXPROCS(0)))
	}
}
