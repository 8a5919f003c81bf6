package tests

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/segmentio/asm/base64"
)

// Each benchmark measures the whole way, from a client over loopback to a real
// process and back, and beside it, as "raw", the same without a server.

// percentiles collects times and reports them in microseconds.
type percentiles []time.Duration

func (p *percentiles) since(begin time.Time) { *p = append(*p, time.Since(begin)) }

func (p percentiles) report(b *testing.B) {
	slices.Sort(p)
	for _, q := range []int{50, 99} {
		b.ReportMetric(float64(p[(len(p)-1)*q/100].Microseconds()), fmt.Sprintf("p%d-µs", q))
	}
	b.ReportMetric(0, "ns/op") // the mean, with all that is around it, says nothing
}

// BenchmarkStart: from process/start to closed.
func BenchmarkStart(b *testing.B) {
	b.Run("raw", func(b *testing.B) {
		var times percentiles
		for b.Loop() {
			begin := time.Now()
			if err := exec.Command("/bin/true").Run(); err != nil {
				b.Fatal(err)
			}
			times.since(begin)
		}
		times.report(b)
	})
	b.Run("one at a time", func(b *testing.B) {
		w := benchServer(b).wire(b, nil)
		var times percentiles
		n := 0
		for b.Loop() {
			begin := time.Now()
			n++
			id := strconv.Itoa(n)
			w.request("process/start", startParams(id, obj{"argv": []string{"/bin/true"}}))
			w.closed(id)
			times.since(begin)
		}
		times.report(b)
	})
}

// benchServer soon forgets what has closed: a session has only so many processes.
func benchServer(b *testing.B) *server {
	return startServer(b, "--closed-retention", "2s")
}

// BenchmarkStart16 keeps 16 starts in flight.
func BenchmarkStart16(b *testing.B) {
	const inFlight = 16
	rate := func(b *testing.B, begin time.Time) {
		b.ReportMetric(float64(b.N)/time.Since(begin).Seconds(), "starts/s")
		b.ReportMetric(0, "ns/op")
	}
	b.Run("raw", func(b *testing.B) {
		begin := time.Now()
		b.SetParallelism(inFlight) // times GOMAXPROCS: there are not many
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := exec.Command("/bin/true").Run(); err != nil {
					b.Error(err)
				}
			}
		})
		rate(b, begin)
	})
	b.Run("one connection", func(b *testing.B) {
		w := benchServer(b).wire(b, nil)
		begin := time.Now()
		started, running := 0, 0
		reap := func(down int) {
			for running > down {
				if f := w.next(); f.method == "process/closed" {
					running--
				} else if f.failed {
					b.Fatalf("%s", f.raw)
				}
			}
		}
		for b.Loop() {
			started, running = started+1, running+1
			w.request("process/start", startParams(strconv.Itoa(started), obj{"argv": []string{"/bin/true"}}))
			reap(inFlight - 1)
		}
		reap(0)
		rate(b, begin)
	})
}

// BenchmarkEcho: from a keystroke to its echo on a terminal, alone and beside a
// process that floods the same connection. The program reads and says nothing, so
// that its terminal does not fill up and all that comes is the echo.
func BenchmarkEcho(b *testing.B) {
	const reader = "exec cat >/dev/null"
	b.Run("raw", func(b *testing.B) {
		cmd := exec.Command("/bin/sh", "-c", reader)
		master, err := pty.Start(cmd)
		if err != nil {
			b.Fatal(err)
		}
		defer func() { cmd.Process.Kill(); cmd.Wait(); master.Close() }()
		var times percentiles
		key := []byte("k")
		for b.Loop() {
			begin := time.Now()
			if _, err := master.Write(key); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(master, key); err != nil {
				b.Fatal(err)
			}
			times.since(begin)
			if len(times)%1000 == 0 { // the terminal holds one line of 4 KiB at most
				master.Write([]byte{'\n'})
				io.ReadFull(master, make([]byte, 2))
			}
		}
		times.report(b)
	})
	for _, beside := range []string{"alone", "beside a flood"} {
		b.Run(beside, func(b *testing.B) {
			w := benchServer(b).wire(b, nil)
			w.start("tty", obj{"argv": sh(reader), "tty": true})
			if beside != "alone" {
				w.start("flood", obj{"argv": []string{"/usr/bin/yes"}})
				(&stall{w: w}).wantFlooding()
			}
			var times percentiles
			press := func(key string) {
				w.request("process/write", w.writeParams("tty", []byte(key)))
				w.until(func(f frame) bool { return f.process == "tty" && f.chunk != nil })
			}
			for b.Loop() {
				begin := time.Now()
				press("k")
				times.since(begin)
				if len(times)%1000 == 0 {
					press("\n")
				}
			}
			times.report(b)
		})
	}
}

// BenchmarkTerminate: from process/terminate to its answer, beside a long poll, a
// full stdin and a flood on the same connection. The raw limit is a call that has
// nothing to do.
func BenchmarkTerminate(b *testing.B) {
	b.Run("raw", func(b *testing.B) {
		w := benchServer(b).wire(b, nil)
		var times percentiles
		for b.Loop() {
			begin := time.Now()
			w.call("environment/status", obj{})
			times.since(begin)
		}
		times.report(b)
	})
	b.Run("beside stalls", func(b *testing.B) {
		w := benchServer(b).wire(b, nil)
		token := newToken(b)
		stall := w.stall(token)
		var times percentiles
		n := 0
		for b.Loop() {
			n++
			id := "victim " + strconv.Itoa(n)
			w.request("process/start", startParams(id, obj{"argv": []string{"/bin/sleep", token}}))
			start := w.id
			w.until(func(f frame) bool { stall.look(f); return f.id == start })
			begin := time.Now()
			kill := w.request("process/terminate", obj{"processId": id})
			w.until(func(f frame) bool { stall.look(f); return f.id == kill })
			times.since(begin)
			w.until(func(f frame) bool { stall.look(f); return f.method == "process/closed" && f.process == id })
		}
		stall.wantStalled(b)
		times.report(b)
	})
}

// BenchmarkOutput: 64 MiB from one process.
func BenchmarkOutput(b *testing.B) {
	const size = 64 << 20
	source := fmt.Sprintf("head -c %d /dev/zero", size)
	rate := func(b *testing.B, begin time.Time) {
		b.ReportMetric(float64(b.N)*size/mib/time.Since(begin).Seconds(), "MiB/s")
		b.ReportMetric(0, "ns/op")
	}
	drain := func(b *testing.B, r io.Reader) {
		buf := make([]byte, 256<<10)
		total := 0
		for total < size {
			n, err := r.Read(buf)
			total += n
			if err != nil {
				b.Fatalf("after %d bytes: %v", total, err)
			}
		}
	}
	b.Run("raw base64", func(b *testing.B) { // what encoding and decoding alone allow
		data, text := make([]byte, size), make([]byte, base64.StdEncoding.EncodedLen(size))
		begin := time.Now()
		for b.Loop() {
			base64.StdEncoding.Encode(text, data)
			base64.StdEncoding.Decode(data[:cap(data)], text)
		}
		rate(b, begin)
	})
	b.Run("raw pipe", func(b *testing.B) {
		begin := time.Now()
		for b.Loop() {
			r, out, err := os.Pipe()
			if err != nil {
				b.Fatal(err)
			}
			cmd := exec.Command("/bin/sh", "-c", source)
			cmd.Stdout = out
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			out.Close()
			drain(b, r)
			cmd.Wait()
			r.Close()
		}
		rate(b, begin)
	})
	b.Run("raw PTY", func(b *testing.B) {
		begin := time.Now()
		for b.Loop() {
			cmd := exec.Command("/bin/sh", "-c", "stty raw; "+source)
			master, err := pty.Start(cmd)
			if err != nil {
				b.Fatal(err)
			}
			drain(b, master)
			cmd.Wait()
			master.Close()
		}
		rate(b, begin)
	})
	for _, kind := range []string{"pipe", "PTY"} {
		b.Run(kind, func(b *testing.B) {
			w := benchServer(b).wire(b, nil)
			script := source
			if kind == "PTY" {
				script = "stty raw; " + source
			}
			begin := time.Now()
			n := 0
			for b.Loop() {
				n++
				id := strconv.Itoa(n)
				w.request("process/start", startParams(id, obj{"argv": sh(script), "tty": kind == "PTY"}))
				got := 0
				w.until(func(f frame) bool {
					got += len(f.chunk)
					return f.method == "process/closed"
				})
				if got != size {
					b.Fatalf("%d bytes came, want %d", got, size)
				}
			}
			rate(b, begin)
		})
	}
}
