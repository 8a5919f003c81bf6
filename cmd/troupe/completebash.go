package main

import (
	"bytes"
	"fmt"

	"github.com/spf13/cobra"
)

// wordsOfPackage is how cobra's script gets the typed words: by a function of the package bash-completion.
const wordsOfPackage = `    _get_comp_words_by_ref "$@" cur prev words cword
`

// wordsOfBash gets them without the package, which is not on every machine: words end at blanks only, so quoted blanks
// divide a word.
const wordsOfBash = `    if declare -F _get_comp_words_by_ref >/dev/null 2>&1; then
        _get_comp_words_by_ref "$@" cur prev words cword
        return
    fi
    local line=${COMP_LINE:0:COMP_POINT}
    read -ra words <<<"$line"
    if [[ $line == *[[:space:]] ]]; then words+=(""); fi
    cword=$((${#words[@]} - 1))
    cur=${words[cword]}
    prev=${words[cword > 0 ? cword - 1 : 0]}
`

// printBashCompletion is troupe completion bash.
func printBashCompletion(cmd *cobra.Command, _ []string) error {
	plain, err := cmd.Flags().GetBool("no-descriptions")
	if err != nil {
		return err
	}
	var script bytes.Buffer
	if err := cmd.Root().GenBashCompletionV2(&script, !plain); err != nil {
		return err
	}
	text := bytes.Replace(script.Bytes(), []byte(wordsOfPackage), []byte(wordsOfBash), 1)
	if _, err := cmd.OutOrStdout().Write(text); err != nil {
		return fmt.Errorf("write the completion: %w", err)
	}
	return nil
}
