package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sort"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/b6f6fdd7/troupe/internal/rpc"
	"github.com/b6f6fdd7/troupe/protocol"
	"github.com/b6f6fdd7/troupe/transport"
)

func die(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// cpu of pid and its children servers, in ms
func cpu(pids []int) (ms float64) {
	for _, p := range pids {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", p))
		_ = b
		// sum tasks
		ts, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", p))
		for _, t := range ts {
			b, err = os.ReadFile(t)
			if err != nil {
				continue
			}
			f := strings.Fields(string(b))
			n, _ := strconv.ParseFloat(f[0], 64)
			ms += n / 1e6
		}
	}
	return ms
}

func one(cmdline string, n, inflight int) (rate, cpuMs, p50 float64) {
	args := strings.Fields(cmdline)
	env := os.Environ()
	for strings.Contains(args[0], "=") {
		env = append(env, args[0])
		args = args[1:]
	}
	dir, err := os.MkdirTemp("", "zz")
	die(err)
	defer os.RemoveAll(dir)
	c := exec.Command(args[0], append([]string{"serve", "--listen", "ws://127.0.0.1:0", "--closed-retention", "2s", "--kill-grace", "0"}, args[1:]...)...)
	c.Env = append(env, "XDG_RUNTIME_DIR="+dir)
	c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := c.StdoutPipe()
	die(err)
	die(c.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	die(err)
	pids := []int{c.Process.Pid}
	kids, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", c.Process.Pid, c.Process.Pid))
	for _, f := range strings.Fields(string(kids)) {
		k, _ := strconv.Atoi(f)
		pids = append(pids, k)
	}
	conn, err := rpc.Dial(context.Background(), strings.TrimSpace(line), "json", &transport.DialOptions{})
	die(err)
	call := func(method string, p any) {
		_, err := conn.Request(method, p)
		die(err)
		for {
			m, err := conn.Next()
			die(err)
			if m.Kind == protocol.Failure {
				die(m.Error)
			}
			if m.Kind == protocol.Response {
				return
			}
		}
	}
	call(protocol.MethodInitialize, protocol.InitializeParams{ClientName: "bench"})
	die(conn.Notify(protocol.MethodInitialized, nil))
	idle := func(from, n int) {
		inflight := 0
		for i := range n {
			_, err := conn.Request(protocol.MethodProcessStart, protocol.ProcessStartParams{ProcessID: strconv.Itoa(from + i), Argv: []string{"/bin/sleep", "100000"}, Cwd: "file:///", Env: map[string]string{"PATH": "/usr/bin:/bin"}})
			die(err)
			inflight++
			for inflight >= 16 || i == n-1 && inflight > 0 {
				m, err := conn.Next()
				die(err)
				if m.Kind == protocol.Failure {
					die(m.Error)
				}
				if m.Kind == protocol.Response {
					inflight--
				}
			}
		}
	}
	settle := func() map[string]float64 {
		last, same := 0.0, 0
		for same < 8 {
			m := mem(pids)
			t := m["total"]
			if t > last-100 && t < last+100 {
				same++
			} else {
				same = 0
			}
			last = t
			time.Sleep(time.Second)
		}
		return mem(pids)
	}
	idle(0, 200)
	a := settle()
	idle(1000, n)
	b := settle()
	var names []string
	for k := range b {
		names = append(names, k)
	}
	sort.Strings(names)
	for _, k := range names {
		if d := (b[k] - a[k]) / float64(n); d > 0.05 || d < -0.05 {
			fmt.Printf("%8.2f KiB each  %s\n", d, k)
		}
	}
	conn.Close(transport.CloseNormal, "")
	c.Process.Signal(syscall.SIGTERM)
	c.Wait()
	return
}


func mem(pids []int) map[string]float64 {
	m := map[string]float64{}
	for i, p := range pids {
		b, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps", p))
		name := ""
		for _, l := range strings.Split(string(b), "\n") {
			f := strings.Fields(l)
			if len(f) >= 5 && strings.Contains(f[0], "-") && len(f[1]) == 4 {
				name = "anon"
				if len(f) > 5 {
					name = strings.Join(f[5:], " ")
				}
				if strings.HasPrefix(name, "/usr") || strings.HasPrefix(name, "/tmp/w") {
					name = "binary"
				}
			}
			if len(f) == 3 && f[0] == "Pss:" {
				v, _ := strconv.ParseFloat(f[1], 64)
				m[fmt.Sprint(i, " ", name)] += v
				m["total"] += v
			}
		}
	}
	return m
}

func main() {
	n, _ := strconv.Atoi(os.Args[1])
	for _, c := range os.Args[2:] {
		fmt.Println(c)
		one(c, n, 16)
	}
}
