#!/bin/sh
# After an installation: makes the user troupe, and starts nothing. After an upgrade: a server that runs becomes the new version, and its programs go on.
# dpkg passes "configure" and the last version, rpm passes 1 or 2.
set -e
case "$1" in
configure | 1 | 2) ;;
*) exit 0 ;;
esac
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers troupe.conf
elif ! getent passwd troupe >/dev/null; then
	useradd --system --user-group --home-dir /var/lib/troupe --shell /bin/sh troupe
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	if systemctl is-active --quiet troupe.service; then
		systemctl reload troupe.service || echo "troupe: the server goes on with the last version: see journalctl -u troupe" >&2
	fi
fi
