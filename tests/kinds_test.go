package tests

import (
	"encoding/base64"
	"go/ast"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/b6f6fdd7/troupe/protocol"
)

// withoutKind are the errors that the server makes without protocol.Errorf: clients compare all of them with the peer's.
var withoutKind = []string{"badClientName"}

// TestErrorsHaveKinds looks at every place where the server makes an error: the first argument of protocol.Errorf is a
// constant of protocol, or the kind of another error; and each constant has such a place.
func TestErrorsHaveKinds(t *testing.T) {
	noRace(t)
	t.Parallel()
	fset, packages := goFiles(t)
	used := make(map[string]bool)
	for directory, files := range packages {
		for _, f := range files {
			if strings.HasSuffix(fset.File(f.Pos()).Name(), "_test.go") || strings.HasPrefix(directory, "tests") {
				continue
			}
			function := ""
			for n := range ast.Preorder(f) {
				switch n := n.(type) {
				case *ast.FuncDecl:
					function = n.Name.Name
				case *ast.SelectorExpr:
					used[n.Sel.Name] = true
				case *ast.Ident:
					if directory == "protocol" && !strings.HasSuffix(fset.File(f.Pos()).Name(), "errorkind.go") {
						used[n.Name] = true
					}
				case *ast.CallExpr:
					if kind, ok := kindArgument(n); ok && !isKind(kind) {
						t.Errorf("%s: the first argument of protocol.Errorf is not a constant Kind… of protocol", fset.Position(n.Pos()))
					}
				case *ast.CompositeLit:
					if sel, ok := n.Type.(*ast.SelectorExpr); ok && sel.Sel.Name == "Error" && isPackage(sel.X, "protocol") && len(n.Elts) > 0 && !slices.Contains(withoutKind, function) {
						t.Errorf("%s: %s makes an error without a kind: use protocol.Errorf", fset.Position(n.Pos()), function)
					}
				}
			}
		}
	}
	for _, f := range packages["protocol"] {
		if !strings.HasSuffix(fset.File(f.Pos()).Name(), "errorkind.go") {
			continue
		}
		for n := range ast.Preorder(f) {
			if spec, ok := n.(*ast.ValueSpec); ok && !used[spec.Names[0].Name] {
				t.Errorf("%s: no error of the server has this kind", spec.Names[0].Name)
			}
		}
	}
}

// kindArgument returns the first argument of a call of protocol.Errorf.
func kindArgument(call *ast.CallExpr) (ast.Expr, bool) {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || sel.Sel.Name != "Errorf" || !isPackage(sel.X, "protocol") || len(call.Args) == 0 {
		return nil, false
	}
	return call.Args[0], true
}

// isKind reports whether e is a constant of protocol, a variable, or the result of a function.
func isKind(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return isPackage(e.X, "protocol") && strings.HasPrefix(e.Sel.Name, "Kind")
	case *ast.Ident, *ast.CallExpr:
		return true
	}
	return false
}

func isPackage(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// TestKindsOverTheWire: errors that clients branch on have a kind of their own, whatever their code.
func TestKindsOverTheWire(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.session(nil)
	dir := realDir(t)
	at := func(name string) string { return (&url.URL{Scheme: "file", Path: filepath.Join(dir, name)}).String() }
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := writeProgram(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("file", "text", 0o600)
	if err := os.MkdirAll(filepath.Join(dir, "full", "inner"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("file", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	start := func(changes obj) obj {
		p := obj{"processId": "x", "argv": []string{"true"}, "cwd": at(""), "env": obj{"PATH": os.Getenv("PATH")}, "tty": false}
		for k, v := range changes {
			p[k] = v
		}
		return p
	}
	argv := func(args ...string) obj { return start(obj{"argv": args}) }
	c.start("pipes", obj{"argv": []string{"cat"}, "pipeStdin": true})
	c.call("fs/open", obj{"handleId": "h", "path": at("file")})

	for _, r := range []struct {
		method string
		params obj
		kind   protocol.ErrorKind
	}{
		{"process/start", argv("no-such-program"), protocol.KindNoProgram},
		{"process/start", argv("./no-such-program"), protocol.KindNoProgram},
		{"process/start", argv(write("no-interpreter", "#!/no/such\n", 0o700)), protocol.KindNoProgram},
		{"process/start", argv(write("plain", "text", 0o600)), protocol.KindPermission},
		{"process/start", argv(write("no-program", "\x00text", 0o700)), protocol.KindNotExecutable},
		{"process/start", argv("a\x00b"), protocol.KindParams},
		{"process/start", start(obj{"cwd": at("gone")}), protocol.KindNoDirectory},
		{"process/start", start(obj{"cwd": at("file")}), protocol.KindNoDirectory},
		{"process/start", start(obj{"processId": "pipes"}), protocol.KindExists},
		{"process/start", start(obj{"argv": 1}), protocol.KindParams},
		{"process/start", start(obj{"sandbox": obj{}}), protocol.KindParams},
		{"process/start", start(obj{"enforceManagedNetwork": true}), protocol.KindUnsupported},
		{"process/start", start(obj{"sandbox": sandboxOf(managed("enabled", specialEntry("write", "tmpdir")), "/tmp"), "env": obj{"TMPDIR": "/"}}), protocol.KindSandbox},
		{"process/start", start(obj{"user": "nobody"}), protocol.KindOff},
		{"process/resize", obj{"processId": "pipes", "size": obj{"rows": 1, "cols": 1}}, protocol.KindNoTTY},
		{"process/restart", obj{"processId": "pipes"}, protocol.KindNoRestart},
		{"process/read", obj{"processId": "gone"}, protocol.KindUnknownProcess},
		{"group/stop", obj{"groupId": "gone"}, protocol.KindUnknownGroup},
		{"session/share", obj{"access": "read"}, protocol.KindOff},
		{"process/no-such", obj{}, protocol.KindMethod},
		{"initialize", obj{"clientName": "twice"}, protocol.KindOrder},
		{"http/request", obj{"method": "GET", "url": "http://127.0.0.1:1/", "requestId": "q"}, protocol.KindOff},
		{"fs/readFile", obj{"path": at("gone")}, protocol.KindNotFound},
		{"fs/readFile", obj{"path": at("full")}, protocol.KindNotFile},
		{"fs/readFile", obj{"path": at("file/below")}, protocol.KindNotDirectory},
		{"fs/readFile", obj{"path": at("link"), "followSymlinks": false}, protocol.KindLink},
		{"fs/readFile", obj{"path": "relative"}, protocol.KindParams},
		{"fs/writeFile", obj{"path": at("full"), "dataBase64": base64.StdEncoding.EncodeToString([]byte("a"))}, protocol.KindNotFile},
		{"fs/createDirectory", obj{"path": at("full"), "recursive": false}, protocol.KindExists},
		{"fs/remove", obj{"path": at("full"), "recursive": false}, protocol.KindNotEmpty},
		{"fs/readDirectory", obj{"path": at("file")}, protocol.KindNotDirectory},
		{"fs/open", obj{"handleId": "h", "path": at("file")}, protocol.KindExists},
		{"fs/readBlock", obj{"handleId": "none", "offset": 0, "len": 1}, protocol.KindUnknownHandle},
	} {
		e, _ := c.reply(c.request(r.method, r.params))["error"].(obj)
		data, _ := e["data"].(obj)
		if data["kind"] != string(r.kind) {
			t.Errorf("%s %s: %s, want the kind %s", r.method, jsonText(r.params), jsonText(e), r.kind)
		}
	}
}
