// Package secrets names the environment variables that the server keeps to itself. Nothing else decides
// which variables these are. Names are matched in any case.
package secrets

import (
	"regexp"
	"slices"
	"strings"
)

// withheld are credentials of exec-server. (exec-server: NON_INHERITABLE_ENV_VARS.)
var withheld = []string{
	"CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN", replToken,
	"OPENAI_FEDERATION_RULE_ID", "OPENAI_IDENTITY_TOKEN_FILE", "OPENAI_WORKLOAD_IDENTITY_CONTEXT",
}

// With one of these words in its name, a TROUPE_ variable is a credential. TROUPE_TOKEN is the usual name.
var words = []string{"TOKEN", "SECRET", "KEY", "PASSWORD", "CREDENTIAL"}

// With one of these words, too, a variable of a program may be a credential.
var moreWords = []string{"PASS", "AUTH", "COOKIE", "DSN", "PRIVATE", "SIGNATURE"}

// inURL finds the password in the URL of a database and the like.
var inURL = regexp.MustCompile(`(://[^:/@\s]*:)[^/\s]*@`)

// Masked stands for a secret in a value.
const Masked = "•••"

// Mask returns the value of a variable for a screen: without what is perhaps a secret.
func Mask(name, value string) string {
	name = strings.ToUpper(name)
	has := func(word string) bool { return strings.Contains(name, word) }
	if value != "" && (slices.ContainsFunc(words, has) || slices.ContainsFunc(moreWords, has)) {
		return Masked
	}
	return inURL.ReplaceAllString(value, "${1}"+Masked+"@")
}

// unsent are keys and tokens of exec-server and of cloud providers. Programs may have them, but no
// server on the network may. (exec-server: HTTP_HEADER_ENV_DENYLIST.)
var unsent = []string{
	"OPENAI_API_KEY", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN", "CODEX_CONNECTORS_TOKEN",
	"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN",
	"AZURE_CLIENT_SECRET", "AZURE_FEDERATED_TOKEN_FILE", "GOOGLE_APPLICATION_CREDENTIALS",
}

// Withheld reports whether name is a credential of the server. No program gets such a variable, not even
// from the client that starts the program.
func Withheld(name string) bool {
	name = strings.ToUpper(name)
	own, isOwn := strings.CutPrefix(name, "TROUPE_")
	return slices.Contains(withheld, name) ||
		isOwn && slices.ContainsFunc(words, func(word string) bool { return strings.Contains(own, word) })
}

// replToken is withheld from programs, but it is the credential for an MCP server: clients send it in a header
// (bearer_token_env_var), as the peer lets them.
const replToken = "NODE_REPL_AUTH_TOKEN"

// Unsent reports whether the variable name may not be the value of an HTTP header.
func Unsent(name string) bool {
	name = strings.ToUpper(name)
	return name != replToken && Withheld(name) || slices.Contains(unsent, name)
}
