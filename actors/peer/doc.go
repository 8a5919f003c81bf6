// Package peer has below it what only clients of codex ask for. A connection starts command and reads for the others; a process starts from a
// shellstate.
//
// # Where to look
//
//   - command: programs of the sister APIs, process/spawn and command/exec
//   - shellstate: the state of a login shell, from which a program starts (shellSnapshot)
//   - configfiles, capabilities: configuration files, plugins and skills on the machine of the server
//
// Beside it, for the same clients: in actors/connection, app_files.go and app_watch.go (calls about files as the app-server has them),
// commands.go and machine_methods.go; in package protocol, appserver.go, discovery.go and shellsnapshot.go. docs/protocol/codex.md has the wire.
package peer
