package tests

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"
)

// TestImportsGoOneWay checks the direct and indirect imports of each package against the layers.
func TestImportsGoOneWay(t *testing.T) {
	noRace(t)
	t.Parallel()
	const module = "github.com/b6f6fdd7/troupe"
	cmd := exec.Command("go", "list", "-deps", "-json=ImportPath,Deps", module+"/...")
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = errors.New(string(exit.Stderr))
		}
		t.Fatalf("%s: %v", cmd, err)
	}
	deps := make(map[string][]string)
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath string
			Deps       []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		deps[p.ImportPath] = p.Deps
	}
	for _, rule := range []struct{ who, not, why string }{
		{"/protocol", module, "the wire knows nobody"},
		{"/transport", module + "/actors", "a connection knows no actors"},
		{"/transport", "github.com/asynkron/protoactor-go", "a connection knows no actors"},
		{"/supervision", module + "/actors", "policy knows no mechanism"},
		{"/actors/registry/roster", module, "it is arithmetic"},
		{"/actors/registry/roster", "github.com/asynkron/protoactor-go", "it is arithmetic"},
		{"/actors/session/lifetime", module, "it is arithmetic"},
		{"/actors/session/lifetime", "github.com/asynkron/protoactor-go", "it is arithmetic"},
		{"/actors/message", module + "/actors/internal/env", "messages are plain data"},
		{"/actors/peer/command", module + "/actors/connection", "actors meet by messages"},
		{"/actors/peer/command", module + "/actors/process", "actors meet by messages"},
		{"/actors/peer/command", module + "/actors/session", "actors meet by messages"},
		{"/actors/connection", module + "/actors/process", "actors meet by messages"},
		{"/actors/connection", module + "/actors/peer", "rows are registered"},
		{"/actors/connection/greeting", module + "/actors/connection", "a gateway has no actor"},
		{"/actors/connection/greeting", "github.com/asynkron/protoactor-go", "a gateway has no actor"},
		{"/actors/connection", module + "/actors/session", "actors meet by messages"},
		{"/actors/connection", module + "/actors/registry", "actors meet by messages"},
		{"/actors/process", module + "/actors/session", "actors meet by messages"},
		{"/actors/process", module + "/actors/connection", "actors meet by messages"},
		{"/actors/peer/shellstate", module + "/actors/process", "a state knows no process"},
		{"/actors/peer/shellstate", module + "/actors/session", "actors meet by messages"},
		{"/actors/session", module + "/actors/registry", "actors meet by messages"},
		{"/actors/session", module + "/actors/connection", "actors meet by messages"},
		{"/actors/registry", module + "/actors/connection", "actors meet by messages"},
		{"/actors/slab", module, "it is memory"},
		{"/internal/screen", module, "it is a state of bytes"},
		{"/actors/spool", module + "/protocol", "it is a disk"},
		{"/internal/pace", module, "it is arithmetic and a queue"},
		{"/actors/spool", "github.com/asynkron/protoactor-go", "it is a disk"},
		{"/actors/files", module + "/actors", "the edge to the filesystem knows no actors"},
		{"/actors/files", "github.com/asynkron/protoactor-go", "the edge to the filesystem knows no actors"},
		{"/actors/peer/capabilities", "github.com/asynkron/protoactor-go", "the edge to the filesystem knows no actors"},
		{"/actors/peer/configfiles", "github.com/asynkron/protoactor-go", "the edge to the filesystem knows no actors"},
		{"/actors/files/changes", module + "/actors/internal", "the edge to the filesystem knows no actors"},
		{"/actors/files/changes", "github.com/asynkron/protoactor-go", "the edge to the filesystem knows no actors"},
		{"/actors/files/changes/batch", module, "a pure machine"},
		{"/actors/httpcall", module + "/actors", "the edge to other servers knows no actors"},
		{"/actors/httpcall", "github.com/asynkron/protoactor-go", "the edge to other servers knows no actors"},
		{"/actors/outlog", module + "/actors", "a data structure"},
		{"/actors/peer/command/dialect", "github.com/asynkron/protoactor-go", "words know no actors"},
		{"/actors/peer/command/outcome", "github.com/asynkron/protoactor-go", "a decision knows no actors"},
		{"/actors/process/feed", "github.com/asynkron/protoactor-go", "a machine knows no actors"},
		{"/actors/process/feed", module + "/actors/child", "a machine knows no system"},
		{"/actors/process/life", module + "/actors/child", "a machine knows no system"},
		{"/actors/process/launch", module + "/actors/process/life", "what runs does not depend on when"},
		{"/actors/process/launch", module + "/actors/session", "actors meet by messages"},
		{"/actors/process/denial", module + "/actors", "a pure machine"},
		{"/actors/connection/queue", module, "a pure machine"},
		{"/actors/connection/lists", module + "/actors", "a pure machine"},
		{"/actors/connection/lists", "github.com/asynkron/protoactor-go", "a pure machine"},
		{"/actors/connection/window", module + "/actors", "a pure machine"},
		{"/actors/connection/window", "github.com/asynkron/protoactor-go", "a pure machine"},
		{"/actors/process/stdin", "github.com/asynkron/protoactor-go", "a machine knows no actors"},
		{"/actors/process/stdin", module + "/actors/child", "a machine knows no system"},
		{"/actors/internal/repeat", "github.com/asynkron/protoactor-go", "it is memory"},
		{"/actors/child", module + "/actors", "the edge to the system knows no actors"},
		{"/actors/child/trees", module + "/actors", "a tree knows no streams"},
		{"/actors/child/trees", module + "/internal/sandbox", "a tree knows no jail"},
		{"/actors/child/confine", "github.com/asynkron/protoactor-go", "a jail knows no actors"},
		{"/actors/child/confine", module + "/actors/slab", "a jail knows no streams"},
		{"/actors/child", "github.com/asynkron/protoactor-go", "the edge to the system knows no actors"},
		{"/actors", module + "/transport", "it declares what it needs of a connection"},
		{"/actors", module + "/client", "a server is no client"},
		{"/actors", "github.com/gorilla/websocket", "it declares what it needs of a connection"},
		{"/client", module + "/actors", "a client is no server"},
		{"/client", "github.com/asynkron/protoactor-go", "a client is no server"},
		{"/internal/rpc", module + "/actors", "a raw client knows the wire only"},
		{"/internal/rpc", module + "/client", "a client hides faults"},
		{"/cmd/troupe/internal/load/run", module + "/actors", "a load is a client"},
		{"/cmd/troupe/internal/load/run", module + "/client", "a client hides faults"},
		{"/cmd/troupe/internal/load/command", module + "/actors", "a load is a client"},
		{"/cmd/troupe/internal/load/program/early", module + "/protocol", "a program under load starts fast"},
		{"/actors", "github.com/asynkron/protoactor-go/remote", "11 MB for who has one node"},
		{"/actors", "github.com/asynkron/protoactor-go/cluster", "11 MB for who has one node"},
		{"/cmd/troupe", module + "/tests", "a program has no support of tests"},
		{"/cmd/troupe", "github.com/asynkron/protoactor-go/remote", "11 MB for who has one node"},
		{"/cmd/troupe", "github.com/asynkron/protoactor-go/cluster", "11 MB for who has one node"},
	} {
		list, ok := deps[module+rule.who]
		if !ok {
			t.Errorf("there is no package %s", rule.who)
		}
		for _, dep := range list {
			if dep == module+"/actors/slab" || dep == module+"/actors/spool" {
				continue // memory and disk are shared by all, and import none of them
			}
			if rule.who == "/actors/child" && strings.HasPrefix(dep, module+rule.who+"/") {
				continue // the rooms of the edge to the system have a rule each
			}
			if dep == rule.not || strings.HasPrefix(dep, rule.not+"/") {
				t.Errorf("%s is built of %s: %s", rule.who, dep, rule.why)
			}
		}
	}
}
