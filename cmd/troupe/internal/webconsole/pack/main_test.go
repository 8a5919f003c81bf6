package main

import (
	"os"
	"testing"
)

// TestDistIsBuilt: the page in the binary is built from the present sources.
func TestDistIsBuilt(t *testing.T) {
	got, err := os.ReadFile("../dist/" + sumsFile)
	if err != nil {
		t.Fatal(err)
	}
	want, err := sums("..")
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("dist is of other sources: run go run ./cmd/troupe/internal/webconsole/pack in the root of the repository, and commit dist\nit was made of\n%snow there is\n%s", got, want)
	}
}
