#!/usr/bin/env bash
# tests/package/systemd_units_test.sh SOURCE_FOLDER: check the units of packaging/systemd with systemd's own tools, and that they
# only use options that traind has (its man page lists them).
set -euo pipefail
cd "$1/packaging/systemd"
command -v systemd-analyze >/dev/null || { echo "systemd_units_test: skipped: needs systemd-analyze"; exit 77; }
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failed=0
complain() { printf 'systemd_units_test: %s\n' "$*" >&2; failed=1; }

# A stand-in for traind, so that the units name a program that exists.
printf '#!/bin/sh\n' >"$work/traind"
chmod +x "$work/traind"
for unit in traind.service traind-drain.service; do sed "s|@SBINDIR@|$work|" "$unit" >"$work/$unit"; done

# systemd before 254 does not know DelegateSubgroup=, and runs the release at the end instead; man may be missing.
said="$(systemd-analyze verify "$work"/*.service 2>&1 | grep -Ev "DelegateSubgroup|Command 'man |^$" || true)"
[ -z "$said" ] || complain "systemd-analyze verify:
$said"

# 0 is safe, 100 is not: at most 4.5 of 10.
said="$(systemd-analyze security --offline=true --threshold=45 "$work/traind.service" 2>&1)" || complain "$(tail -n 1 <<<"$said")"

# What the drain may take (its grace, and 15 s for the last workers) ends before systemd kills it.
timeout_s="$(sed -n 's/^TimeoutStopSec=//p' traind-drain.service)"
[ "$timeout_s" -gt 75 ] || complain "traind-drain.service waits for $timeout_s s, and a drain takes up to 75 s"

man="../man/traind.8"
while read -r option; do
  grep -qF -- "${option//-/\\-}" "$man" || complain "traind(8) does not know $option"
done < <(grep -ho -- ' --[a-z-]*' ./*.service traind.default | sort -u)

if command -v systemd-sysusers >/dev/null; then
  mkdir -p "$work/root/etc"
  systemd-sysusers --root="$work/root" "$PWD/traind.sysusers" || complain "systemd-sysusers does not take traind.sysusers"
  grep -q '^trainrun:' "$work/root/etc/passwd" || complain "traind.sysusers makes no user trainrun"
fi
if command -v systemd-tmpfiles >/dev/null; then
  systemd-tmpfiles --root="$work/root" --create "$PWD/traind.tmpfiles" || complain "systemd-tmpfiles does not take traind.tmpfiles"
fi
[ "$failed" = 0 ] && echo "systemd_units_test: passed"
