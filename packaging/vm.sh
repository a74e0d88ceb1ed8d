#!/usr/bin/env bash
# packaging/vm.sh BUILD_FOLDER TEST...: run test programs as root in a virtual machine with a Debian kernel and cgroup v2 only,
# whatever this machine has (vm_lib.sh). Exit code: 0 if all tests passed; their output goes to stdout.
set -euo pipefail

[[ $# -ge 2 ]] || { echo "usage: packaging/vm.sh BUILD_FOLDER TEST..." >&2; exit 2; }
build="$(realpath "$1")"
shift
# shellcheck source=packaging/vm_lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/vm_lib.sh"

vm_boot /host 1200 <<EOF
sys mount -t proc proc /root/proc; sys mount -t sysfs sys /root/sys; sys mount -t devtmpfs dev /root/dev
sys mkdir -p /root/dev/pts /root/dev/shm /disk/tmp /disk/var
sys chmod 1777 /disk/tmp /disk/var
sys mount -t devpts devpts /root/dev/pts; sys mount -t tmpfs shm /root/dev/shm; sys mount -t tmpfs run /root/run
sys mount --bind /disk/tmp /root/tmp; sys mount --bind /disk/var /root/var/tmp
sys mount -t cgroup2 cgroup /root/sys/fs/cgroup
sys ip link set lo up; sys hostname vm
sys chroot /root /bin/sh -c 'export HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin; cd "$build"
  failed=; for test in $*; do echo "== \$test"; ./tests/\$test --gtest_brief=1 || failed="\$failed \$test"; done
  printf "\nall have run, failed:%s\n" "\${failed:- none}"' || true
sys poweroff -f
EOF
grep -qx 'all have run, failed: none' "$vm_work/log"
