#!/bin/sh
# Before a removal: ends the service and its programs. Before an upgrade: nothing. dpkg passes "remove" or "upgrade", rpm 0 or 1.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now troupe.socket troupe.service || true
	fi
	;;
esac
