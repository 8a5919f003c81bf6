// Package changes tells of files that come, go and change. A Missing is for fs/watchMissing, a Watch for fs/watch. All of them share an
// instance of inotify(7), because a user may have few. Only Linux has watches.
//
// Each watch follows its paths: every name on the way to a file is a place, which the watch has before it looks there. So no change
// between a look and the watch is lost, and each event makes the watch look again.
//
// # Where to look
//
//   - inotify_linux.go: the instance, its events, and the places of each watch
//   - missing_linux.go: fs/watchMissing: files that come and go
//   - watch_linux.go: fs/watch: which files change
//   - batch: what a notification of fs/watch has
package changes
