#!/bin/sh
# After a removal. The user troupe and /var/lib/troupe stay, because files of programs may be there.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
fi
