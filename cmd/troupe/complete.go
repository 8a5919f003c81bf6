package main

import (
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/pick"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/sig"
	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/internal/sandbox/mode"
	"github.com/b6f6fdd7/troupe/protocol"
)

// completeTime is how long a person who presses Tab waits for a server at most.
const completeTime = time.Second

// A completer returns the possible words for an argument of which a person has typed begin.
type completer func(ctx context.Context, t *target.Flags, begin string) []string

// completers are the completions of arguments and flags, by the word for it in the usage line of a command, such as
// PROCESS in "signal PROCESS SIGNAL", or in the text about a flag.
var completers = map[string]completer{
	"PROCESS": func(ctx context.Context, t *target.Flags, begin string) []string {
		return pick.Processes(known(ctx, t), begin)
	},
	"SESSION": func(ctx context.Context, t *target.Flags, begin string) []string {
		return pick.Sessions(known(ctx, t), begin)
	},
	"SERVER":  func(_ context.Context, t *target.Flags, begin string) []string { return beginning(t.Servers(), begin) },
	"SANDBOX": func(_ context.Context, _ *target.Flags, begin string) []string { return beginning(mode.Names, begin) },
	"SIGNAL": func(_ context.Context, _ *target.Flags, begin string) []string {
		names := sig.Names()
		if !strings.HasPrefix(begin, "SIG") {
			for i, name := range names {
				names[i] = strings.TrimPrefix(name, "SIG")
			}
		}
		return beginning(names, begin)
	},
}

// addCompletion adds the commands completion and help to root, and completes the arguments of all commands that have
// no completion of their own.
func addCompletion(root *cobra.Command, t *target.Flags) {
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, cmd := range root.Commands() {
		switch cmd.Name() {
		case "help":
			cmd.Short = "Print the help of a command"
			cmd.Example = "  troupe help run"
			help := cmd.Run
			cmd.Run, cmd.RunE = nil, func(cmd *cobra.Command, args []string) error {
				if of, _, err := root.Find(args); of == nil || err != nil {
					return wrong("there is no command %q", strings.Join(args, " "))
				}
				help(cmd, args)
				return nil
			}
		case "completion":
			cmd.Short = "Print the completion of commands, ids and names for a shell"
			cmd.Example = "  troupe completion bash"
			for _, shell := range cmd.Commands() {
				shell.Short = "Print the completion for " + shell.Name()
				shell.Example = completionExamples[shell.Name()]
				if shell.Name() == "bash" {
					shell.RunE = printBashCompletion
					shell.Long = "Prints the completion for bash. The package bash-completion loads it from the file of the example. Without\nthe package, write source <(troupe completion bash) into ~/.bashrc."
				}
			}
		}
	}
	completeArguments(root, t)
}

// completionExamples are the commands that set up the completion of a shell, for good.
var completionExamples = map[string]string{
	"bash":       "  troupe completion bash > ~/.local/share/bash-completion/completions/troupe",
	"zsh":        "  troupe completion zsh > \"${fpath[1]}/_troupe\"",
	"fish":       "  troupe completion fish > ~/.config/fish/completions/troupe.fish",
	"powershell": "  troupe completion powershell | Out-String | Invoke-Expression",
}

func completeArguments(cmd *cobra.Command, t *target.Flags) {
	for _, sub := range cmd.Commands() {
		completeArguments(sub, t)
	}
	words, repeated := argumentsOf(cmd.Use)
	if cmd.ValidArgsFunction == nil && slices.ContainsFunc(words, func(w string) bool { return completers[w] != nil }) {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
			return answer(cmd, t, possible(words, repeated, len(args)), args, begin)
		}
	}
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		word, _ := pflag.UnquoteUsage(f)
		if c := completers[word]; c != nil {
			cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
				return answer(cmd, t, c, nil, begin)
			})
		}
	})
}

// answer runs a completer for at most completeTime. Words that are on the line already are left out.
func answer(cmd *cobra.Command, t *target.Flags, c completer, line []string, begin string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if c == nil {
		return nil, cobra.ShellCompDirectiveDefault
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	found := make(chan []string, 1)
	go func() { found <- c(ctx, t, begin) }()
	select {
	case words := <-found:
		words = slices.DeleteFunc(words, func(w string) bool { return slices.Contains(line, w) || strings.ContainsFunc(w, unsafe) })
		return words, cobra.ShellCompDirectiveNoFileComp
	case <-ctx.Done():
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// unsafe reports whether a shell's completion would not pass a character on as it is.
func unsafe(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("'\"\\$`", r) }

// argumentsOf returns the words for arguments of a usage line, and the index of the repeated word; -1: none.
func argumentsOf(use string) (words []string, repeated int) {
	repeated = -1
	for i, field := range strings.Fields(use) {
		word := strings.Trim(strings.TrimPrefix(field, "[SESSION/]"), "[].…")
		if i > 0 && word != "" && unicode.IsUpper(rune(word[0])) {
			words = append(words, word)
		}
		if strings.Contains(field, "...") || strings.Contains(field, "…") {
			repeated = len(words) - 1
		}
	}
	return words, repeated
}

// possible returns a completer for the argument at index i. From the first repeated word on, the argument may be the
// repeated word or a later word. Nil: the shell completes files.
func possible(words []string, repeated, i int) completer {
	if repeated >= 0 && i >= repeated {
		words = words[repeated:]
	} else {
		words = words[min(i, len(words)):]
		words = words[:min(1, len(words))]
	}
	var each []completer
	for _, w := range words {
		c := completers[w]
		if c == nil {
			return nil
		}
		each = append(each, c)
	}
	return func(ctx context.Context, t *target.Flags, begin string) (all []string) {
		for _, c := range each {
			all = append(all, c(ctx, t, begin)...)
		}
		return all
	}
}

// known returns the sessions of the chosen server, or nil. known starts no server, and asks nobody for a token.
func known(ctx context.Context, t *target.Flags) []protocol.SessionDetails {
	t.Quiet = true
	c, err := t.ControlRunning(ctx)
	if err != nil {
		return nil
	}
	defer c.Close()
	list, _ := c.Sessions(ctx, protocol.DetailProcesses)
	return list
}

func beginning(words []string, begin string) (some []string) {
	for _, w := range words {
		if strings.HasPrefix(w, begin) {
			some = append(some, w)
		}
	}
	return some
}
