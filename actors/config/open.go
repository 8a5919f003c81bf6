package config

import (
	"log/slog"
	"time"

	"github.com/b6f6fdd7/troupe/internal/audit"
	"github.com/b6f6fdd7/troupe/internal/beneath"
	"github.com/b6f6fdd7/troupe/internal/rules"
	"github.com/b6f6fdd7/troupe/internal/share"
)

// Rules say which programs, directories, files and variables an identity may use.
type Rules = rules.File

// OpenRules returns the rules in a policy file (docs/POLICY.md), which must be right now. If the file is wrong later, the
// last right rules stay in use, and log gets an error.
func OpenRules(path string, log *slog.Logger) (*Rules, error) {
	return rules.Open(path, beneath.Supported(), log)
}

// An Audit is a record of what clients do (docs/AUDIT.md). Whoever has opened an Audit closes it, after the shutdown of the
// troupe.
type Audit = audit.Log

// AuditOptions say what an Audit records, and what happens while it cannot. Log must not be nil.
type AuditOptions = audit.Options

// OpenAudit opens a record: stderr, syslog, journald, or else the path of a file, which grows.
func OpenAudit(where string, o AuditOptions) (*Audit, error) {
	sink, err := audit.Open(where)
	if err != nil {
		return nil, err
	}
	return audit.New(sink, o), nil
}

// Shares has the tokens of the guests of all sessions. The same Shares is in Config, whose sessions add tokens, and in
// auth.Door, which lets guests in.
type Shares = share.Book

// NewShares returns a Shares without tokens. longest is how long a share may last.
func NewShares(longest time.Duration) *Shares { return share.NewBook(longest) }
