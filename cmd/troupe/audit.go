//go:build unix

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/b6f6fdd7/troupe/actors/config"
	"github.com/b6f6fdd7/troupe/internal/audit"
)

// auditFlags are the flags of the audit log.
type auditFlags struct {
	where string
	full  string
	argv  bool
}

// check refuses wrong flags.
func (a *auditFlags) check() error {
	switch {
	case a.full != "refuse" && a.full != "continue":
		return fmt.Errorf("--audit-full %q: choose refuse or continue", a.full)
	case a.where == "" && (a.full != "refuse" || !a.argv):
		return errors.New("--audit-full and --audit-argv are for --audit: say where the record is written")
	}
	return nil
}

// file returns the file of the record; "": there is none.
func (a *auditFlags) file() string {
	switch a.where {
	case "stderr", "syslog", "journald":
		return ""
	}
	return a.where
}

// mayOpen says why open would fail, and makes no file.
func (a *auditFlags) mayOpen() error {
	path := a.file()
	if path == "" {
		return nil
	}
	err := unix.Access(path, unix.W_OK)
	if errors.Is(err, fs.ErrNotExist) {
		err = unix.Access(filepath.Dir(path), unix.W_OK)
	}
	if err != nil {
		return fmt.Errorf("--audit %s: %w", path, err)
	}
	return nil
}

// open returns the record; nil: there is none.
func (a *auditFlags) open(log *slog.Logger) (*config.Audit, error) {
	if a.where == "" {
		return nil, nil
	}
	return config.OpenAudit(a.where, config.AuditOptions{Refuse: a.full == "refuse", Argv: a.argv, Log: log})
}

func (a *auditFlags) started(record *audit.Log, listen, containment string) {
	record.Put(audit.ServerStart{Version: version(), PID: os.Getpid(), Listen: listen, Containment: containment, Full: a.full})
}

// stopped records the end of the server, and closes the record. err is the error of the server.
func (a *auditFlags) stopped(record *audit.Log, log *slog.Logger, err error) {
	var e audit.ServerStop
	if err != nil {
		e.Error = audit.Text(err.Error())
	}
	record.Put(e)
	if err := record.Close(); err != nil {
		log.Error("close the audit log", "err", err)
	}
}
