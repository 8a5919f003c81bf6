// Command serve runs a provider of package testoidc for the tests of the page of the web console, and prints the address of the provider. It ends with its
// stdin.
package main

import (
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/b6f6fdd7/troupe/internal/testoidc"
)

// run is the test with which the provider ends.
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
