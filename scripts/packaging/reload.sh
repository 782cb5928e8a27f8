#!/bin/sh
set -e
# systemd notices units that came or went.
if [ -d /run/systemd/system ] && command -v systemctl >/dev/null 2>&1; then
  systemctl daemon-reload || true
fi
