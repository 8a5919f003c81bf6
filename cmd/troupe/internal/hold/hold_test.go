//go:build unix

package hold

import (
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/b6f6fdd7/troupe/internal/holder"
)

// record is a holder that writes down what it is told.
type record struct {
	conn
	told []string
}

func (r *record) Keep(id string, files map[string]int) error {
	r.told = append(r.told, "keep "+id+strings.Join(slices.Sorted(maps.Keys(files)), ","))
	return nil
}

func (r *record) Up() error               { return nil }
func (r *record) PID() int                { return 7 }
func (r *record) Refused() holder.Refusal { return holder.Refusal{Why: "no"} }

func (r *record) Drop(id string, names ...string) error {
	r.told = append(r.told, "drop "+id+strings.Join(names, ","))
	return nil
}

// The holder keeps the socket of this server, then drops those of other addresses, and nothing else.
func TestKeepSocket(t *testing.T) {
	files := make(map[string]int)
	for _, name := range []string{"listen ws://a", "listen ws://b", "something else"} {
		fd, err := syscall.Open(os.DevNull, syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = fd
	}
	r := new(record)
	s := &Server{holder: r, sockets: takeSockets(files)}
	if got := slices.Sorted(maps.Keys(s.Sockets())); !slices.Equal(got, []string{"ws://a", "ws://b"}) || len(files) != 1 {
		t.Errorf("sockets %q; left: %v", got, files)
	}
	if err := s.KeepSocket("ws://b", 0); err != nil {
		t.Fatal(err)
	}
	s.DropSockets()
	for _, f := range s.Sockets() {
		f.Close()
	}
	syscall.Close(files["something else"])
	if want := []string{"keep listen ws://b", "drop listen ws://a"}; !slices.Equal(r.told, want) {
		t.Errorf("the holder was told %q, want %q", r.told, want)
	}
}

func (r *record) Asked() <-chan struct{} {
	asked := make(chan struct{}, 2)
	asked <- struct{}{}
	asked <- struct{}{}
	close(asked)
	return asked
}

func (r *record) Alive() error {
	r.told = append(r.told, "alive")
	return nil
}

// Each answer follows a round trip. The end of the holder ends the answers.
func TestAnswer(t *testing.T) {
	r := new(record)
	(&Server{holder: r}).Answer(func() { r.told = append(r.told, "round trip") })
	if want := []string{"round trip", "alive", "round trip", "alive"}; !slices.Equal(r.told, want) {
		t.Errorf("the holder was told %q, want %q", r.told, want)
	}
}

// A server has a holder, unless its arguments or variables say otherwise, or nobody could come back to it.
func TestWanted(t *testing.T) {
	for line, want := range map[string]bool{
		"": true, "--listen ws://127.0.0.1:0": true, "--no-holder=false": true, "--exit-when-idle 1s": true,
		"--no-holder": false, "--listen stdio": false, "--listen=stdio://": false, "--no-holder=1": false, "--no-holder=x": false, "-h": false, "--help": false,
		"--check-config": false, "--check-config=false": true, "--show-config=1": false, "--config f --show-config": false,
		"TROUPE_SERVE_NO_HOLDER=1": false, "TROUPE_SERVE_NO_HOLDER=1 --no-holder=false": true, "TROUPE_SERVE_NO_HOLDER=0": true, "TROUPE_SERVE_NO_HOLDER=x": false,
		"TROUPE_SERVE_LISTEN=stdio": false, "TROUPE_SERVE_LISTEN=stdio --listen ws://127.0.0.1:0": true, "TROUPE_SERVE_LISTEN=ws://127.0.0.1:0": true,
	} {
		args, variables := strings.Fields(line), make(map[string]string)
		for len(args) > 0 && strings.HasPrefix(args[0], "TROUPE") {
			name, value, _ := strings.Cut(args[0], "=")
			variables[name], args = value, args[1:]
		}
		if got := wanted(args, func(name string) string { return variables[name] }); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// Each method of a server without a holder does nothing.
func TestWithoutHolder(t *testing.T) {
	var s *Server
	if err := s.KeepSocket("ws://a", 0); err != nil {
		t.Error(err)
	}
	s.DropSockets()
	s.Stops()
	s.Answer(nil)
	if last, _ := s.Serves(); last != "" || !s.First() || s.Sockets() != nil || s.Requests() != nil || s.Gone() != nil || s.Incarnation() != "" {
		t.Errorf("last %q, first %v, sockets %v", last, s.First(), s.Sockets())
	}
}

// A server knows how long there was none before it.
func TestState(t *testing.T) {
	s := &Server{holder: new(record), number: 3, last: "killed by SIGKILL", ended: time.Now().Add(-time.Hour)}
	last, gap := s.Serves()
	got := s.State()
	if got.PID != 7 || got.Number != 3 || got.Last != last || got.Gap != gap || gap < time.Hour || time.Since(got.Since) > time.Minute || got.Refused.Why != "no" {
		t.Errorf("%q, %v, %+v", last, gap, got)
	}
}

func TestInJSON(t *testing.T) {
	for _, c := range []struct {
		args, file, variable string
		want                 bool
	}{
		{"", "", "", false},
		{"--log-format json", "", "", true},
		{"--log-format=json", "", "", true},
		{"--log-format", "", "", false},
		{"--log-format text", "", "json", false},
		{"", "", "json", true},
		{"--config f", "log-format: json\n", "", true},
		{"--config=f", "x: 1\nlog-format:   'json'  # why\n", "", true},
		{"--config f", "log-format: json\n", "text", false},
		{"--config f --log-format text", "log-format: json\n", "", false},
		{"--config f", "#log-format: json\n", "", false},
		{"--config f", "log-format: text\n", "", false},
		{"", "log-format: json\n", "", false},
	} {
		read := func(path string) ([]byte, error) {
			if path != "f" {
				t.Errorf("%q reads %s", c.args, path)
			}
			return []byte(c.file), nil
		}
		getenv := func(name string) string {
			if name == "TROUPE_SERVE_LOG_FORMAT" {
				return c.variable
			}
			return ""
		}
		if got := inJSON(strings.Fields(c.args), getenv, read); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
