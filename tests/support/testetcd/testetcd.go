// Package testetcd runs etcd for tests.
package testetcd

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/b6f6fdd7/troupe/tests/support/testca"
)

// A Server is an etcd of one process. The end of the test ends the server.
type Server struct {
	Endpoint string // for clients: unix:///PATH
	Socket   string // PATH

	t         testing.TB
	directory string
	scheme    string // of URLs in etcd's arguments: unix, or unixs for TLS
	args      []string
	http      *http.Client
	cmd       *exec.Cmd
}

// Start starts an etcd with more arguments, and waits for an answer. Without an installed etcd the test is skipped.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	return start(t, "unix", nil, args...)
}

// StartTLS starts an etcd with a certificate for 127.0.0.1 of a CA. Its Endpoint is https://127.0.0.1:PORT. Clients need a certificate of the CA.
func StartTLS(t testing.TB, ca *testca.CA) *Server {
	t.Helper()
	cert, key := ca.Server(t, "etcd")
	s := start(t, "unixs", ca.Client(t, &x509.Certificate{}), "--client-cert-auth",
		"--cert-file="+testca.File(t, "cert.pem", cert), "--key-file="+testca.File(t, "key.pem", key), "--trusted-ca-file="+testca.File(t, "ca.pem", ca.PEM))
	s.Endpoint = "https://" + forward(t, s.Socket)
	return s
}

// forward joins connections to a port of 127.0.0.1 with a socket. A port for etcd itself could be taken by others before etcd listens.
func forward(t testing.TB, socket string) (address string) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	t.Cleanup(func() {
		listener.Close()
		all.Wait()
	})
	join := func(near net.Conn) {
		defer near.Close()
		far, err := net.Dial("unix", socket)
		if err != nil {
			return
		}
		defer far.Close()
		all.Go(func() {
			io.Copy(far, near)
			far.Close()
		})
		io.Copy(near, far)
	}
	all.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() { join(near) })
		}
	})
	return listener.Addr().String()
}

func start(t testing.TB, scheme string, config *tls.Config, args ...string) *Server {
	t.Helper()
	needs.Program(t, "etcd")
	// t.TempDir has the name of the test, and the path of a socket may have 107 bytes only.
	directory, err := os.MkdirTemp("", "etcd")
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t, directory: directory, scheme: scheme, args: args, Socket: filepath.Join(directory, "client:1")}
	s.Endpoint = "unix://" + s.Socket
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.Socket)
		if err == nil && config != nil {
			return tls.Client(conn, config), nil
		}
		return conn, err
	}
	s.http = &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial}}
	t.Cleanup(func() {
		s.Kill()
		os.RemoveAll(directory)
	})
	s.Run()
	return s
}

// Run starts etcd again after Kill, with its data.
func (s *Server) Run() {
	s.t.Helper()
	// etcd takes the host of a unix URL for a path in its working directory, and asks for a port there.
	client, peer := s.scheme+"://client:1", "unix://peer:1"
	cmd := exec.Command("etcd", append(s.args, "--name=test", "--data-dir=data", "--logger=zap", "--log-level=error",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=test="+peer)...)
	cmd.Dir = s.directory
	endWithTest(cmd)
	log, err := os.OpenFile(filepath.Join(s.directory, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		s.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.cmd = cmd
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		answer, err := s.http.Get("http://etcd/health")
		if err == nil {
			answer.Body.Close()
			if answer.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(end) {
			said, _ := os.ReadFile(log.Name())
			s.t.Fatalf("etcd does not answer: %v\n%s", err, said)
		}
	}
}

// Kill ends etcd at once.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	s.cmd.Process.Kill()
	s.cmd.Wait()
	s.cmd = nil
	for _, socket := range []string{"client:1", "peer:1"} {
		os.Remove(filepath.Join(s.directory, socket))
	}
}

// Pause stops etcd until Continue. The connections stay.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Continue ends Pause.
func (s *Server) Continue() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(signal syscall.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// Forget removes the data of a killed etcd.
func (s *Server) Forget() {
	s.t.Helper()
	if err := os.RemoveAll(filepath.Join(s.directory, "data")); err != nil {
		s.t.Fatal(err)
	}
}

// CPU returns etcd's processor time since Run.
func (s *Server) CPU() time.Duration {
	s.t.Helper()
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(s.cmd.Process.Pid) + "/stat")
	if err != nil {
		s.t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	const state, utime, stime, ticks = 3, 14, 15, 100 // the numbers of fields in proc(5)
	user, _ := strconv.Atoi(fields[utime-state])
	system, _ := strconv.Atoi(fields[stime-state])
	return time.Duration(user+system) * time.Second / ticks
}

// Metrics returns the metrics of etcd without a label, by name.
func (s *Server) Metrics() map[string]float64 {
	s.t.Helper()
	answer, err := s.http.Get("http://etcd/metrics")
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	values := make(map[string]float64)
	for lines := bufio.NewScanner(answer.Body); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), " "); ok {
			if v, err := strconv.ParseFloat(value, 64); err == nil {
				values[name] = v
			}
		}
	}
	return values
}
