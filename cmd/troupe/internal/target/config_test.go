package target

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParseConfig(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       *Config
		err        string // part of the error
	}{
		{"empty", "", &Config{}, ""},
		{"all keys", `
default = "build"
[servers.build]
url = "wss://build:7766"
token_file = "build.token"
tls_ca = "~/ca.pem"
tls_cert = "/etc/me.pem"
tls_key = "keys/me.key"
[servers.b-2]
url = "unix:///run/x.sock"
token_command = ["pass", "show", "b"]
`, &Config{Default: "build", Servers: map[string]Server{
			"build": {URL: "wss://build:7766", TokenFile: "/etc/troupe/build.token", TLSCA: "/home/me/ca.pem", TLSCert: "/etc/me.pem", TLSKey: "/etc/troupe/keys/me.key"},
			"b-2":   {URL: "unix:///run/x.sock", TokenCommand: []string{"pass", "show", "b"}},
		}}, ""},
		{"own server by default", `default = "local"`, &Config{Default: "local"}, ""},
		{"unknown key of a server", "[servers.a]\nurl = \"ws://a\"\ntokenfile = \"x\"\n", nil, `c.toml:3: unknown key "tokenfile" of a server: did you mean token_file?`},
		{"unknown key", "defualt = \"a\"\n", nil, `c.toml:1: unknown key "defualt": did you mean default?`},
		{"unknown table", "\n[server.a]\nurl = \"ws://a\"\n", nil, `unknown key "server": did you mean servers?`},
		{"far from any key", "[servers.a]\nurl = \"ws://a\"\ncolour = \"x\"\n", nil, `the keys are url, token_file, token_command, tls_ca, tls_cert, tls_key`},
		{"two unknown keys", "a1 = 1\nb1 = 2\n", nil, `c.toml:2: unknown key "b1"`},
		{"no TOML", "default = \n", nil, "c.toml:1: "},
		{"wrong type", "[servers.a]\nurl = 7\n", nil, "c.toml:2: "},
		{"no url", "[servers.a]\n", nil, `server "a": url is missing`},
		{"two tokens", "[servers.a]\nurl=\"ws://a\"\ntoken_file=\"x\"\ntoken_command=[\"y\"]\n", nil, "both set"},
		{"empty command", "[servers.a]\nurl=\"ws://a\"\ntoken_command=[]\n", nil, "names no program"},
		{"half a certificate", "[servers.a]\nurl=\"ws://a\"\ntls_cert=\"x\"\n", nil, "belong together"},
		{"name of the own server", "[servers.local]\nurl=\"ws://a\"\n", nil, "your own server"},
		{"bad name", "[servers.\"a b\"]\nurl=\"ws://a\"\n", nil, "a name has letters"},
		{"default that is missing", "default = \"biuld\"\n[servers.build]\nurl=\"ws://a\"\n", nil, `did you mean build?`},
		{"default without servers", "default = \"build\"\n", nil, `add [servers.build]`},
	} {
		got, err := ParseConfig([]byte(c.text), "/etc/troupe/c.toml", "/home/me")
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, %v; want %+v", c.name, got, err, c.want)
		}
	}
}

func TestConfigPath(t *testing.T) {
	for _, c := range []struct{ xdg, home, want string }{
		{"/x", "/home/me", "/x/troupe/config.toml"},
		{"", "/home/me", "/home/me/.config/troupe/config.toml"},
		{"relative", "/home/me", "/home/me/.config/troupe/config.toml"},
		{"", "", ""},
	} {
		if got := ConfigPath(environ("XDG_CONFIG_HOME", c.xdg, "HOME", c.home)); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// environ returns a lookup function for pairs of names and values.
func environ(pairs ...string) func(string) string {
	env := make(map[string]string)
	for i := 0; i < len(pairs); i += 2 {
		env[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return env[name] }
}

// The sources have an order, and contradictions are errors.
func TestTarget(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, ".config", "troupe", "config.toml")
	write := func(text string) {
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const servers = "[servers.a]\nurl = \"ws://a:1\"\n[servers.b]\nurl = \"ws://b:1\"\n"
	for _, c := range []struct {
		name   string
		flags  Flags
		config string
		url    string // TROUPE_URL
		want   string // URL and name; "local": the own server
		err    string
	}{
		{name: "nothing is chosen", want: "local"},
		{name: "config without default", config: servers, want: "local"},
		{name: "default", config: "default = \"b\"\n" + servers, want: "ws://b:1 b"},
		{name: "default is the own one", config: "default = \"local\"\n" + servers, want: "local"},
		{name: "environment before default", config: "default = \"b\"\n" + servers, url: "ws://e:1", want: "ws://e:1 "},
		{name: "--server before environment", flags: Flags{Server: "a"}, config: servers, url: "ws://e:1", want: "ws://a:1 a"},
		{name: "--server local before environment and a wrong file", flags: Flags{Server: "local"}, config: "x =", url: "ws://e:1", want: "local"},
		{name: "--url before environment and a wrong file", flags: Flags{URL: "ws://f:1"}, config: "x =", url: "ws://e:1", want: "ws://f:1 "},
		{name: "both flags", flags: Flags{URL: "ws://f:1", Server: "a"}, err: "leave one out"},
		{name: "no such server", flags: Flags{Server: "c"}, config: servers, err: `no server has the name "c": there are a, b`},
		{name: "wrong file", config: "x =", err: "config.toml:1: "},
		{name: "TLS for the own server", flags: Flags{TLSCA: "x"}, err: "--url or --server"},
		{name: "half a certificate", flags: Flags{URL: "wss://f:1", TLSKey: "x"}, err: "belong together"},
	} {
		write(c.config)
		f := c.flags
		f.getenv = environ("HOME", home, "TROUPE_URL", c.url, "XDG_RUNTIME_DIR", "/run/user/1")
		got, err := f.Target()
		switch {
		case c.err != "":
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: error %v, want %q", c.name, err, c.err)
			}
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want == "local":
			if !got.Local || !f.Local() || got.URL != "unix:///run/user/1/troupe/server.sock" {
				t.Errorf("%s: %+v, want the own server", c.name, got)
			}
		case got.URL+" "+got.Name != c.want || got.Local || f.Local():
			t.Errorf("%s: %+v, want %s", c.name, got, c.want)
		}
	}
}

// A named server with a token gets its own token, never the token of the environment.
func TestToken(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TROUPE_TOKEN", "of-the-environment")
	t.Setenv("TROUPE_TOKEN_FILE", "")
	file, empty := filepath.Join(dir, "t"), filepath.Join(dir, "e")
	os.WriteFile(file, []byte(" in-a-file\n"), 0o604)
	os.WriteFile(empty, nil, 0o600)
	for _, c := range []struct {
		server    Server
		want, err string
		notes     int
	}{
		{server: Server{}, want: "of-the-environment"},
		{server: Server{TokenFile: file}, want: "in-a-file", notes: 1},
		{server: Server{TokenFile: empty}, err: "has no token"},
		{server: Server{TokenFile: "/nowhere"}, err: "token of server x: open /nowhere"},
		{server: Server{TokenCommand: []string{"echo", "printed"}}, want: "printed"},
		{server: Server{TokenCommand: []string{"false"}}, err: "token of server x: false: exit status 1"},
		{server: Server{TokenCommand: []string{"true"}}, err: "has no token"},
	} {
		notes := 0
		f := &Flags{Note: func(string) { notes++ }}
		got, err := f.token("x", c.server)()
		if got != c.want || (err != nil) != (c.err != "") || err != nil && !strings.Contains(err.Error(), c.err) || notes != c.notes {
			t.Errorf("%+v: %q, %v, %d notes; want %q, %q", c.server, got, err, notes, c.want, c.err)
		}
	}
}

// The environment of the server has nothing from the terminal of the starter.
func TestServerEnv(t *testing.T) {
	got := serverEnv(environ("HOME", "/h", "PATH", "/bin", "AWS_SECRET", "x", "TERM", "xterm", "SSH_AUTH_SOCK", "/s", "TROUPE_TOKEN", "t", "LANG", "C"))
	if want := "HOME=/h PATH=/bin LANG=C"; strings.Join(got, " ") != want {
		t.Errorf("%q, want %q", got, want)
	}
}
