// Command survivor runs a program on a server, and has every byte of its output once in a file, however often survivor is killed:
//
//	until survivor ws://127.0.0.1:7766 DIR make test; do sleep 1; done
//
// DIR has the file output, and state.json with what survivor must know to come back. The next survivor with the same DIR resumes the
// session, and goes on after the last event in the file.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"os"
	"path/filepath"

	"github.com/b6f6fdd7/troupe/client"
)

// state is all that survives a crash. Seq and Size change together: Size is the size of the output up to the event Seq.
type state struct {
	Session string
	Seq     uint64
	Size    int64
	Exited  bool // Code is the exit code
	Code    int
}

type survivor struct {
	state
	dir    string
	output *os.File
}

func main() {
	log.SetFlags(0)
	if len(os.Args) < 4 {
		log.Fatal("usage: survivor URL DIR PROGRAM ARGUMENT…")
	}
	s := &survivor{dir: os.Args[2]}
	if err := s.run(context.Background(), os.Args[1], os.Args[3:]); err != nil {
		log.Fatal(err)
	}
	os.Exit(s.Code)
}

// run begins, or goes on where an earlier survivor was killed.
func (s *survivor) run(ctx context.Context, url string, argv []string) error {
	if err := s.load(); err != nil {
		return err
	}
	// The server may still have the connection of the earlier survivor, so take the session over.
	c, err := client.Dial(ctx, url, &client.Options{Session: s.Session, Takeover: s.Session != ""})
	if err != nil {
		return err
	}
	defer c.Close() // and not CloseSession: after an error the next survivor goes on
	s.Session = c.SessionID()
	if err := s.save(); err != nil { // before the start: a program that runs must be found again
		return err
	}
	cmd, err := s.start(ctx, c, argv)
	if errors.Is(err, client.ErrProcessGone) && s.Exited {
		return nil // the server has forgotten a process whose end is in the state
	}
	if err != nil {
		return err
	}
	var exit *client.ExitError
	if err := cmd.Wait(ctx); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// start starts the program, or attaches to the one that an earlier survivor has started.
func (s *survivor) start(ctx context.Context, c *client.Client, argv []string) (*client.Cmd, error) {
	if s.Seq == 0 {
		cmd := c.Command(argv[0], argv[1:]...)
		cmd.ID, cmd.OnEvent = "job", s.store
		if err := cmd.Start(ctx); !errors.Is(err, fs.ErrExist) {
			return cmd, err
		}
	}
	cmd := c.Attach("job", s.Seq)
	cmd.OnEvent = s.store
	return cmd, cmd.Start(ctx)
}

// store stores an event. If survivor is killed before the new state has its name, load cuts the output to the old Size, and the server
// sends the event again.
func (s *survivor) store(e client.Event) error {
	if _, err := s.output.WriteAt(e.Output, s.Size); err != nil {
		return err
	}
	s.Seq, s.Size = e.Seq, s.Size+int64(len(e.Output))
	if e.Exit != nil {
		s.Exited, s.Code = true, e.Exit.ExitCode
	}
	return s.save()
}

// save replaces the state as a whole. To survive a crash of the machine, call Sync on both files before the Rename.
func (s *survivor) save() error {
	data, err := json.Marshal(s.state)
	if err != nil {
		return err
	}
	name := filepath.Join(s.dir, "state.json")
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

func (s *survivor) load() error {
	data, err := os.ReadFile(filepath.Join(s.dir, "state.json"))
	if err == nil {
		err = json.Unmarshal(data, &s.state)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("state: %w", err)
	}
	if s.output, err = os.OpenFile(filepath.Join(s.dir, "output"), os.O_RDWR|os.O_CREATE, 0o600); err != nil {
		return err
	}
	return s.output.Truncate(s.Size)
}
