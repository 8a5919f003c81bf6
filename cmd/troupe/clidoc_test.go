//go:build unix

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

var inlineCode = regexp.MustCompile("`([^`]+)`")

// Documents mention no command and no flag that does not exist, and docs/CLI.md mentions every command.
func TestCommandLineDocument(t *testing.T) {
	least := map[string]int{"CLI.md": 20, "LOADTEST.md": 15, "SANDBOX.md": 5} // command lines
	foreign := map[string][]string{                                           // flags of other programs
		"PERFORMANCE.md": {"rows", "runs"},
		"codex.md":       {"concurrent-requests"},
		"SANDBOX.md":     {"cap-add", "security-opt"}, // of Docker and Podman
	}
	paths, err := filepath.Glob("../../docs/*.md")
	wire, err2 := filepath.Glob("../../docs/protocol/*.md")
	if paths = append(paths, wire...); err != nil || err2 != nil || len(wire) == 0 || len(paths) < len(least) {
		t.Fatalf("%d documents, %d of the wire: %v, %v", len(paths), len(wire), err, err2)
	}
	root := newRoot()
	for _, path := range paths {
		document := filepath.Base(path)
		if document == "ARCHITECTURE.md" { // its trees of actors begin with the word troupe
			continue
		}
		mentioned := checkDocument(t, root, path, foreign[document])
		lines := 0
		for _, n := range mentioned {
			lines += n
		}
		if lines < least[document] {
			t.Errorf("docs/%s: only %d command lines were found, want %d or more", document, lines, least[document])
		}
		if document != "CLI.md" {
			continue
		}
		for _, cmd := range all(root) {
			path := cmd.CommandPath()
			if !cmd.Runnable() || cmd.HasSubCommands() || mentioned[path] > 0 || strings.HasPrefix(path, "troupe completion") || cmd == root {
				continue
			}
			t.Errorf("docs/CLI.md does not mention `%s`: add a line with a short example to its section", path)
		}
	}
}

// checkDocument checks the command lines in a document, and returns how often the document mentions each command.
func checkDocument(t *testing.T, root *cobra.Command, path string, foreign []string) (mentioned map[string]int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	mentioned = make(map[string]int)
	for i, line := range strings.Split(string(text), "\n") {
		where := fmt.Sprintf("docs/%s:%d", filepath.Base(path), i+1)
		var commands []string
		if code, ok := strings.CutPrefix(line, "    "); ok {
			commands = append(commands, code)
		} else {
			for _, m := range inlineCode.FindAllStringSubmatch(line, -1) {
				commands = append(commands, m[1])
			}
		}
		for _, c := range commands {
			c, comment, _ := strings.Cut(c, " # ")
			for _, flag := range longFlags(strings.Fields(comment)) {
				if !strings.HasPrefix(c, "troupe ") {
					continue
				}
				checkFlag(t, where, find(root, strings.Fields(c)), flag)
			}
			words := strings.Fields(c)
			switch {
			case len(words) == 0:
			case words[0] == "troupe" && len(words) > 1:
				cmd := find(root, words)
				if rest := words[len(strings.Fields(cmd.CommandPath())):]; cmd == root || cmd.HasSubCommands() && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
					t.Errorf("%s: %q: there is no such command", where, c)
					continue
				}
				mentioned[cmd.CommandPath()]++
				for _, flag := range longFlags(words) {
					checkFlag(t, where, cmd, flag)
				}
			case strings.HasPrefix(words[0], "--"):
				flag := longFlags(words)[0]
				if !slices.Contains(foreign, flag) && !slices.ContainsFunc(all(root), func(cmd *cobra.Command) bool { return lookup(cmd, flag) != nil }) {
					t.Errorf("%s: no command has the flag %s", where, words[0])
				}
			}
		}
	}
	return mentioned
}

// find returns the command of a command line.
func find(root *cobra.Command, words []string) *cobra.Command {
	cmd, _, err := root.Find(words[1:])
	if err != nil {
		return root
	}
	return cmd
}

// longFlags returns the flags of a command line, without the arguments of a program after --.
func longFlags(words []string) (flags []string) {
	for _, w := range words {
		if w == "--" {
			break
		}
		if name, ok := strings.CutPrefix(w, "--"); ok {
			name, _, _ = strings.Cut(name, "=")
			flags = append(flags, strings.Trim(name, ",;."))
		}
	}
	return flags
}

func checkFlag(t *testing.T, where string, cmd *cobra.Command, flag string) {
	t.Helper()
	if lookup(cmd, flag) == nil {
		t.Errorf("%s: %s has no flag --%s", where, cmd.CommandPath(), flag)
	}
}

func lookup(cmd *cobra.Command, flag string) *pflag.Flag {
	if flag == "help" {
		cmd.InitDefaultHelpFlag()
	}
	if f := cmd.Flags().Lookup(flag); f != nil {
		return f
	}
	return cmd.InheritedFlags().Lookup(flag)
}
