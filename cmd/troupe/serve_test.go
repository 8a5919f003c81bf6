//go:build unix

package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/hold"
)

// A file of the server that is named by LINK/.. is above the target of LINK, not beside LINK.
func TestSecretFilesAreThoseThatTheServerOpens(t *testing.T) {
	dir := t.TempDir()
	for _, err := range []error{
		os.MkdirAll(dir+"/deep/er", 0o700), os.Symlink("deep/er", dir+"/link"), os.WriteFile(dir+"/deep/policy", []byte("x"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
	policy, err := os.Stat("link/../policy")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"link/../policy", dir + "/link/../policy", "deep/policy"} {
		o := serveOptions{policy: name}
		if !slices.ContainsFunc(o.secretFiles(), func(path string) bool {
			info, err := os.Stat(path)
			return err == nil && os.SameFile(info, policy)
		}) {
			t.Errorf("%s is not hidden: %q", name, o.secretFiles())
		}
	}
}

// A signal to the holder and a signal to the server are one request to stop, two signals to one of them are two.
func TestStopRequests(t *testing.T) {
	t.Parallel()
	const sig, other = syscall.SIGUSR2, syscall.SIGHUP
	passed, gone := make(chan os.Signal), make(chan struct{})
	stop, again := stopRequests([]os.Signal{sig}, passed, gone)
	pass := func(signals ...os.Signal) {
		for _, s := range append(signals, other) { // when the other has come, those before have been counted
			passed <- s
		}
	}
	if pass(other, other); stop.Err() != nil {
		t.Error("a signal that ends no server has ended this one")
	}
	if err := syscall.Kill(os.Getpid(), sig); err != nil {
		t.Fatal(err)
	}
	<-stop.Done()
	if pass(sig); again.Err() != nil {
		t.Error("a signal to holder and server is two requests")
	}
	pass(sig)
	<-again.Done()
	close(gone)

	stop, again = stopRequests([]os.Signal{sig}, make(chan os.Signal), gone)
	if <-again.Done(); stop.Err() != nil {
		t.Error("the end of the holder is a request to drain")
	}
}

// What is wrong with a command line is told once, and in the same words and with the same exit code as without a holder.
func TestHolderStartsWrong(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("no holder here")
	}
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, args := range [][]string{
		{"--bogus"}, {"--listen", "tcp://127.0.0.1:1"}, {"--listen", "ws://" + taken.Addr().String()}, {"--kill-grace", "soon"},
		{"--policy-file", "/does/not/exist"}, {"--help"}, {"and", "arguments"}, {"--url", "ws://127.0.0.1:1"},
	} {
		run := func(args ...string) string {
			cmd := troupe(t, append([]string{"serve"}, args...)...)
			var out, errs bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &errs
			cmd.Run()
			return fmt.Sprintf("exit code %d\n%s\n%s", cmd.ProcessState.ExitCode(), &out, &errs)
		}
		if plain, held := run(append([]string{"--" + hold.Flag}, args...)...), run(args...); plain != held {
			t.Errorf("troupe serve %q: with a holder\n%s\nwithout\n%s", args, held, plain)
		}
	}
}
