package env

import (
	"os"
	"os/user"
	"path/filepath"
	"runtime"

	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/actors/files/changes"
	"github.com/b6f6fdd7/troupe/actors/internal/account"
	"github.com/b6f6fdd7/troupe/protocol"
)

// EnvironmentInfo returns the answer to environment/info: facts about this machine.
func EnvironmentInfo(config config.Config) *protocol.EnvironmentInfo {
	shell := os.Getenv("SHELL")
	if !filepath.IsAbs(shell) {
		shell = "/bin/sh"
		if _, err := os.Stat("/bin/bash"); err == nil {
			shell = "/bin/bash"
		}
	}
	home, err := os.UserHomeDir()
	if err != nil {
		home = "/"
		if u, err := user.Current(); err == nil && u.HomeDir != "" {
			home = u.HomeDir
		}
	}
	cwd, err := os.Getwd()
	if err != nil {
		cwd = "/"
	}
	temporary := []string{} // as the peer: the directory that the environment names, but not /tmp
	if dir := os.Getenv("TMPDIR"); dir != "" {
		temporary = append(temporary, protocol.FileURI(absolute(cwd, dir)))
	}
	// Only the capabilities of this server: clients use every capability in the list.
	capabilities := map[string]bool{"fileWriteStreaming": true, "environmentConfigRead": true, "capabilityDiscoveryV2": true, "shellSnapshotV2": true}
	capabilities["login"] = true // this name and the next are not the peer's
	if config.Users != nil {
		capabilities["users"] = true
	}
	if runtime.GOOS == "linux" { // where Linux permits no sandbox, starts and calls with a sandbox are refused
		capabilities["sandboxedFileStreaming"] = true
		capabilities["linuxRootWritePreservesDevices"] = true
		capabilities["linuxApprovedRootWritePreservesRestrictions"] = true
	}
	if changes.CanWatch() {
		capabilities["fsWatchMissing"] = true
	}
	if config.AllowHTTP {
		capabilities["httpRequest"] = true // this name is not the peer's
		capabilities["httpHeaderEnvVars"] = true
	}
	return &protocol.EnvironmentInfo{
		Shell:                protocol.Shell{Name: filepath.Base(shell), Path: shell},
		ExecutorVersion:      config.Version,
		ProviderID:           "troupe",
		Cwd:                  protocol.FileURI(cwd),
		UserHomeDir:          protocol.FileURI(home),
		PlatformOS:           runtime.GOOS,
		PrependPathDirs:      []string{},
		TemporaryDirectories: temporary,
		TempDir:              protocol.FileURI(absolute(cwd, os.TempDir())),
		Capabilities:         capabilities,
	}
}

// InfoFor returns the EnvironmentInfo for the clients of an identity: the home and the shell are those of the user of their programs
// and calls about files. InfoFor may block.
func (s *Env) InfoFor(identity string) *protocol.EnvironmentInfo {
	name, refused := s.FileUser(identity)
	if name == "" || refused != nil {
		return s.Info
	}
	a, err := account.LookUp(name)
	if err != nil {
		s.Log.Error("the home of a user is unknown", "user", name, "err", err)
		return s.Info
	}
	info := *s.Info
	info.UserHomeDir, info.Cwd = protocol.FileURI(a.Home), protocol.FileURI(a.Home)
	if a.Shell != "" {
		info.Shell = protocol.Shell{Name: filepath.Base(a.Shell), Path: a.Shell}
	}
	return &info
}

// absolute returns path, or, for a relative path, the path seen from cwd.
func absolute(cwd, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(cwd, path)
}
