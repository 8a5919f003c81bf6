package sdnotify

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// manager is a service manager at an address, and hears one message at a time.
func manager(t *testing.T, address string) (hear func() string) {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: address, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return func() string {
		t.Helper()
		socket.SetReadDeadline(time.Now().Add(time.Minute))
		var b [4096]byte
		n, err := socket.Read(b[:])
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
}

// A message reaches the manager at a path and at an abstract address. A line stays a line. The variables are taken.
func TestTell(t *testing.T) {
	for _, address := range []string{filepath.Join(t.TempDir(), "s"), fmt.Sprintf("@troupe-test-%d", os.Getpid())} {
		hear := manager(t, address)
		t.Setenv("NOTIFY_SOCKET", address)
		m, err := Take()
		if err != nil {
			t.Fatal(err)
		}
		if err := m.Tell(Ready, Status+"a\nSTOPPING=1"); err != nil {
			t.Fatal(err)
		}
		if got := hear(); got != "READY=1\nSTATUS=a STOPPING=1" {
			t.Errorf("%s heard %q", address, got)
		}
		if got := m.Environ(); len(got) != 1 || got[0] != "NOTIFY_SOCKET="+address {
			t.Errorf("another program of this process gets %q", got)
		}
		m, err = Take()
		if m != nil || err != nil {
			t.Errorf("a second time: %v, %v", m, err)
		}
	}
}

// The process named by the variables gives signs of life, two in the time of the manager.
func TestEvery(t *testing.T) {
	for _, test := range []struct {
		limit, pid string
		want       time.Duration
	}{
		{"3000000", "", 1500 * time.Millisecond},
		{"3000000", fmt.Sprint(os.Getpid()), 1500 * time.Millisecond},
		{"3000000", "1", 0},
		{"", "", 0},
		{"soon", "", 0},
	} {
		t.Setenv("NOTIFY_SOCKET", "/absent")
		t.Setenv("WATCHDOG_USEC", test.limit)
		t.Setenv("WATCHDOG_PID", test.pid)
		m, err := Take()
		if err != nil || m.Every() != test.want {
			t.Errorf("%+v: %v, %v", test, m.Every(), err)
		}
		if left := slices.DeleteFunc(os.Environ(), func(v string) bool {
			return !strings.HasPrefix(v, "WATCHDOG_") && !strings.HasPrefix(v, "NOTIFY_")
		}); len(left) > 0 {
			t.Errorf("the environment has %q", left)
		}
		if err := m.Tell(Ready); err == nil {
			t.Error("an absent manager has heard it")
		}
	}
}

// Other kinds of addresses are an error, and no manager is none.
func TestNoManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "vsock:2:1")
	m, err := Take()
	if err == nil {
		t.Error("no error")
	}
	if err := m.Tell(Ready); err != nil || m.Every() != 0 || m.Environ() != nil {
		t.Errorf("%v, %v", err, m.Every())
	}
}

// A socket for another process is not taken, and variables that no manager writes are an error. Programs inherit none of the variables.
func TestSocketVariables(t *testing.T) {
	own := fmt.Sprint(os.Getpid())
	for _, test := range []struct{ count, pid, want string }{
		{"1", "1", ""},
		{"1", "", ""},
		{"", own, ""},
		{"0", own, ""},
		{"2", own, "2 sockets (a:b)"},
		{"-1", own, "LISTEN_FDS=-1"},
		{"one", own, "LISTEN_FDS=one"},
	} {
		t.Setenv("LISTEN_FDS", test.count)
		t.Setenv("LISTEN_PID", test.pid)
		t.Setenv("LISTEN_FDNAMES", "a:b")
		f, err := Socket(os.Getpid())
		if f != nil || (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v, %v", test, f, err)
		}
		for _, v := range os.Environ() {
			if strings.HasPrefix(v, "LISTEN_") {
				t.Errorf("the environment has %q", v)
			}
		}
	}
}
