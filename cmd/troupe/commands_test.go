//go:build unix

package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// all returns cmd and its visible subcommands.
func all(cmd *cobra.Command) []*cobra.Command {
	list := []*cobra.Command{cmd}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			list = append(list, all(sub)...)
		}
	}
	return list
}

// Every command has a line about its purpose and an example of its own, and prints its help to stdout. The flags come
// before the arguments.
func TestEveryCommandHasHelp(t *testing.T) {
	for _, cmd := range all(newRoot()) {
		path := cmd.CommandPath()
		if cmd.Short == "" || strings.HasSuffix(cmd.Short, ".") || len(cmd.Short) > 80 {
			t.Errorf("%s: Short %q: want a line of at most 80 bytes without a full stop", path, cmd.Short)
		}
		if !strings.Contains(cmd.Example, path) && !strings.Contains(cmd.Example, "troupe help") {
			t.Errorf("%s: Example %q does not use the command", path, cmd.Example)
		}
		if use := cmd.UseLine(); !cmd.HasSubCommands() && cmd.Name() != "help" && !strings.HasPrefix(path, "troupe completion") && !strings.HasPrefix(use, path+" [flags]") || strings.Contains(use, " ...") {
			t.Errorf("%s: usage %q: want %s [flags] and the arguments, with ... at the end of a word", path, use, path)
		}
		for line := range strings.Lines(cmd.Example) {
			if !strings.HasPrefix(line, "  ") {
				t.Errorf("%s: a line of the example is not indented: %q", path, line)
			}
		}
		root := newRoot()
		var out, errs bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&errs)
		root.SetArgs(append(strings.Fields(path)[1:], "--help"))
		if err := root.Execute(); err != nil || errs.Len() > 0 || !strings.Contains(out.String(), path) {
			t.Errorf("%s --help: %v, stderr %q, stdout %q", path, err, &errs, &out)
		}
	}
}

// The help of troupe shows the commands by groups: only the commands about troupe itself have none.
func TestCommandsHaveGroups(t *testing.T) {
	var without []string
	for _, cmd := range newRoot().Commands() {
		if cmd.GroupID == "" && !cmd.Hidden {
			without = append(without, cmd.Name())
		}
	}
	if slices.Sort(without); !slices.Equal(without, []string{"completion", "help", "man", "version"}) {
		t.Errorf("commands without a group: %q", without)
	}
}

// Every flag has a help text, and the help names the value of a flag in capital letters.
// troupe serve has the format of package flag.
func TestEveryFlagHasHelp(t *testing.T) {
	for _, cmd := range all(newRoot()) {
		for name, f := range flagsOf(cmd) {
			value, usage := pflag.UnquoteUsage(f)
			if strings.TrimSpace(usage) == "" || value != strings.ToUpper(value) && cmd.Name() != "serve" {
				t.Errorf("%s --%s %s: help %q", cmd.CommandPath(), name, value, usage)
			}
		}
	}
}

func flagsOf(cmd *cobra.Command) map[string]*pflag.Flag {
	flags := make(map[string]*pflag.Flag)
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			flags[f.Name] = f
		}
	})
	return flags
}

// There is a manual page for each command, the same each time, and man reads it without a complaint.
func TestManPages(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	write := func() map[string]string {
		dir := t.TempDir()
		root := newRoot()
		root.SetArgs([]string{"man", dir})
		if err := root.Execute(); err != nil {
			t.Fatal(err)
		}
		pages := make(map[string]string)
		paths, _ := filepath.Glob(filepath.Join(dir, "*"))
		for _, path := range paths {
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			pages[filepath.Base(path)] = string(text)
		}
		return pages
	}
	pages := write()
	for name, text := range write() {
		if pages[name] != text {
			t.Errorf("%s differs when it is written again", name)
		}
	}
	for _, cmd := range all(newRoot()) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		text, ok := pages[name]
		if !ok && cmd.Name() != "help" {
			t.Errorf("there is no page %s", name)
		} else if ok && !strings.Contains(text, "Nov 2023") {
			t.Errorf("%s has not the date of SOURCE_DATE_EPOCH", name)
		}
	}
	man := needs.Program(t, "man")
	for _, name := range []string{"troupe.1", "troupe-run.1", "troupe-serve.1", "troupe-server-stop.1"} {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, []byte(pages[name]), 0o600); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(man, "--warnings", "-l", path)
		cmd.Env = append(slices.Clone(os.Environ()), "MANWIDTH=80", "PAGER=cat", "LC_ALL=C.UTF-8")
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		complaints := slices.DeleteFunc(strings.Split(errs.String(), "\n"), func(line string) bool {
			return line == "" || strings.Contains(line, "'man.local'") // a file of the system that not all systems have
		})
		if err != nil || len(complaints) > 0 || !bytes.Contains(out, []byte("SYNOPSIS")) || !bytes.Contains(out, []byte("EXAMPLE")) {
			t.Errorf("man %s: %v, %q\n%.500s", name, err, complaints, out)
		}
	}
}

// Names in errors change nothing in the terminal.
func TestErrorsAreHarmless(t *testing.T) {
	t.Parallel()
	const name = "x\x1b[2J\u202ey"
	for _, args := range [][]string{
		{"--server", name, "ps"}, {"run", "--", "/nowhere/" + name}, {"run", "--cwd", "/" + name, "--", "true"}, {"cat", "/" + name},
		{"cp", "/" + name, ":"}, {"up", name + ".yaml"}, {"down", "--project", name}, {"attach", name}, {name}, {"ps", "--" + name},
	} {
		out, _ := troupe(t, args...).CombinedOutput()
		if text := string(out); strings.ContainsAny(text, "\x1b\u202e") || !strings.Contains(text, `x\x1b[2J`) {
			t.Errorf("%q prints %q", args, text)
		}
	}
}

// A connection that the server closes is an error of a command, unlike a closed pipe at stdout.
func TestClosedConnection(t *testing.T) {
	cmd := &cobra.Command{}
	cmd.SetContext(t.Context())
	lost := fmt.Errorf("initialize: %w", syscall.EPIPE)
	if err := untilSignal(cmd, func(context.Context) error { return lost }); err != lost {
		t.Errorf("%v, want %v", err, lost)
	}
}

// A command exits with 128+N when signal N ends the command, also while its server does not answer.
func TestInterrupted(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for _, args := range [][]string{{"run", "--", "true"}, {"attach", "web"}, {"ps"}, {"info", "web"}, {"stop", "web"}, {"wait", "web"}, {"logs", "web"}, {"events"}, {"ls", ":/"}} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			cmd := troupe(t, slices.Insert(slices.Clone(args), 1, "--url", "ws://"+silent.Addr().String())...)
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			conn, err := silent.Accept() // the command waits for the server from now on
			if err != nil {
				t.Fatal(err)
			}
			cmd.Process.Signal(sig)
			if code := exitCode(t, cmd.Wait()); code != 128+int(sig) {
				t.Errorf("troupe %s: exit code %d after %v", args[0], code, sig)
			}
			conn.Close()
		}
	}
}
