package tests

import (
	"context"
	"crypto/sha256"
	"flag"
	"io"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/client"
	"github.com/b6f6fdd7/troupe/tests/support/testrelay"
)

var (
	copyMiB  = flag.Int64("mib", 16, "how many MiB TestIOCopyOverCuts copies")
	copyCuts = flag.Int("cuts", 6, "how often TestIOCopyOverCuts breaks the connection")
)

// A breaker is a network that breaks each connection after a while: with FIN, with RST, or by silence.
type breaker struct {
	*testrelay.Relay

	mu    sync.Mutex
	left  int64 // bytes until the next break
	every int64 // bytes between two breaks, on average
	cuts  int   // still to come
	done  [3]int
}

func newBreaker(t *testing.T, url string, every int64, cuts int) *breaker {
	t.Helper()
	b := &breaker{left: every, every: every, cuts: cuts}
	b.Relay = testrelay.New(t, "tcp", strings.TrimPrefix(url, "ws://"), b.pass)
	return b
}

func (b *breaker) pass(_ *testrelay.Link, n int, _ bool) (int, testrelay.How) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.left -= int64(n); b.left > 0 || b.cuts == 0 {
		return n, testrelay.Open
	}
	n = max(0, n+int(b.left)) // the break may be within a message
	b.left = b.every/2 + rand.Int64N(b.every)
	how := b.cuts % len(b.done)
	b.cuts--
	b.done[how]++
	return n, []testrelay.How{testrelay.FIN, testrelay.RST, testrelay.Silence}[how]
}

// A person writes to a program and reads its output with io.Copy. However often the connection breaks, the
// program gets every byte once, and so does the reader. 1 GiB over 300 cuts:
//
//	go test ./tests -run TestIOCopyOverCuts -v -timeout 1h -mib 1024 -cuts 300
func TestIOCopyOverCuts(t *testing.T) {
	t.Parallel()
	server := startServer(t)
	total := *copyMiB << 20
	network := newBreaker(t, server.url, 2*total/int64(*copyCuts)*2/3, *copyCuts)
	resumed := 0
	var c *client.Client
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	c, err := client.Dial(ctx, "ws://"+network.Addr(), &client.Options{
		PingEvery: 200 * time.Millisecond, DeadAfter: time.Second, ReconnectFor: client.Forever,
		Resumed: func() { resumed++ },
	})
	if err != nil {
		t.Fatal(err)
	}
	cmd := c.Command("cat")
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(ctx); err != nil {
		t.Fatal(err)
	}
	begin := time.Now()
	sent, got := sha256.New(), sha256.New()
	wrote := make(chan error, 1)
	go func() {
		_, err := io.Copy(stdin, io.TeeReader(io.LimitReader(rand.NewChaCha8([32]byte{1}), total), sent))
		stdin.Close()
		wrote <- err
	}()
	n, err := io.Copy(got, stdout)
	took := time.Since(begin)
	if err := <-wrote; err != nil {
		t.Errorf("write: %v", err)
	}
	if err != nil || n != total || [32]byte(got.Sum(nil)) != [32]byte(sent.Sum(nil)) {
		t.Errorf("%d of %d bytes came back, %v; sha256 %x, want %x", n, total, err, got.Sum(nil), sent.Sum(nil))
	}
	if err := cmd.Wait(ctx); err != nil {
		t.Errorf("Wait: %v", err)
	}
	if err := c.CloseSession(ctx); err != nil {
		t.Error(err)
	}
	network.mu.Lock()
	defer network.mu.Unlock()
	if network.cuts > 0 || min(network.done[0], network.done[1], network.done[2]) < *copyCuts/3 {
		t.Errorf("%d cuts were not made; made: %v", network.cuts, network.done)
	}
	t.Logf("%d bytes through cat and back, sha256 %x, in %v (%.1f MB/s each way), over %d cuts (FIN, RST, silence: %v); the session was resumed %d times",
		n, got.Sum(nil), took.Round(time.Millisecond), float64(n)/1e6/took.Seconds(), *copyCuts, network.done, resumed)
}
