package secrets

import (
	"strings"
	"testing"
)

func TestNames(t *testing.T) {
	for _, tt := range []struct {
		withheld, unsent bool
		names            []string
	}{
		{true, true, []string{
			"OPENAI_IDENTITY_TOKEN_FILE", "OPENAI_FEDERATION_RULE_ID", "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
			"CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", "openai_identity_token_file",
			"TROUPE_TOKEN", "TROUPE_TOKEN_FILE", "TROUPE_SHARED_SECRET", "troupe_token", "TROUPE_API_KEY", "TROUPE_PASSWORD", "TROUPE_CREDENTIALS",
		}},
		{true, false, []string{"NODE_REPL_AUTH_TOKEN", "Node_Repl_Auth_Token"}},
		{false, true, []string{
			"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CONNECTORS_TOKEN", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY",
			"AWS_SESSION_TOKEN", "AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS", "Aws_Session_Token",
		}},
		{false, false, []string{
			"TROUPE_PROCESS", "TROUPE_URL", "TROUPE_A", "TROUPE_", "MY_TROUPE_TOKEN", "TOKEN", "NODE_REPL_AUTH_TOKENS",
			"XOPENAI_IDENTITY_TOKEN_FILE", "MY_OPENAI_API_KEY", "CODEX_HOME", "AWS_REGION", "",
		}},
	} {
		for _, name := range tt.names {
			if Withheld(name) != tt.withheld || Unsent(name) != tt.unsent {
				t.Errorf("%s: withheld %v, unsent %v", name, Withheld(name), Unsent(name))
			}
		}
	}
}

func TestMask(t *testing.T) {
	for variable, want := range map[string]string{
		"HOME=/home/ann":                         "/home/ann",
		"API_KEY=abc":                            Masked,
		"github_token=abc":                       Masked,
		"PGPASSWORD=abc":                         Masked,
		"SSH_AUTH_SOCK=/tmp/agent":               Masked,
		"EMPTY_TOKEN=":                           "",
		"DATABASE_URL=postgres://ann:a:b@c@db/x": "postgres://ann:" + Masked + "@db/x",
		"PROXY=http://proxy:3128":                "http://proxy:3128",
		"MAIL=ann@example.org":                   "ann@example.org",
	} {
		name, value, _ := strings.Cut(variable, "=")
		if got := Mask(name, value); got != want {
			t.Errorf("%s: %q, want %q", variable, got, want)
		}
	}
}
