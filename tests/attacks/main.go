// Command attacks attacks a troupe server from outside. A well-behaved client uses the same server and
// notices if the server suffers.
//
//	go run ./tests/attacks                        every attack, each on a new server
//	go run ./tests/attacks --only 'token|disk'    these attacks
//	go run ./tests/attacks --list                 describes each attack and its rules
//	go run ./tests/attacks --quick                small numbers
//	go run ./tests/attacks --door tls             servers that ask for a token, inside TLS
//	go run ./tests/attacks --server BIN           against this binary
//	go run ./tests/attacks --all-at-once 30m      all attacks at once, for this long
//
// docs/THREAT_MODEL.md, section "Attacks to run", explains the table. Every attack is bounded in count and
// time, connects only to servers of this program, and removes its files, processes and sessions. An attacked server
// can write only below the directory of its attack (package testroot). The program needs Linux; some attacks need root.
//
// To add an attack, add an entry to the list of its family (doors.go, credentials.go, memory.go, …): a name, a sentence
// for the attack, a sentence for its conditions, the server's flags, and run. A target has raw connections (dial),
// sessions (open), and othersGoOn, which waits until the well-behaved client has gone on. An attack cleans up with
// onEnd. The attacks also run, with small numbers, in go test -tags slow ./tests/attacks.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
	"time"
)

// attacks are all attacks.
var attacks = slices.Concat(doorAttacks, handshakeAttacks, credentialAttacks, tlsAttacks, memoryAttacks)

type options struct {
	only      *regexp.Regexp
	list      bool
	quick     bool
	server    string
	allAtOnce time.Duration
	door      door
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == childArg {
		childMain(os.Args[2:])
	}
	o, err := parse(os.Args[1:])
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		os.Exit(2) // parse has printed the error
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the program
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "attacks:", err)
		os.Exit(1)
	}
}

func parse(args []string) (*options, error) {
	o := &options{only: regexp.MustCompile("")}
	f := flag.NewFlagSet("attacks", flag.ContinueOnError)
	f.Func("only", "make the attacks whose name matches this `regexp`", func(s string) (err error) {
		o.only, err = regexp.Compile(s)
		return err
	})
	f.BoolVar(&o.list, "list", false, "say what each attack does and what must hold, and make none")
	f.BoolVar(&o.quick, "quick", false, "small numbers, as in go test")
	f.StringVar(&o.server, "server", "", "attack this troupe `binary`; default: built from the module")
	f.DurationVar(&o.allAtOnce, "all-at-once", 0, "make all attacks at once, for so long")
	f.Var(&o.door, "door", "`how` the server is exposed: open (no credential), token (bearer tokens), or tls (bearer tokens over wss); the attacker has a right token of its own")
	f.DurationVar(&giveBackWithin, "give-back", giveBackWithin, "how long the server may take to give back what an attack made it use")
	if err := f.Parse(args); err != nil {
		return nil, err
	}
	if f.NArg() > 0 {
		err := fmt.Errorf("attacks: unexpected argument %q; see -h", f.Arg(0))
		fmt.Fprintln(os.Stderr, err)
		return nil, err
	}
	return o, nil
}

func run(ctx context.Context, o *options) error {
	var chosen []*attack
	for _, a := range attacks {
		if o.only.MatchString(a.name) {
			chosen = append(chosen, a)
		}
	}
	if o.list {
		for _, a := range chosen {
			fmt.Printf("%-24s %s\n%-24s Must hold: %s\n", a.name, a.does, "", a.must)
		}
		return nil
	}
	dir, err := os.MkdirTemp("", "troupe-attacks-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r, err := newRunner(ctx, dir, o.server, os.Stderr)
	if err != nil {
		return err
	}
	r.quick, r.door = o.quick, o.door
	if o.allAtOnce > 0 {
		return r.together(ctx, chosen, o.allAtOnce, os.Stdout)
	}
	out := table{os.Stdout}
	out.header()
	failed := 0
	for _, a := range chosen {
		res := r.attack(ctx, a)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		out.line(res)
		if len(res.wrong) > 0 {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d attacks succeeded", failed, len(chosen))
	}
	return nil
}
