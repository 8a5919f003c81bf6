package testlab

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
)

// An Etcd is etcd, alone in its cluster, in a machine.
type Etcd struct {
	Addr    string // HOST:PORT of clients
	Machine *Machine

	t    testing.TB
	path string
	dir  string
	cmd  *Cmd
}

// Etcd starts etcd, and waits for its first answer. A system without etcd lacks a need.
func (l *Lab) Etcd(m *Machine) *Etcd {
	l.t.Helper()
	e := &Etcd{Addr: m.Addr + ":2379", t: l.t, Machine: m, path: needs.Program(l.t, "etcd"), dir: l.t.TempDir()}
	e.Start()
	return e
}

// Start starts etcd again, with its data, and waits for its first answer.
func (e *Etcd) Start() {
	e.t.Helper()
	log, err := os.OpenFile(filepath.Join(e.dir, "log"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		e.t.Fatal(err)
	}
	defer log.Close()
	peers := "http://127.0.0.1:2380"
	e.cmd = e.Machine.Command(e.path, "--name", "lab", "--data-dir", filepath.Join(e.dir, "data"), "--logger", "zap",
		"--listen-client-urls", "http://"+e.Addr, "--advertise-client-urls", "http://"+e.Addr,
		"--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers, "--initial-cluster", "lab="+peers,
		"--heartbeat-interval", "50", "--election-timeout", "250")
	e.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + e.dir}
	e.cmd.Stdout, e.cmd.Stderr = log, log
	if err := e.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DialContext: e.Machine.Dial, DisableKeepAlives: true}}
	for began := time.Now(); ; time.Sleep(20 * time.Millisecond) {
		err := healthy(client, "http://"+e.Addr+"/health")
		if err == nil {
			return
		}
		if time.Since(began) > time.Minute {
			text, _ := os.ReadFile(log.Name())
			e.t.Fatalf("etcd does not answer: %v\n%s", err, text[max(0, len(text)-4<<10):])
		}
	}
}

func healthy(client *http.Client, url string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := client.Do(request)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	if text, err := io.ReadAll(r.Body); err != nil || r.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", r.Status, text)
	}
	return nil
}

// Kill kills etcd. Its data stays.
func (e *Etcd) Kill() {
	e.t.Helper()
	if err := e.cmd.Signal(syscall.SIGKILL); err != nil {
		e.t.Fatal(err)
	}
	e.cmd.Wait()
}

// Stop stops etcd until Continue: connections stay open, and nobody answers.
func (e *Etcd) Stop() { e.signal(syscall.SIGSTOP) }

// Continue ends Stop.
func (e *Etcd) Continue() { e.signal(syscall.SIGCONT) }

func (e *Etcd) signal(sig syscall.Signal) {
	e.t.Helper()
	if err := e.cmd.Signal(sig); err != nil {
		e.t.Fatal(err)
	}
}

// Wipe removes the data of a killed etcd.
func (e *Etcd) Wipe() {
	e.t.Helper()
	if err := os.RemoveAll(filepath.Join(e.dir, "data")); err != nil {
		e.t.Fatal(err)
	}
}
