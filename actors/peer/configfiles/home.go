package configfiles

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/b6f6fdd7/troupe/actors/files"
)

// System is the directory of the system's configuration files.
const System = "/etc/codex"

// Home returns the directory with the files of the peer's user: $CODEX_HOME, else .codex in userHome.
func Home(userHome string) (string, error) {
	dir := os.Getenv("CODEX_HOME")
	if dir == "" {
		return filepath.Join(userHome, ".codex"), nil
	}
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", fmt.Errorf("CODEX_HOME points to %q, but that path does not exist", dir)
	case err != nil:
		return "", fmt.Errorf("failed to read CODEX_HOME %q: %s", dir, files.Text(err))
	case !info.IsDir():
		return "", fmt.Errorf("CODEX_HOME points to %q, but that path is not a directory", dir)
	}
	if dir, err = files.Canonicalize(dir); err != nil {
		return "", fmt.Errorf("failed to canonicalize CODEX_HOME: %s", files.Text(err))
	}
	return dir, nil
}

// nameTime is how long Hostname may wait for the DNS.
const nameTime = time.Second

// Hostname returns the name of this machine in lower case, with its domain if the resolver knows it;
// empty: unknown. The first call may wait.
var Hostname = sync.OnceValue(func() string {
	host, err := os.Hostname()
	if err != nil {
		return ""
	}
	ctx, cancel := context.WithTimeout(context.Background(), nameTime)
	defer cancel()
	if full, err := net.DefaultResolver.LookupCNAME(ctx, host); err == nil && strings.Contains(plainName(full), ".") {
		return plainName(full)
	}
	return plainName(host)
})

func plainName(host string) string {
	return strings.ToLower(strings.TrimRight(strings.TrimSpace(host), "."))
}
