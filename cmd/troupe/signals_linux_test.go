package main

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/internal/holder"
	"github.com/b6f6fdd7/troupe/tests/support/hangfs"
	"golang.org/x/sys/unix"
)

// TestSignalWhileFilesHang: SIGTERM ends the server, although more calls hang than the server had threads. No call
// hangs on the main thread, which gets the signal.
func TestSignalWhileFilesHang(t *testing.T) {
	const clients, calls = 6, 10
	hanging := []*hangfs.FS{hangfs.Mount(t, nil), hangfs.Mount(t, nil)} // a filesystem gets half of the turns for calls
	free := func() {
		for _, h := range hanging {
			h.Free()
		}
	}
	t.Setenv(freeMainThread, "1")
	url, server := startServer(t)
	t.Cleanup(free) // before the wait for the server's end
	for i := range clients {
		c, err := client.Dial(t.Context(), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		for j := range calls {
			go fs.Stat(c.FS(hanging[i%2].Dir), fmt.Sprintf("hang-%d-%d", i, j))
		}
	}
	await(t, func() (bool, any) {
		n := hanging[0].Hanging() + hanging[1].Hanging()
		return n >= clients*calls, fmt.Sprintf("%d calls hang", n)
	})
	call, err := os.ReadFile(fmt.Sprintf("/proc/%d/syscall", holder.ServerOf(server.Process.Pid))) // of the main thread
	if err == nil && !strings.HasPrefix(string(call), fmt.Sprint(unix.SYS_FUTEX, " ")) {
		t.Errorf("the main thread does not wait for the others: it is in the system call %s", call)
	}
	server.Process.Signal(syscall.SIGTERM)
	await(t, func() (bool, any) {
		answer, err := http.Get(strings.Replace(url, "ws:", "http:", 1) + "/readyz")
		if err == nil {
			answer.Body.Close()
		}
		return err != nil || answer.StatusCode != http.StatusOK, "the server neither drains nor has ended"
	})
	free()
	if code := exitCode(t, server.Wait()); code != 0 {
		t.Errorf("the server ended with %d", code)
	}
}
