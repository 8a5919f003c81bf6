package transport

import (
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
)

// takeGiven returns a listener with the socket of ServerOptions.Given, and the address of the socket. The file of a unix socket stays after Close:
// the file is the service manager's.
func takeGiven(url string, o *ServerOptions) (_ *socket, shown string, err error) {
	l, err := net.FileListener(o.Given)
	if err != nil {
		return nil, "", fmt.Errorf("take the socket of the service manager: %w", err)
	}
	defer func() {
		if err != nil {
			l.Close()
		}
	}()
	scheme, host, _ := strings.Cut(url, "://")
	same := false
	switch at := l.Addr().(type) {
	case *net.UnixAddr:
		shown = "unix://" + at.Name
		if scheme == "unix" {
			same = sameFile(host, at.Name)
		}
		if info, err := os.Stat(at.Name); same && err == nil && o.Door == nil && !o.Insecure && info.Mode()&0o002 != 0 {
			return nil, "", fmt.Errorf("every user of this machine could run programs here: the socket %s has mode %04o. Set SocketMode=0660 in the socket unit, ask for credentials (troupe serve -h), or allow it with --insecure", at.Name, info.Mode().Perm())
		}
	case *net.TCPAddr:
		if scheme == "unix" {
			scheme = "ws"
		}
		shown = scheme + "://" + at.String()
		asked, err := netip.ParseAddrPort(host)
		same = err == nil && asked == netip.AddrPortFrom(at.AddrPort().Addr().Unmap(), at.AddrPort().Port())
	default:
		shown = at.String()
	}
	if !same {
		return nil, "", fmt.Errorf("the service manager has passed a socket at %s, and the server has to listen at %s: let --listen and ListenStream= of the socket unit name the same address, or disable the socket unit", shown, url)
	}
	return &socket{l, url}, shown, nil
}

// sameFile reports whether two paths name the same file, perhaps by a link such as /var/run.
func sameFile(a, b string) bool {
	if a, err := filepath.Abs(a); err == nil && a == b {
		return true
	}
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}
