//go:build slow

package tests

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/internal/vandal"
	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testroot"
	"github.com/b6f6fdd7/troupe/transport"
)

// For the process inside, victimsVar has the directory with the victims, and strangerVar the pid of a process of the same user outside.
const victimsVar, strangerVar = "TROUPE_TEST_VICTIMS", "TROUPE_TEST_STRANGER"

// TestUntouched: where fuzzers run (serverInside), no request changes a file outside of the directory of the test, by any method and any spelling of a
// path. The same requests change files below that directory, or they would show nothing.
func TestUntouched(t *testing.T) {
	t.Parallel()
	if os.Getenv(victimsVar) == "" {
		victims := testroot.Dir(t, "/var/tmp") // visible inside, unlike /tmp
		n, err := vandal.Victims(victims)
		if err != nil {
			t.Fatal(err)
		}
		before := look(t, victims)
		stranger := exec.Command("sleep", "1000")
		if err := stranger.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stranger.Process.Kill(); stranger.Wait() })
		if testroot.Inside(t, victimsVar+"="+victims, fmt.Sprint(strangerVar, "=", stranger.Process.Pid)) {
			t.Fatal("this process is inside, and nobody has made victims")
		}
		if !alive(stranger.Process.Pid) && needs.LandlockABI() >= 6 {
			t.Error("a process outside was killed")
		}
		for _, change := range vandal.Changes(before, look(t, victims)) {
			t.Error(change)
		}
		t.Logf("%d attempts", n)
		return
	}
	if !testroot.Inside(t) {
		t.Fatal("not inside")
	}
	if stranger, err := strconv.Atoi(os.Getenv(strangerVar)); err != nil {
		t.Error(err)
	} else if err := syscall.Kill(stranger, syscall.SIGKILL); err != syscall.EPERM && needs.LandlockABI() >= 6 {
		t.Errorf("kill a process outside: %v, want %v", err, syscall.EPERM)
	}
	scratch := t.TempDir()
	within := filepath.Join(scratch, "within")
	if _, err := vandal.Victims(within); err != nil {
		t.Fatal(err)
	}
	before := look(t, within)
	for _, victims := range []string{within, os.Getenv(victimsVar)} {
		for _, way := range vandal.Ways() {
			t.Run(fmt.Sprint(way, " within: ", victims == within), func(t *testing.T) { attemptInside(t, way, scratch, victims) })
		}
	}
	after := look(t, within)
	for _, way := range vandal.Ways() {
		for _, spelling := range way.Spared(within, before, after) {
			t.Errorf("%s of %q changes nothing even where it may", way, spelling)
		}
	}
}

func look(t *testing.T, dir string) map[string]string {
	t.Helper()
	all, err := vandal.Look(dir)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// attemptInside sends the requests of a way to a server of its own.
func attemptInside(t *testing.T, way vandal.Way, scratch, victims string) {
	troupe := serverInside(t)
	ours, theirs := transport.Pipe("")
	troupe.Accept(theirs, theirs.About())
	defer ours.Close(transport.CloseNormal, "")
	id := 0
	call := func(request obj) error {
		id++
		request = maps.Clone(request)
		request["id"] = id
		if err := ours.WriteMessage([]byte(jsonText(request)), false); err != nil {
			return err
		}
		for {
			data, err := ours.ReadMessage()
			if err != nil {
				return err
			}
			var m struct {
				ID    int
				Error json.RawMessage
			}
			if json.Unmarshal(data, &m) == nil && m.ID == id {
				if testing.Verbose() && m.Error != nil {
					t.Logf("%s: %s", jsonText(request), m.Error)
				}
				return nil
			}
		}
	}
	err := call(obj{"method": "initialize", "params": obj{"clientName": "vandal", "capabilities": obj{"groups": true}}})
	if err == nil {
		err = ours.WriteMessage([]byte(`{"method":"initialized"}`), false)
	}
	if err == nil {
		err = way.Attempt(victims, scratch, call)
	}
	if err != nil {
		t.Fatal(err)
	}
}
