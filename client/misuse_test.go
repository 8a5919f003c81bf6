package client

import (
	"context"
	"strings"
	"testing"
)

// Values that no method has made, and nil, fail with a sentence that says what to do.
func TestMisuse(t *testing.T) {
	c, other := connect(t, newFake(programs), nil), connect(t, newFake(programs), nil)
	ctx, none := t.Context(), context.Context(nil)
	handmade := &Cmd{Path: "hello"}
	output := func(cmd *Cmd) error {
		_, err := cmd.Output(ctx)
		return err
	}
	_, dial := Dial(none, "", nil)
	_, inProcess := InProcess(ctx, nil, nil)
	_, processes := c.Processes(none)
	started := c.Command("wait")
	if err := started.Start(ctx); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		err  error
		want string
	}{
		"Start of a Cmd made by hand":  {handmade.Start(ctx), "make it with Client.Command"},
		"Run of a Cmd made by hand":    {handmade.Run(ctx), "make it with Client.Command"},
		"Output of a Cmd made by hand": {output(&Cmd{Path: "hello"}), "make it with Client.Command"},
		"Wait of a Cmd made by hand":   {handmade.Wait(ctx), "not started"},
		"Kill of a Cmd made by hand":   {handmade.Kill(ctx), "not started"},
		"a group of one made by hand":  {c.StartGroup(ctx, &Group{}, handmade), "make it with Client.Command"},
		"a nil Cmd in a group":         {c.StartGroup(ctx, &Group{}, nil), "make it with Client.Command"},
		"a Cmd of another client":      {c.StartGroup(ctx, &Group{}, other.Command("hello")), "is of another Client"},
		"a nil group":                  {c.StartGroup(ctx, nil, c.Command("hello")), "pass &Group{}"},
		"Dial without a context":       {dial, "pass context.Background()"},
		"Start without a context":      {c.Command("hello").Start(none), "pass context.Background()"},
		"Run without a context":        {c.Command("hello").Run(none), "pass context.Background()"},
		"Wait without a context":       {started.Wait(none), "pass context.Background()"},
		"Attach without a context":     {c.Attach("web", 0).Start(none), "pass context.Background()"},
		"Processes without a context":  {processes, "pass context.Background()"},
		"InProcess without accept":     {inProcess, "Troupe.Accept"},
	} {
		if test.err == nil || !strings.Contains(test.err.Error(), test.want) {
			t.Errorf("%s: %v", name, test.err)
		}
	}
}
