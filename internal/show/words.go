package show

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// All commands tell a person about the connection in these words.
const (
	Lost  = "connection lost, reconnecting"
	Again = "connected again"
)

// LostFor returns Lost with the time since the connection was lost.
func LostFor(since time.Duration) string { return fmt.Sprintf("%s (%d s)", Lost, int(since.Seconds())) }

// Plural returns a word in the plural.
func Plural(word string) string {
	if strings.HasSuffix(word, "s") {
		return word + "es"
	}
	return word + "s"
}

// Count returns a number and a word, in the plural unless n is 1: 1 process, 2 processes.
func Count(n int, word string) string {
	if n != 1 {
		word = Plural(word)
	}
	return fmt.Sprint(n, " ", word)
}

// codeNames are what the errors of package client begin with: the name of the package, and perhaps that of a method of the wire.
var codeNames = regexp.MustCompile(`client: ([a-z]+/[A-Za-z]+: )?`)

// Words returns the text of an error for people: without names that only the code has.
func Words(err error) string { return codeNames.ReplaceAllString(err.Error(), "") }

// Command returns the command line of a process. A start without a program runs the login shell of the user.
func Command(argv []string) string {
	if len(argv) == 0 {
		return "login shell"
	}
	return strings.Join(argv, " ")
}
