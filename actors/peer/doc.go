// Package peer has the methods that only clients of codex ask for, as rows of the table of methods, and below it what they start and read.
// Only package actors imports peer. A process starts from a shellstate.
//
// # Where to look
//
//   - methods.go: Methods, the table of all methods, with those of this package
//   - appserver.go: the app-server: the wire beside ours, with words, paths and codes of its own
//   - files.go, watch.go: calls about files as the app-server has them, and fs/watch
//   - programs.go, command: programs of the sister APIs, process/spawn and command/exec
//   - machine.go, configfiles, capabilities: configuration files, plugins and skills on the machine of the server
//   - shellstate: the state of a login shell, from which a program starts (shellSnapshot)
//
// In package protocol, appserver.go, discovery.go and shellsnapshot.go have the types. docs/protocol/codex.md has the wire.
package peer
