// Package noquery keeps the other packages of a program from asking the terminal for its colours when the program
// starts.
//
// Package bubbletea asks in its init. Without noquery, each command of a program with bubbletea writes escape
// sequences to the terminal, waits up to 5 s for an answer, and swallows keys typed ahead. Go initializes noquery
// before bubbletea: noquery has fewer imports, and its import path sorts first.
package noquery

import "github.com/charmbracelet/lipgloss"

func init() { lipgloss.SetHasDarkBackground(true) }
