package testlab

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/tests/support/testleak"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testleak.Patient(m)) }

// patience is how long a fact may take on a busy machine.
const patience = time.Minute

// listen accepts connections in a machine, until the test ends.
func listen(t *testing.T, m *Machine, serve func(*net.TCPConn)) (addr string) {
	t.Helper()
	l, err := m.Listen("tcp", m.Addr+":0")
	if err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(t.Context(), func() { c.Close() })
			all.Go(func() { serve(c.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		all.Wait()
	})
	return l.Addr().String()
}

func echo(c *net.TCPConn) {
	defer c.Close()
	io.Copy(c, c)
}

func dial(t *testing.T, m *Machine, addr string) *net.TCPConn {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	c, err := m.Dial(ctx, "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	c.SetDeadline(time.Now().Add(patience))
	return c.(*net.TCPConn)
}

// says sends a line, and expects it back.
func says(t *testing.T, c net.Conn, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(c, line); err != nil {
		t.Fatal(err)
	}
	hears(t, c, line)
}

func hears(t *testing.T, c net.Conn, line string) {
	t.Helper()
	got := make([]byte, len(line)+1)
	if _, err := io.ReadFull(c, got); err != nil || string(got) != line+"\n" {
		t.Fatalf("heard %q, %v; want %q", got, err, line)
	}
}

// silent expects that a link loses everything from send.
func silent(t *testing.T, c net.Conn, k *Link, send func()) {
	t.Helper()
	lost := k.Lost()
	send()
	for began := time.Now(); k.Lost() == lost; time.Sleep(time.Millisecond) {
		if time.Since(began) > patience {
			t.Fatal("the network lost nothing")
		}
	}
	c.SetReadDeadline(time.Now().Add(10 * time.Millisecond))
	if n, err := c.Read(make([]byte, 10)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("over a cut link came %d bytes, %v", n, err)
	}
	c.SetReadDeadline(time.Now().Add(patience))
}

// host describes the network and the mounts of this process.
func host(t *testing.T) string {
	t.Helper()
	devices, err := os.ReadFile("/proc/net/dev")
	if err != nil {
		t.Fatal(err)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	routes, err := os.ReadFile("/proc/net/route")
	if err != nil {
		t.Fatal(err)
	}
	names := regexp.MustCompile(`(?m)^ *\S+:`).FindAll(devices, -1)
	return fmt.Sprintf("%s\n%s\n%s", bytes.Join(names, nil), routes, mounts)
}

// TestMachines: machines reach each other, have a name and processes of their own, and the host sees none of it.
func TestMachines(t *testing.T) {
	before := host(t)
	t.Run("lab", func(t *testing.T) {
		lab := New(t)
		a, b := lab.Machine("a"), lab.Machine("b")
		c := dial(t, a, listen(t, b, echo))
		says(t, c, "hi")
		if got := c.RemoteAddr().(*net.TCPAddr).IP.String(); got != b.Addr || b.Addr != "10.77.0.2" {
			t.Errorf("the other side is %s, and b is %s", got, b.Addr)
		}
		says(t, dial(t, a, listen(t, a, echo)), "to itself")
		out, err := a.Command("sh", "-c", "cat /proc/sys/kernel/hostname; ls -d /proc/[0-9]*; id -u; cat /proc/net/dev; exit 3").CombinedOutput()
		if err == nil || !strings.Contains(err.Error(), "exit code 3") {
			t.Errorf("sh: %v", err)
		}
		for _, want := range []string{"a\n/proc/1\n", "\n0\n", "eth0:", "lo:"} {
			if !strings.Contains(string(out), want) {
				t.Errorf("the machine says %q, want %q in it", out, want)
			}
		}
		if len(regexp.MustCompile(`/proc/\d+`).FindAll(out, -1)) > 4 {
			t.Errorf("a machine sees programs of others: %s", out)
		}
		sleep := b.Command("sleep", "1000")
		if err := sleep.Start(); err != nil {
			t.Fatal(err)
		}
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", sleep.PID())); string(name) != "sleep\n" {
			t.Errorf("process %d is %q", sleep.PID(), name)
		}
		sleep.Signal(syscall.SIGTERM)
		if err := sleep.Wait(); err == nil || !strings.Contains(err.Error(), "killed by terminated") {
			t.Errorf("sleep: %v", err)
		}
		_, err = a.Dial(t.Context(), "tcp", b.Addr+":1")
		if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a port without listener: %v", err)
		}
		if err := a.Command("no-such-program").Run(); err == nil {
			t.Error("a program that does not exist runs")
		}
		if now := host(t); now != before {
			t.Errorf("the host sees the lab:\n%s\nand before:\n%s", now, before)
		}
	})
	if after := host(t); after != before {
		t.Errorf("the lab has left something:\n%s\nand before:\n%s", after, before)
	}
}

// TestCut: a cut takes one direction or both, of one link or of all links of a machine. Nobody is told, and after the end of the cut TCP goes on.
func TestCut(t *testing.T) {
	lab := New(t)
	a, b, c := lab.Machine("a"), lab.Machine("b"), lab.Machine("c")
	server := make(chan *net.TCPConn, 1)
	to := dial(t, a, listen(t, b, func(c *net.TCPConn) { server <- c }))
	from := <-server
	defer from.Close()
	from.SetDeadline(time.Now().Add(patience))
	write := func(c net.Conn, line string) func() {
		return func() {
			if _, err := fmt.Fprintln(c, line); err != nil {
				t.Fatal(err)
			}
		}
	}
	other := dial(t, c, listen(t, b, echo))
	for i, cut := range []func(){
		func() { lab.Link(a, b).Set(Wire{Cut: true}) },
		func() { a.Cut(Out) },
		func() { b.Cut(In) },
	} {
		k := []*Link{lab.Link(a, b), a.Out, b.In}[i]
		cut()
		write(from, "from b")()
		hears(t, to, "from b") // the other direction
		silent(t, from, k, write(to, "from a"))
		if i < 2 {
			says(t, other, "c and b")
		}
		lab.Join(a, b)
		a.Heal()
		b.Heal()
		hears(t, from, "from a")
	}
	for i, cut := range []func(){func() { lab.Part(a, b) }, func() { b.Cut(Both) }} {
		cut()
		silent(t, from, []*Link{lab.Link(a, b), b.In}[i], write(to, "from a"))
		silent(t, to, []*Link{lab.Link(b, a), b.Out}[i], write(from, "from b"))
		lab.Join(a, b)
		b.Heal()
		hears(t, from, "from a")
		hears(t, to, "from b")
	}
}

// TestSlow: a link delays, loses and limits packets, and TCP carries every byte in order all the same.
func TestSlow(t *testing.T) {
	lab := New(t)
	a, b := lab.Machine("a"), lab.Machine("b")
	addr := listen(t, b, echo)
	const delay = 50 * time.Millisecond
	a.Slow(Wire{Delay: delay})
	c := dial(t, a, addr)
	began := time.Now()
	says(t, c, "hi")
	if took := time.Since(began); took < 2*delay {
		t.Errorf("there and back took %v, want %v", took, 2*delay)
	}
	a.Slow(Wire{Loss: 0.05, Delay: time.Millisecond})
	through(t, c, 1<<20)
	if a.In.Lost() == 0 || a.Out.Lost() == 0 {
		t.Errorf("lost %d packets in and %d out", a.In.Lost(), a.Out.Lost())
	}
	a.Heal()
	lab.Link(a, b).Set(Wire{Rate: 1 << 20})
	began = time.Now()
	through(t, c, 300<<10)
	if took := time.Since(began); took < 280*time.Millisecond {
		t.Errorf("300 KiB at 1 MiB/s took %v", took)
	}
	lab.Join(a, b)
	began = time.Now()
	through(t, dial(t, a, addr), 32<<20)
	t.Logf("without faults: %.0f MB/s there and back", 32/time.Since(began).Seconds())
}

// through sends n bytes to an echo, and compares what comes back.
func through(t *testing.T, c *net.TCPConn, n int) {
	t.Helper()
	data := make([]byte, n)
	for i := range data {
		data[i] = byte(i * i >> 7)
	}
	go c.Write(data)
	got := make([]byte, n)
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, data) {
		t.Error("other bytes came back")
	}
}

// TestMachineOff: a machine without power is silent, and its programs are dead. When the machine starts again, it has its old address, and its kernel
// knows no connection.
func TestMachineOff(t *testing.T) {
	lab := New(t)
	a, b := lab.Machine("a"), lab.Machine("b")
	c := dial(t, a, listen(t, b, echo))
	says(t, c, "hi")
	sleep := b.Command("sleep", "1000")
	if err := sleep.Start(); err != nil {
		t.Fatal(err)
	}
	b.Kill()
	if err := sleep.Wait(); err == nil || !strings.Contains(err.Error(), "off") {
		t.Errorf("the program of a dead machine: %v", err)
	}
	if err := syscall.Kill(sleep.PID(), 0); err != syscall.ESRCH {
		t.Errorf("the program of a dead machine: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	var timeout net.Error
	if _, err := a.Dial(ctx, "tcp", b.Addr+":80"); !errors.As(err, &timeout) || !timeout.Timeout() {
		t.Errorf("connect to a dead machine: %v", err)
	}
	fmt.Fprintln(c, "lost")
	if again := lab.Machine("b"); again != b {
		t.Error("the machine is another one")
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection to a machine that has started again: %v", err)
	}
	says(t, dial(t, a, listen(t, b, echo)), "again")
}

const childVar = "TESTLAB_CHILD"

// TestEndsWithTest: if the test is killed, so is everything in its machines.
func TestEndsWithTest(t *testing.T) {
	if os.Getenv(childVar) != "" {
		lab := New(t)
		for _, name := range []string{"a", "b"} {
			sleep := lab.Machine(name).Command("sh", "-c", "setsid sleep 1000 & sleep 1000")
			if err := sleep.Start(); err != nil {
				t.Fatal(err)
			}
			fmt.Printf("started %d\n", sleep.PID())
		}
		select {}
	}
	New(t) // or skip
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestEndsWithTest$")
	cmd.Env = append(os.Environ(), childVar+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pids []int
	for in := bufio.NewScanner(out); len(pids) < 2 && in.Scan(); {
		var pid int
		if n, _ := fmt.Sscanf(in.Text(), "started %d", &pid); n == 1 {
			pids = append(pids, pid)
		}
	}
	cmd.Process.Kill()
	cmd.Wait()
	if len(pids) != 2 {
		t.Fatalf("it started %d", pids)
	}
	for _, pid := range pids {
		for began := time.Now(); syscall.Kill(pid, 0) != syscall.ESRCH; time.Sleep(time.Millisecond) {
			if time.Since(began) > patience {
				t.Fatalf("process %d of a killed test lives", pid)
			}
		}
	}
}

// TestFront: each client comes to a backend that accepts, in turn, and ends are passed on.
func TestFront(t *testing.T) {
	lab := New(t)
	lb, client := lab.Machine("lb"), lab.Machine("client")
	var backends []string
	conns := make(chan *net.TCPConn, 1)
	for _, name := range []string{"a", "b"} {
		backends = append(backends, listen(t, lab.Machine(name), func(c *net.TCPConn) { conns <- c }))
	}
	silent, refuses := "10.77.0.200:1", lb.Addr+":1"
	f := lab.Front(lb, lb.Addr+":80", append([]string{silent, refuses}, backends...)...)
	seen := make(map[string]int)
	for range 8 {
		near := dial(t, client, f.Addr)
		far := <-conns
		seen[far.LocalAddr().String()]++
		far.Close()
		near.Close()
	}
	if len(seen) != 2 || f.Taken(backends[0]) != seen[backends[0]] {
		t.Errorf("the backends have got %v", seen)
	}
	f.Set(backends[1])
	near := dial(t, client, f.Addr)
	far := <-conns
	defer far.Close()
	far.SetDeadline(time.Now().Add(patience))
	fmt.Fprintln(near, "request")
	near.CloseWrite()
	hears(t, far, "request")
	if _, err := far.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("after the end of the client: %v", err)
	}
	fmt.Fprintln(far, "answer")
	hears(t, near, "answer")
	far.SetLinger(0)
	far.Close()
	if _, err := near.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset by the server: %v", err)
	}
	near = dial(t, client, f.Addr)
	far = <-conns
	defer far.Close()
	near.SetLinger(0)
	near.Close()
	far.SetDeadline(time.Now().Add(patience))
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset by the client: %v", err)
	}
	f.Set(silent)
	if _, err := dial(t, client, f.Addr).Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("without a backend: %v", err)
	}
}

// TestEtcd: etcd keeps its data over a kill.
func TestEtcd(t *testing.T) {
	lab := New(t)
	e := lab.Etcd(lab.Machine("etcd"))
	post := func(path, body string) string {
		t.Helper()
		c := dial(t, lab.Machine("client"), e.Addr)
		fmt.Fprintf(c, "POST %s HTTP/1.0\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s", path, len(body), body)
		answer, err := io.ReadAll(c)
		if err != nil || !bytes.HasPrefix(answer, []byte("HTTP/1.0 200")) {
			t.Fatalf("%s: %v", answer, err)
		}
		return string(answer)
	}
	post("/v3/kv/put", `{"key":"a2V5","value":"dmFsdWU="}`)
	e.Kill()
	e.Start()
	if got := post("/v3/kv/range", `{"key":"a2V5"}`); !strings.Contains(got, "dmFsdWU=") {
		t.Errorf("after a kill etcd has %s", got)
	}
}
