// Package noquery keeps the other packages of a program from asking the terminal for its colours when the program
// starts.
//
// Package bubbletea asks in its init. In a program that imports bubbletea, each command would so write escape sequences
// to the terminal, wait up to 5 s for an answer, and take away what the person has typed ahead. Go initializes this
// package first: it needs less than bubbletea, and its import path sorts before.
package noquery

import "github.com/charmbracelet/lipgloss"

func init() { lipgloss.SetHasDarkBackground(true) }
