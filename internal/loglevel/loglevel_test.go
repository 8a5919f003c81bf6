package loglevel

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
)

func TestLevels(t *testing.T) {
	var out bytes.Buffer
	var levels Levels
	log := slog.New(New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}), &levels)).With("a", 1).WithGroup("g")
	for _, c := range []struct{ set, shown, passes string }{
		{"", "info", "iwe"},
		{"warn", "warn", "we"},
		{"debug", "debug", "diwe"},
		{"error,loglevel=debug", "error,loglevel=debug", "diwe"},
		{"debug,internal/loglevel=error", "debug,internal/loglevel=error", "e"},
		{"debug,internal/loglevel=error,loglevel=info", "debug,internal/loglevel=error,loglevel=info", "e"},
		{" Warn , session = debug", "", "e"},
		{"warn,session=debug", "warn,session=debug", "we"},
		{"level=debug", "info,level=debug", "iwe"},
	} {
		was := levels.String()
		if c.set != "" {
			if err := levels.Set(c.set); (err != nil) != (c.shown == "") {
				t.Errorf("%q: %v", c.set, err)
			}
		}
		if got := levels.String(); c.shown != "" && got != c.shown || c.shown == "" && got != was {
			t.Errorf("%q: %q, want %q", c.set, got, c.shown)
		}
		out.Reset()
		log.Debug("d")
		log.Info("i")
		log.Warn("w")
		log.Error("e")
		passes := ""
		for line := range strings.Lines(out.String()) {
			_, after, _ := strings.Cut(line, "msg=")
			passes += after[:1]
		}
		if passes != c.passes {
			t.Errorf("%q passes %q, want %q", c.set, passes, c.passes)
		}
	}
}

func TestWrongLevels(t *testing.T) {
	for _, text := range []string{"", "loud", "info,", "info,warn", "=debug", "session=", "session=loud", "a b=info", "session=debug=info"} {
		var levels Levels
		if err := levels.Set(text); err == nil || !strings.Contains(err.Error(), `"`) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPackageOf(t *testing.T) {
	for function, want := range map[string]string{
		"a.b/c/d.(*T).F":    "a.b/c/d",
		"a.b/c/d.F.func1.2": "a.b/c/d",
		"main.main":         "main",
		"":                  "",
	} {
		if got := packageOf(function); got != want {
			t.Errorf("%q: %q, want %q", function, got, want)
		}
	}
}
