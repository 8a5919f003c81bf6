package wireerr_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/actors/internal/wireerr"
	"github.com/b6f6fdd7/troupe/protocol"
)

func TestFrom(t *testing.T) {
	if err := wireerr.From(nil); err != nil {
		t.Errorf("nil: %v", err)
	}
	wire := protocol.Errorf(protocol.KindNotFound, protocol.CodeNotFound, "gone")
	if err := wireerr.From(fmt.Errorf("open: %w", wire)); err != wire {
		t.Errorf("a wrapped error of the wire: %v", err)
	}
	err := wireerr.From(fmt.Errorf("open: %w", os.ErrNotExist))
	if err.Code != protocol.CodeInternal || err.Message != "open: file does not exist" || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("another error: %v", err)
	}
}

func TestClip(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "",
		strings.Repeat("a", 60):       strings.Repeat("a", 60),
		strings.Repeat("a", 61):       strings.Repeat("a", 60) + "…",
		strings.Repeat("a", 59) + "é": strings.Repeat("a", 59) + "?…",
		"\xff":                        "?",
	} {
		if got := wireerr.Clip(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestBadName(t *testing.T) {
	if err := wireerr.BadName("processId", strings.Repeat("n", 1024)); err != nil {
		t.Error(err)
	}
	err := wireerr.BadName("processId", strings.Repeat("n", 1025))
	if err == nil || err.Code != protocol.CodeInvalidParams || err.Message != "processId has 1025 bytes, the limit is 1024" {
		t.Error(err)
	}
	if err := wireerr.BadName("label", "caf\xe9"); err == nil || err.Message != `label is "caf\xe9", expected UTF-8` {
		t.Error(err)
	}
}
