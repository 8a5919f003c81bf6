package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/cmd/troupe/internal/target"
	"github.com/b6f6fdd7/troupe/protocol"
)

// An error that --cwd may mend says so, and no other error does.
func TestAdvise(t *testing.T) {
	at := func(url, cwd string) *runFlags {
		return &runFlags{viewFlags: viewFlags{target: &target.Flags{URL: url}}, cwd: cwd}
	}
	dir := protocol.Errorf(protocol.KindPolicy, protocol.CodeInternal, `cwd "/" is not allowed by the policy of this server (cwd)`)
	for _, c := range []struct {
		flags *runFlags
		err   error
		want  string
	}{
		{at("ws://h:1", ""), dir, "--cwd"},
		{at("ws://h:1", ""), protocol.Errorf(protocol.KindPolicy, protocol.CodeInternal, `working directory "/root": permission denied`), "--cwd"},
		{at("ws://h:1", "/srv"), dir, ""},
		{at("", ""), dir, ""},
		{at("ws://h:1", ""), protocol.Errorf(protocol.KindPolicy, protocol.CodeInternal, "anything else"), ""},
	} {
		wrapped := fmt.Errorf("client: %w", c.err)
		got := c.flags.advise(wrapped, wrapped).Error()
		if added := strings.TrimPrefix(got, wrapped.Error()); !strings.Contains(added, c.want) || c.want == "" && added != "" {
			t.Errorf("%s: %v, want %q", c.flags.target.URL, got, c.want)
		}
	}
}
