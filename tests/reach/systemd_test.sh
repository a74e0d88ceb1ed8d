#!/usr/bin/env bash
# tests/reach/systemd_test.sh BUILD_FOLDER [bookworm|trixie] [ROUNDS] [PACKAGES]: run traind.service under a real systemd, in a
# virtual machine: bookworm's (252) from this machine's files, or trixie's (257). ROUNDS: how often traind is restarted, and how
# often killed, under a running job (default 5). PACKAGES: install and upgrade the Debian packages of its folders old and new
# instead of BUILD_FOLDER's programs (bookworm). It skips (exit code 77) if what packaging/deps/install.sh reach installs is missing.
set -euo pipefail

build="$(realpath "$1")" suite="${2:-bookworm}" rounds="${3:-5}" packages="${4:-}"
source_folder="$(realpath "$(dirname "${BASH_SOURCE[0]}")/../..")"
# shellcheck source=packaging/vm_lib.sh
source "$source_folder/packaging/vm_lib.sh"
skip() { echo "systemd_test: skipped: $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "needs root"
if ! command -v qemu-system-x86_64 busybox cpio >/dev/null || [ ! -d "$vm_deps/vm-kernel-1" ]; then skip "needs packaging/deps/install.sh reach"; fi
root=/host
if [ "$suite" = trixie ]; then
  [ -d "$vm_deps/vm-trixie-1" ] || skip "needs packaging/deps/install.sh reach"
  root="/host$vm_deps/vm-trixie-1"
elif ! grep -qx VERSION_CODENAME=bookworm /etc/os-release; then
  skip "this machine is not bookworm"
fi

# Make the files that are copied into it.
stage="$vm_work/stage"
mkdir -p "$stage/usr/local" "$stage/etc/default"
if [ -n "$packages" ]; then
  cp -r "$packages" "$stage/usr/local/packages"
else
  for program in sbin/traind bin/train-run libexec/trainrun/trainrun-unwind libexec/trainrun/trainrun-pmix; do
    install -D "$build/bin/$(basename "$program")" "$stage/usr/local/$program"
  done
  if [ "$suite" = trixie ]; then   # those of bookworm's libraries that trixie does not have
    while read -r library; do
      [ -n "$(find "$vm_deps/vm-trixie-1/usr/lib" -name "$(basename "$library")" -print -quit)" ] || install -D -t "$stage/usr/local/lib" "$library"
    done < <(ldd "$build/bin/traind" "$build/bin/train-run" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u)
  fi
  for unit in traind traind-drain; do
    mkdir -p "$stage/usr/local/lib/systemd/system"
    sed 's|@SBINDIR@|/usr/local/sbin|' "$source_folder/packaging/systemd/$unit.service" >"$stage/usr/local/lib/systemd/system/$unit.service"
  done
  install -D -m644 "$source_folder/packaging/systemd/traind.sysusers" "$stage/usr/lib/sysusers.d/traind.conf"
fi
options='--listen 0.0.0.0:7070 --health 127.0.0.1:7071 --resource CPU=4'
echo "TRAIND_OPTIONS=\"$options\"" >"$stage/etc/default/traind"   # with packages, an administrator's file, which dpkg keeps
mkdir -p "$stage/etc/systemd/system"
: >"$stage/etc/fstab"
for unit in systemd-udevd.service systemd-udev-trigger.service systemd-udevd-control.socket systemd-udevd-kernel.socket \
            systemd-timesyncd.service systemd-networkd.service apt-daily.timer systemd-random-seed.service \
            systemd-tmpfiles-setup-dev.service systemd-tmpfiles-setup.service systemd-journal-flush.service \
            systemd-sysusers.service systemd-binfmt.service ldconfig.service \
            systemd-modules-load.service modprobe@configfs.service modprobe@dm_mod.service modprobe@drm.service modprobe@efi_pstore.service \
            modprobe@fuse.service modprobe@loop.service dev-hugepages.mount dev-mqueue.mount sys-kernel-debug.mount \
            sys-kernel-tracing.mount sys-kernel-config.mount sys-fs-fuse-connections.mount; do
  ln -sf /dev/null "$stage/etc/systemd/system/$unit"
done
install -m755 "$source_folder/tests/reach/systemd_inside.sh" "$stage/etc/systemd_inside.sh"
cat >"$stage/etc/systemd/system/reach.service" <<EOF
[Unit]
SuccessAction=poweroff-force
FailureAction=poweroff-force
[Service]
Type=oneshot
ExecStart=/bin/bash /etc/systemd_inside.sh $rounds ${packages:+packages}
StandardOutput=tty
StandardError=tty
TTYPath=/dev/ttyS0
TimeoutStartSec=infinity
EOF
printf '[Unit]\nRequires=sysinit.target dbus.socket reach.service\nAfter=sysinit.target\nAllowIsolate=yes\n' >"$stage/etc/systemd/system/reach.target"

vm_append="systemd.unit=reach.target systemd.show_status=0 systemd.log_level=warning cgroup_no_v1=all"
vm_boot "$root" "${SYSTEMD_TEST_LIMIT_S:-900}" <<EOF
sys mkdir -p /root/tmp /root/var/tmp; sys rm -f /root/.dockerenv   # else systemd takes the machine for a container
sys rm -f /root/usr/sbin/policy-rc.d /root/var/lib/man-db/auto-update   # packages start services; indexing man pages takes minutes
sys cp -a /host$stage/. /root/
sys mount -t tmpfs tmp /root/tmp; sys mount -t tmpfs tmp /root/var/tmp
sys hostname vm; sys ip link set lo up
exec /bin/busybox switch_root /root /lib/systemd/systemd
EOF
grep -qx 'systemd_inside: passed' "$vm_work/log"
