package tests

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/b6f6fdd7/troupe/tests/support/needs"
	"golang.org/x/sys/unix"
)

// TestExpose does what docs/EXPOSE.md says: the commands in blocks marked sh, and the command of the systemd unit. The
// server has a loopback address and the user nobody, and the programs have users of the test.
func TestExpose(t *testing.T) {
	needs.Root(t)
	needs.Program(t, "openssl")
	text, err := os.ReadFile("../docs/EXPOSE.md")
	if err != nil {
		t.Fatal(err)
	}
	block := func(kind string) (blocks []string) {
		for _, m := range regexp.MustCompile("(?ms)^```"+kind+"\n(.*?)^```$").FindAllStringSubmatch(string(text), -1) {
			blocks = append(blocks, m[1])
		}
		return blocks
	}
	scripts, units := block("sh"), block("ini")
	if len(scripts) != 7 || len(units) != 1 {
		t.Fatalf("%d blocks are marked sh, %d ini; want 7 and 1", len(scripts), len(units))
	}

	dir := openDir(t)
	bin, err := troupeBinary()
	if err != nil {
		t.Fatal(err)
	}
	install(t, dir, bin, 0o755)
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, name := range []string{"etc", "log", "home"} {
		if err := os.Mkdir(in(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(in("log"), nobody, nobody); err != nil {
		t.Fatal(err)
	}
	conf := in("openssl.cnf") // a machine may have none
	if err := os.WriteFile(conf, []byte("[req]\ndistinguished_name=dn\n[dn]\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	here := []string{"/etc/troupe", in("etc"), "/var/log/troupe", in("log"), "/usr/local/bin/troupe", in("troupe"), "wss://0.0.0.0:7766", "wss://127.0.0.1:0",
		"DNS:build.example.org", "IP:127.0.0.1", "chgrp troupe", "chgrp 65534", "alice default alice", "alice default 54321", "bob default bob", "bob default 54323"}
	run := func(script string) (string, error) {
		cmd := exec.Command("sh", "-euc", strings.NewReplacer(here...).Replace(script))
		cmd.Env = append(os.Environ(), "OPENSSL_CONF="+conf, "HOME="+in("home"), "PATH="+dir+":"+os.Getenv("PATH"))
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	must := func(script string) string {
		t.Helper()
		out, err := run(script)
		if err != nil {
			t.Fatalf("%s\n%v: %s", script, err, out)
		}
		return out
	}
	for _, script := range scripts[:4] {
		must(script)
	}
	must("cp /etc/troupe/token-of-alice ~/token; cp /etc/troupe/cert.pem ~/")

	start := regexp.MustCompile(`(?ms)^ExecStart=\S+ serve (.*?[^\\])$`).FindStringSubmatch(units[0])
	if start == nil || !strings.Contains(units[0], "\nAmbientCapabilities=CAP_SETUID CAP_SETGID CAP_KILL CAP_CHOWN\n") {
		t.Fatalf("the unit has no command, or other capabilities than this test:\n%s", units[0])
	}
	flags := strings.Split(strings.TrimSuffix(must(`printf '%s\n' `+start[1]), "\n"), "\n")
	s := startServerWith(t, func(cmd *exec.Cmd) {
		cmd.Path = in("troupe")
		cmd.SysProcAttr = &syscall.SysProcAttr{
			Credential:  &syscall.Credential{Uid: nobody, Gid: nobody},
			AmbientCaps: []uintptr{unix.CAP_SETUID, unix.CAP_SETGID, unix.CAP_KILL, unix.CAP_CHOWN},
		}
	}, flags...)
	if log := s.stderr.String(); strings.Contains(log, "other users of this machine") {
		t.Errorf("files have wrong modes: %s", log)
	}
	here = append(here, "wss://build.example.org:7766", s.url, "id -un", "id -u")

	connect := scripts[4]
	if out := must(connect); !strings.HasPrefix(out, "54321\n") {
		t.Errorf("alice runs as %s", out)
	}
	if out, err := run(strings.Replace(connect, "TROUPE_TOKEN_FILE=", "NOTHING=", 1)); err == nil || !strings.Contains(out, "401 Unauthorized: missing websocket bearer token") {
		t.Errorf("without a token: %v, %s", err, out)
	}
	if out, err := run(strings.Replace(connect, "--tls-ca cert.pem", "", 1)); err == nil || !strings.Contains(out, "certificate signed by unknown authority") {
		t.Errorf("without the certificate of the server: %v, %s", err, out)
	}
	if out := must(strings.Replace(connect, "id -un", "cat /etc/troupe/tokens /etc/troupe/key.pem /etc/troupe/users || :", 1)); strings.Count(out, "Permission denied") != 3 {
		t.Errorf("a program read the server's files: %s", out)
	}
	if out := must(scripts[5]); !strings.Contains(out, `"event":"process.start"`) || !strings.Contains(out, `"argv":["sh","-c"`) {
		t.Errorf("the record about alice: %s", out)
	}
	must(scripts[6])
	if out, err := run(connect); err == nil || !strings.Contains(out, "401 Unauthorized: invalid websocket bearer token") {
		t.Errorf("with a token that was revoked: %v, %s", err, out)
	}
	must("cp /etc/troupe/token-of-bob ~/token")
	if out := must(connect); !strings.HasPrefix(out, "54323\n") {
		t.Errorf("bob runs as %s", out)
	}
	must("echo 'alice default 54321' > /etc/troupe/users")
	if out, err := run(connect); err == nil || !strings.Contains(out, "users-file") {
		t.Errorf("bob without a line in the users file: %v, %s", err, out)
	}
}
