package main

import (
	"flag"
	"fmt"
	"io"
	"strings"
)

// helpSections has every flag of troupe serve, in the order in which an operator needs them.
var helpSections = []struct{ title, flags string }{
	{"Address", "listen framing insecure allow-origin tls-cert tls-key tls-1.2 exit-when-idle"},
	{"Who may connect", "auth-token-file auth-jwt-keys auth-jwt-secret-file auth-jwt-issuer auth-jwt-audience auth-jwt-skew " +
		"tls-client-ca tls-client-name auth-unix-users auth-roles-file max-share-time"},
	{"What identities may do", "users-file policy-file require-sandbox default-sandbox no-new-privs allow-http"},
	{"Record and log", "audit audit-argv audit-full verbose"},
	{"Limits of an identity (without credentials: of an address)", "max-connections-each max-connections-each-address max-sessions-each max-processes-each " +
		"max-starts-each max-starts-burst max-output-rate-each max-stdin-rate-each max-retained-each max-spooled-each"},
	{"Limits of the server", "max-connections max-sessions memory-budget evict-for-memory spool-budget spool-dir"},
	{"Sessions", "detached-ttl max-detached-ttl idle-timeout max-session-age"},
	{"Programs", "max-processes max-run-time max-limits default-limits retention spool-limit closed-retention kill-grace drain-timeout containment"},
	{"Credentials with the flags of exec-server", "ws-auth ws-token-file ws-token-sha256 ws-shared-secret-file ws-issuer ws-audience ws-max-clock-skew-seconds"},
}

// helpWidth is how long a line of the help may be.
const helpWidth = 96

// printHelp prints the flags of troupe serve by sections.
func printHelp(w io.Writer, f *flag.FlagSet) {
	fmt.Fprint(w, "usage: troupe serve [flags]\n\nServes clients until SIGTERM, SIGINT or SIGHUP, and prints its address when it is ready.\n"+
		"Without flags only this machine can connect, and no credential is asked.\n"+
		"docs/EXPOSE.md puts a server on a network, step by step.\n")
	for _, s := range helpSections {
		fmt.Fprintf(w, "\n%s:\n", s.title)
		for name := range strings.FieldsSeq(s.flags) {
			printFlag(w, f.Lookup(name))
		}
	}
}

func printFlag(w io.Writer, f *flag.Flag) {
	takes, text := flag.UnquoteUsage(f)
	if takes == "int" || takes == "float" {
		takes = "N"
	}
	fmt.Fprintf(w, "  --%s\n", strings.TrimSpace(f.Name+" "+takes))
	switch f.DefValue {
	case "", "0", "0s", "false":
	default:
		text += fmt.Sprintf(" (default %s)", f.DefValue)
	}
	const indent = "        "
	line := indent
	for word := range strings.FieldsSeq(text) {
		if line != indent {
			if len(line)+1+len(word) > helpWidth {
				fmt.Fprintln(w, line)
				line = indent
			} else {
				line += " "
			}
		}
		line += word
	}
	fmt.Fprintln(w, line)
}
