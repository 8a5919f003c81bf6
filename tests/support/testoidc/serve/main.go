// Command serve runs a provider of package testoidc for the tests of the web console in browsers, prints the address of the provider, and ends at the end
// of stdin.
package main

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/testoidc"
)

// run takes the place of a test.
type run struct{ testing.TB }

func (run) Cleanup(func()) {}

func (run) Fatal(args ...any) {
	fmt.Fprintln(os.Stderr, args...)
	os.Exit(1)
}

func main() {
	fmt.Println(testoidc.New(run{}).URL)
	io.Copy(io.Discard, os.Stdin)
}
