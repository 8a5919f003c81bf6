// Empty: it lets fork_linux.go declare functions of the runtime.
