//go:build unix

package transport

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A server goes on with the socket of a server that was killed: a client that comes between them waits. If the file of a unix socket is
// another file by now, the server listens anew. Sockets of other addresses are closed.
func TestKeptSocket(t *testing.T) {
	dir := t.TempDir()
	// kill ends a server as SIGKILL does: the file of its socket stays. kill returns the open socket.
	kill := func(s *Server) map[string]*os.File {
		kept := make(map[string]*os.File)
		if err := s.Socket(func(name string, fd int) error {
			copied, err := syscall.Dup(fd)
			kept[name] = os.NewFile(uintptr(copied), name)
			return err
		}); err != nil {
			t.Fatal(err)
		}
		l := s.listener.Listener.(*socket).Listener
		if file, ok := l.(*unixListener); ok {
			l = file.UnixListener
		}
		l.Close()
		return kept
	}
	for _, url := range []string{"ws://127.0.0.1:0", "unix://" + filepath.Join(dir, "s")} {
		first, err := Listen(url, nil)
		if err != nil {
			t.Fatal(err)
		}
		kept := kill(first)
		network, address := "tcp", strings.TrimPrefix(first.URL(), "ws://")
		if path, ok := strings.CutPrefix(first.URL(), "unix://"); ok {
			network, address = "unix", path
		}
		c, err := net.Dial(network, address)
		if err != nil {
			t.Fatalf("a client that comes while there is no server: %v", err)
		}
		defer c.Close()
		if _, err := io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		second, _ := serveWhen(t, url, &ServerOptions{Kept: kept}, patience, func(Conn) bool { return true })
		if second.URL() != first.URL() {
			t.Errorf("the second server is at %s, the first was at %s", second.URL(), first.URL())
		}
		if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.Contains(line, " 200 ") {
			t.Errorf("%s: %q, %v", url, line, err)
		}
	}

	path := filepath.Join(dir, "replaced")
	first, err := Listen("unix://"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	kept := kill(first)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	other, err := Listen("unix://"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range kill(other) {
		f.Close()
	}
	second, err := Listen("unix://"+path, &ServerOptions{Kept: kept})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := net.Dial("unix", path); err != nil {
		t.Error(err)
	}
	for _, f := range kept {
		if err := f.Close(); !errors.Is(err, os.ErrClosed) {
			t.Errorf("the socket of a file that was removed is open: %v", err)
		}
	}
	if err := second.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v: want no file after the end", err)
	}
}
