package workers

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/figures"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/oracle"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/plan"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/load/result"
	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// patience is for waits that end at once unless the code is broken.
const patience = time.Minute

var secret = []byte("a secret of the test")

const build = "v1.2.3"

func aPlan(t *testing.T) plan.Plan {
	t.Helper()
	p := plan.Plan{
		Servers: []string{"ws://127.0.0.1:1"}, Sessions: 5, Processes: 2, Seed: 1,
		Phases: []plan.Phase{{Duration: plan.Duration(time.Minute), Mix: []plan.Part{{Profile: plan.Echo, Weight: 1}}}},
	}
	if err := p.Complete(); err != nil {
		t.Fatal(err)
	}
	return p
}

// serving starts a worker until the end of the test. serving returns the worker's address, and a function to end the worker earlier.
func serving(t *testing.T, w *Worker) (addr string, end func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if w.Secret == nil {
		w.Secret = secret
	}
	w.Build = cmp.Or(w.Build, build)
	w.every = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan struct{})
	go func() {
		defer close(served)
		if err := w.Serve(ctx, l); err != nil {
			t.Error(err)
		}
	}()
	end = func() {
		cancel()
		select {
		case <-served:
		case <-time.After(patience):
			t.Error("the worker still serves")
		}
	}
	t.Cleanup(end)
	return l.Addr().String(), end
}

// dial is Dial with the secret of the test, and without the wait before the start.
func dial(t *testing.T, addrs ...string) *Controller {
	t.Helper()
	c, err := Dial(t.Context(), aPlan(t), addrs, secret, build)
	if err != nil {
		t.Fatal(err)
	}
	c.startIn = 10 * time.Millisecond
	return c
}

// Two workers begin together, each with its part, and their results are merged.
func TestTwoWorkers(t *testing.T) {
	var mu sync.Mutex
	var parts []plan.Plan
	meet := make(chan bool)
	w := &Worker{Run: func(ctx context.Context, p plan.Plan, stop <-chan struct{}, rec *figures.Recorder) (*result.Commands, error) {
		mu.Lock()
		parts = append(parts, p)
		mu.Unlock()
		select {
		case meet <- true:
		case <-meet:
		case <-time.After(patience):
			t.Error("a worker runs alone")
		}
		rec.Add(result.Sessions, int64(p.Sessions))
		rec.Latency(result.Echo, time.Duration(p.Worker)*time.Millisecond, 0)
		rec.Found(oracle.Finding{Kind: oracle.Missing, Session: fmt.Sprint("w", p.Worker), Bytes: 3})
		rec.Error(errors.New("an error"))
		rec.Step(nil)
		rec.Note("noted")
		return &result.Commands{Argv: []string{"x"}, Codes: map[string]int64{"0": 1}}, nil
	}}
	a, _ := serving(t, w)
	b, _ := serving(t, &Worker{Run: w.Run})
	for _, start := range []time.Duration{0, defaultStartIn} { // a worker takes one load after the other
		parts = nil
		c := dial(t, a, b)
		c.startIn = start
		r, err := c.Run(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if r.Counts[result.Sessions] != 5 || r.Counts[result.Wrong] != 2 || r.Latency[result.Echo].Count() != 2 ||
			len(r.Hosts) != 2 || len(r.Findings) != 2 || r.Errors["an error"] != 2 || r.Commands.Codes["0"] != 2 || len(r.Seconds) != 1 {
			t.Errorf("the result is %+v", r)
		}
		if r.Plan.Sessions != 5 || !slices.Contains(r.Notes, "noted") {
			t.Errorf("the plan is %+v, the notes %q", r.Plan, r.Notes)
		}
		if len(parts) != 2 || parts[0].Worker+parts[1].Worker != 3 || parts[0].Sessions+parts[1].Sessions != 5 {
			t.Errorf("the parts are %+v", parts)
		}
	}
}

// The controller follows a run. Its ctx ends the run early with a result. stop ends the run at once.
func TestEndEarly(t *testing.T) {
	for _, now := range []bool{false, true} {
		began := make(chan struct{}, 2)
		run := func(ctx context.Context, p plan.Plan, stop <-chan struct{}, rec *figures.Recorder) (*result.Commands, error) {
			rec.Add(result.Operations, 10)
			rec.Step(nil)
			rec.Found(oracle.Finding{Kind: oracle.Order})
			began <- struct{}{}
			<-ctx.Done()
			if now {
				<-stop
			}
			rec.Add(result.Operations, 1)
			return nil, nil
		}
		a, _ := serving(t, &Worker{Run: run})
		b, _ := serving(t, &Worker{Run: run})
		c := dial(t, a, b)
		ctx, cancel := context.WithCancel(t.Context())
		stop := make(chan struct{})
		go func() {
			for end := time.Now().Add(patience); c.Now().Counts[result.Operations] < 20 && time.Now().Before(end); {
				time.Sleep(10 * time.Millisecond)
			}
			cancel()
			if now {
				close(stop)
			}
		}()
		r, err := c.Run(ctx, stop)
		if err != nil || r.Counts[result.Operations] != 22 || len(r.Findings) != 2 || len(r.Seconds) < 1 {
			t.Errorf("now %v: %+v, %v", now, r, err)
		}
	}
}

// A lost worker is named in the error, and its figures so far count. The other workers go on.
func TestLostWorker(t *testing.T) {
	told := make(chan struct{})
	run := func(ctx context.Context, p plan.Plan, stop <-chan struct{}, rec *figures.Recorder) (*result.Commands, error) {
		rec.Add(result.Operations, 1)
		rec.Step(nil)
		if p.Worker == 1 {
			<-ctx.Done() // of the loss of its controller
			return nil, nil
		}
		<-told
		rec.Add(result.Operations, 10)
		return nil, nil
	}
	a, _ := serving(t, &Worker{Run: run})
	b, _ := serving(t, &Worker{Run: run})
	c := dial(t, a, b)
	go func() {
		for end := time.Now().Add(patience); c.Now().Counts[result.Operations] < 2 && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		c.workers[0].c.conn.NetConn().Close()
		close(told)
	}()
	r, err := c.Run(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "worker "+a+": it is lost") || strings.Contains(err.Error(), b) {
		t.Errorf("the error is %v", err)
	}
	if r.Counts[result.Operations] != 12 || !strings.Contains(strings.Join(r.Problems, "\n"), "Worker 1 ("+a+")") {
		t.Errorf("%d operations; the problems are %q", r.Counts[result.Operations], r.Problems)
	}
}

// A run longer than its plan joins its seconds. The controller then has the joined seconds, and none of the old ones.
func TestLongRun(t *testing.T) {
	var s sender
	var r remote
	tell := func(now result.Result) {
		t.Helper()
		var u update
		s.cut(&now, &u)
		if err := r.take(&u); err != nil {
			t.Fatal(err)
		}
	}
	short := result.Result{Version: result.Version, Step: time.Second}
	for i := range 10 {
		at := time.Duration(i) * time.Second
		short.Seconds = append(short.Seconds, result.Second{At: at, Took: time.Second, Counts: map[string]int64{result.Operations: int64(i)}})
		tell(short)
	}
	long := short
	long.Step, long.Seconds = 2*time.Second, result.Coarser(short.Seconds, 2)
	tell(long)
	if !reflect.DeepEqual(r.seen.Seconds, long.Seconds) {
		t.Errorf("the controller has %+v, the worker %+v", r.seen.Seconds, long.Seconds)
	}
	long.Seconds = append(long.Seconds, result.Second{At: 10 * time.Second, Took: 2 * time.Second})
	tell(long)
	if !reflect.DeepEqual(r.seen.Seconds, long.Seconds) {
		t.Errorf("the controller then has %+v, the worker %+v", r.seen.Seconds, long.Seconds)
	}
}

// The findings of each worker stay on its machine. Controller and worker say in which file.
func TestFindingsFile(t *testing.T) {
	dir := t.TempDir()
	notes := make(chan string, 10)
	run := func(ctx context.Context, p plan.Plan, stop <-chan struct{}, rec *figures.Recorder) (*result.Commands, error) {
		if p.Worker == 2 {
			rec.Found(oracle.Finding{Kind: oracle.Order})
		}
		return nil, nil
	}
	in := func(name string) func() (string, func(), error) {
		return func() (string, func(), error) { return filepath.Join(dir, name), func() {}, nil }
	}
	right, _ := serving(t, &Worker{Run: run, Dir: in("right")})
	wrong, _ := serving(t, &Worker{Run: run, Dir: in("wrong"), Note: func(s string) { notes <- s }})
	r, err := dial(t, right, wrong).Run(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	said := strings.Join(r.Notes, "\n")
	if want := "worker 2 is in " + filepath.Join(dir, "wrong", figures.FindingsName); !strings.Contains(said, want) || strings.Contains(said, "worker 1") {
		t.Errorf("the notes are %q", r.Notes)
	}
	for n := range notes {
		if strings.Contains(n, figures.FindingsName) {
			break
		}
		if strings.Contains(n, "ended") {
			t.Fatal("the worker does not note its file")
		}
	}
}

// If a worker cannot do its job, the error has its name.
func TestPartFails(t *testing.T) {
	a, _ := serving(t, &Worker{Run: func(ctx context.Context, p plan.Plan, stop <-chan struct{}, rec *figures.Recorder) (*result.Commands, error) {
		return nil, errors.New("no server")
	}})
	c := dial(t, a)
	if r, err := c.Run(t.Context(), nil); r == nil || err == nil || err.Error() != "worker "+a+": no server" {
		t.Errorf("%+v, %v", r, err)
	}
	bad := aPlan(t)
	bad.Phases[0].Mix[0].Profile = "what"
	if _, err := Dial(t.Context(), bad, []string{a}, secret, build); err == nil || !strings.Contains(err.Error(), "the plan is refused") {
		t.Errorf("a wrong plan: %v", err)
	}
}

// Without the secret nobody can use a worker, or play a worker.
func TestSecret(t *testing.T) {
	run := func(context.Context, plan.Plan, <-chan struct{}, *figures.Recorder) (*result.Commands, error) {
		t.Error("a stranger's plan runs")
		return nil, nil
	}
	notes := make(chan string, 10)
	a, _ := serving(t, &Worker{Run: run, Note: func(s string) { notes <- s }})
	other := []byte("another secret of the test")
	if _, err := Dial(t.Context(), aPlan(t), []string{a}, other, build); !errors.Is(err, ErrSecret) {
		t.Errorf("another secret: %v", err)
	}
	if n := <-notes; !strings.Contains(n, "has another secret") {
		t.Errorf("the worker notes %q", n)
	}
	if _, err := Dial(t.Context(), aPlan(t), []string{a}, []byte("short"), build); err == nil || !strings.Contains(err.Error(), "5 bytes, expected 16") {
		t.Errorf("a short secret: %v", err)
	}
	if err := (&Worker{Secret: []byte("short")}).Serve(t.Context(), closedListener{}); err == nil {
		t.Error("a worker with a short secret serves")
	}

	// Somebody in the middle passes on the proofs of both sides.
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	config, err := serverTLS()
	if err != nil {
		t.Fatal(err)
	}
	var middle sync.WaitGroup
	middle.Go(func() {
		near, err := l.Accept()
		if err != nil {
			t.Error(err)
			return
		}
		defer near.Close()
		far, err := net.Dial("tcp", a)
		if err != nil {
			t.Error(err)
			return
		}
		defer far.Close()
		toController, toWorker := tls.Server(near, config), tls.Client(far, clientTLS())
		proof := make([]byte, 1000)
		n, _ := toController.Read(proof)
		toWorker.Write(proof[:n])
		n, err = toWorker.Read(proof)
		if err == nil {
			t.Errorf("the worker proves itself to a stranger: %q", proof[:n])
		}
	})
	if _, err := Dial(t.Context(), aPlan(t), []string{l.Addr().String()}, secret, build); !errors.Is(err, ErrSecret) {
		t.Errorf("by somebody in the middle: %v", err)
	}
	middle.Wait()
}

// A controller that has the result of a load may begin the next one, whatever the worker still does with the connection of the first.
func TestNextLoad(t *testing.T) {
	run := func(context.Context, plan.Plan, <-chan struct{}, *figures.Recorder) (*result.Commands, error) {
		return nil, errors.New("no server")
	}
	a, _ := serving(t, &Worker{Run: run})
	c := dial(t, a)
	start := plan.Duration(0)
	r := c.workers[0]
	if err := r.c.write(&message{Start: &start}); err != nil {
		t.Fatal(err)
	}
	for !r.done {
		m, err := r.c.read()
		if err == nil {
			err = r.take(m.Update)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	next, err := Dial(t.Context(), aPlan(t), []string{a}, secret, build) // the first connection is still there
	if err != nil {
		t.Fatal(err)
	}
	next.Close()
	c.Close()
}

// A second controller is refused while a run goes on, but not because of strangers.
func TestBusy(t *testing.T) {
	began := make(chan struct{})
	a, _ := serving(t, &Worker{Run: func(ctx context.Context, p plan.Plan, stop <-chan struct{}, rec *figures.Recorder) (*result.Commands, error) {
		close(began)
		<-ctx.Done()
		return nil, nil
	}})
	stranger, err := net.Dial("tcp", a)
	if err != nil {
		t.Fatal(err)
	}
	defer stranger.Close()
	c := dial(t, a)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-began
		if _, err := Dial(t.Context(), aPlan(t), []string{a}, secret, build); err == nil || !strings.Contains(err.Error(), "another controller") {
			t.Errorf("a second controller: %v", err)
		}
		cancel()
	}()
	if _, err := c.Run(ctx, nil); err != nil {
		t.Error(err)
	}
}

// A worker ended by its user sends the result so far, and the controller says that the load is incomplete.
func TestWorkerEnds(t *testing.T) {
	began := make(chan struct{})
	a, end := serving(t, &Worker{Run: func(ctx context.Context, p plan.Plan, stop <-chan struct{}, rec *figures.Recorder) (*result.Commands, error) {
		close(began)
		<-ctx.Done()
		rec.Add(result.Operations, 7)
		return nil, nil
	}})
	c := dial(t, a)
	go func() {
		<-began
		end()
	}()
	r, err := c.Run(t.Context(), nil)
	if err == nil || !strings.Contains(err.Error(), "somebody ended this worker") {
		t.Errorf("the error is %v", err)
	}
	if r.Counts[result.Operations] != 7 {
		t.Errorf("%+v", r)
	}
}

// A stranger who says nothing, or says it slowly, has greetTime in all.
func TestSlowStranger(t *testing.T) {
	for name, greeting := range map[string][]byte{"silent": nil, "slow": {0, 0, 0, 100, '{', '"'}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				near, far := pipe(t)
				go func() {
					for _, b := range greeting {
						time.Sleep(greetTime / 8)
						near.Write([]byte{b})
					}
					io.Copy(io.Discard, near)
				}()
				began := time.Now()
				_, err := meet(far, secret, workerSide, build, nil)
				if took := time.Since(began); !errors.Is(err, os.ErrDeadlineExceeded) || took != greetTime {
					t.Errorf("the worker waits %v for the greeting, and ends with %v", took, err)
				}
			})
		})
	}
}

// A worker that ends between the start message and the start does not wait for the start.
func TestEndsBeforeStart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := pipe(t)
		ctx, cancel := context.WithCancelCause(t.Context())
		enough := errors.New("enough")
		go func() {
			c := &channel{conn: near, limit: maxMessage}
			p := aPlan(t)
			in := plan.Duration(lostAfter / 2)
			if err := c.write(&message{Job: &p}); err != nil {
				t.Error(err)
			}
			if m, err := c.read(); err != nil || m.Ready == nil {
				t.Errorf("the worker answers %+v, %v", m, err)
			}
			if err := c.write(&message{Start: &in}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
			cancel(enough)
		}()
		began := time.Now()
		err := new(Worker).job(ctx, &channel{conn: far, limit: maxMessage}, func() bool { t.Error("the run begins"); return false }, func() {})
		if took := time.Since(began); err != enough || took != 0 {
			t.Errorf("the job ends after %v with %v", took, err)
		}
	})
}

// pipe returns both sides of a connection without a network: of a controller and of a worker.
func pipe(t *testing.T) (controller, worker *tls.Conn) {
	t.Helper()
	config, err := serverTLS()
	if err != nil {
		t.Fatal(err)
	}
	near, far := net.Pipe()
	controller, worker = tls.Client(near, clientTLS()), tls.Server(far, config)
	t.Cleanup(func() {
		near.Close()
		far.Close()
	})
	greeted := make(chan error, 1)
	go func() { greeted <- controller.Handshake() }()
	if err := errors.Join(worker.Handshake(), <-greeted); err != nil {
		t.Fatal(err)
	}
	return controller, worker
}

// A worker of another build is refused by both sides. Both errors name both versions, and say what to do. The worker stays free.
func TestVersions(t *testing.T) {
	notes := make(chan string, 10)
	a, _ := serving(t, &Worker{Build: "v1.3.0", Note: func(s string) { notes <- s }})
	_, err := Dial(t.Context(), aPlan(t), []string{a}, secret, build)
	for side, text := range map[string]string{"controller": fmt.Sprint(err), "worker": <-notes} {
		for _, want := range []string{"troupe v1.2.3", "troupe v1.3.0", "use the same build"} {
			if !strings.Contains(text, want) {
				t.Errorf("the %s says %s, without %s", side, text, want)
			}
		}
	}
	if c, err := Dial(t.Context(), aPlan(t), []string{a}, secret, "v1.3.0"); err != nil {
		t.Error(err)
	} else {
		c.Close()
	}
}

// If the user of a worker stops it a second time, the running load ends at once.
func TestWorkerStops(t *testing.T) {
	began, stopped := make(chan struct{}), make(chan struct{})
	a, end := serving(t, &Worker{Stop: stopped, Run: func(ctx context.Context, p plan.Plan, stop <-chan struct{}, rec *figures.Recorder) (*result.Commands, error) {
		close(began)
		<-ctx.Done()
		close(stopped)
		select {
		case <-stop:
		case <-time.After(patience):
			t.Error("the run is not told to end at once")
		}
		return nil, nil
	}})
	c := dial(t, a)
	go func() {
		<-began
		end()
	}()
	if _, err := c.Run(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "somebody ended this worker") {
		t.Errorf("the error is %v", err)
	}
}

// A controller with other messages, or from the time before builds were compared, is refused, too.
func TestOldController(t *testing.T) {
	for _, old := range []greet{{Version: version + 1, Build: build}, {Version: version}} {
		near, far := pipe(t)
		worker := make(chan error, 1)
		go func() {
			_, err := meet(far, secret, workerSide, build, func() string { t.Error("the worker takes the job"); return "" })
			worker <- err
		}()
		proof, err := prove(near, secret, controllerSide)
		if err != nil {
			t.Fatal(err)
		}
		old.Proof = proof
		c := &channel{conn: near, limit: maxGreeting}
		if err := c.write(&message{Greet: &old}); err != nil {
			t.Fatal(err)
		}
		if m, err := c.read(); err != nil || m.Greet == nil || m.Greet.Version != version || m.Greet.Build != build {
			t.Errorf("the worker answers %+v, %v", m, err)
		}
		if err := <-worker; err == nil || !strings.Contains(err.Error(), "use the same build") {
			t.Errorf("the worker ends with %v", err)
		}
	}
}

// If nobody answers the proof, the error names all possible reasons. If nobody speaks TLS, the error is not about the secret.
func TestNoWorker(t *testing.T) {
	near, far := pipe(t)
	go func() {
		far.Read(make([]byte, 1000))
		far.NetConn().Close()
	}()
	if _, err := meet(near, secret, controllerSide, build, nil); err == nil || !strings.Contains(err.Error(), "ended just now") || !strings.Contains(err.Error(), "--secret-file") {
		t.Errorf("a worker that ends: %v", err)
	}
	plain, other := net.Pipe()
	defer plain.Close()
	go io.Copy(io.Discard, other)
	go other.Write([]byte("HTTP/1.1 400 Bad Request\r\n"))
	if _, err := meet(tls.Client(plain, clientTLS()), secret, controllerSide, build, nil); err == nil || errors.Is(err, ErrSecret) || !strings.Contains(err.Error(), "does not speak TLS") {
		t.Errorf("a web server: %v", err)
	}
}

// The parts of a plan are the plan: nothing is lost, nothing is done twice.
func TestSplit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 10).Draw(t, "workers")
		p := plan.Plan{
			Servers:   []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "servers")],
			Sessions:  rapid.IntRange(1, 50).Draw(t, "sessions"),
			Processes: rapid.IntRange(1, 50).Draw(t, "processes"),
			Phases:    []plan.Phase{{Rate: 1000}},
			Chaos:     plan.Chaos{FIN: 10, RST: 20, HalfOpen: 30, MidFrame: 40, Handshake: 50, Resume: 60, Stall: 70, Takeover: 80, Kill: 90, Freeze: 100, Stop: 110, Delay: 7},
			PIDs:      []int{1}, Metrics: "m",
		}
		command := rapid.Bool().Draw(t, "command")
		if command {
			p.Command = &plan.Command{Argv: []string{"x"}}
		}
		parts, err := Split(p, n)
		whole := p.Sessions * p.Processes
		if enough := p.Sessions >= n || command && whole >= n; enough != (err == nil) {
			t.Fatalf("%d sessions, %d processes: %v", p.Sessions, p.Processes, err)
		}
		if err != nil {
			return
		}
		var chaos plan.Chaos
		sum, rate, next, dealt := 0, 0.0, 1, make(map[string]int)
		seeds := make(map[uint64]bool)
		for i, part := range parts {
			if part.Worker != i+1 || part.Sessions < 1 || part.Processes < 1 || seeds[part.Seed] || part.Chaos.Delay != 7 {
				t.Fatalf("part %d is %+v", i, part)
			}
			seeds[part.Seed] = true
			sum += part.Sessions * part.Processes
			rate += part.Phases[0].Rate
			chaos.FIN += part.Chaos.FIN
			chaos.Freeze += part.Chaos.Freeze
			chaos.Stop += part.Chaos.Stop
			for s := range part.Sessions {
				dealt[part.Servers[s%len(part.Servers)]]++
			}
			if command {
				if part.Command.First != next {
					t.Fatalf("part %d begins with command %d, expected %d", i, part.Command.First, next)
				}
				next += part.Sessions * part.Processes
			}
			if (i == 0) != (len(part.PIDs) == 1 && part.Metrics == "m") {
				t.Fatalf("part %d measures %v %q", i, part.PIDs, part.Metrics)
			}
		}
		if sum != whole || math.Abs(rate-1000) > 1e-6 || math.Abs(chaos.FIN-10) > 1e-9 || math.Abs(chaos.Freeze-100) > 1e-9 || chaos.Stop != 110 {
			t.Fatalf("together: %d of %d processes, rate %v, chaos %+v", sum, whole, rate, chaos)
		}
		if p.Sessions >= n {
			for _, s := range p.Servers {
				if off := dealt[s] - p.Sessions/len(p.Servers); off < 0 || off > 1 {
					t.Fatalf("server %s has %d of %d sessions", s, dealt[s], p.Sessions)
				}
			}
		}
		if p.Phases[0].Rate != 1000 {
			t.Fatal("the plan was changed")
		}
	})
}

// A closedListener accepts nobody.
type closedListener struct{ net.Listener }

func (closedListener) Close() error { return nil }
