#!/usr/bin/env bash
# packaging/vm.sh BUILD_FOLDER TEST...: run test programs as root in a virtual machine with a Debian kernel and cgroup v2 only,
# whatever this machine has. The VM sees this machine's files, and writes to its own disk. QEMU emulates its 2 processors (20
# times slower than this one), so that it also runs in containers and virtual machines. It needs what packaging/deps/install.sh
# vm installs. Exit code: 0 if all tests passed; their output goes to stdout.
set -euo pipefail

readonly limit_s=1200 disk_size=8G memory=6G
[[ $# -ge 2 ]] || { echo "usage: packaging/vm.sh BUILD_FOLDER TEST..." >&2; exit 2; }
build="$(realpath "$1")"
shift
deps="${TRAINRUN_DEPS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/trainrun/deps}"
kernel="$deps/vm-kernel-1"
version="$(ls "$kernel/lib/modules")"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
mkdir -p "$work"/init/{bin,modules,proc,sys,dev,host,disk,root}
cp "$(command -v busybox)" "$work/init/bin/busybox"

# Load the modules that it needs to see this machine's files and its disk, each after those that it depends on itself.
order=()
for module in virtio_pci virtio_blk 9pnet_virtio 9p overlay crc32c_generic ext4; do
  while read -r _ file; do
    name="$(basename "$file")"
    [[ " ${order[*]} " == *" $name "* ]] || order+=("$name")
    cp "$file" "$work/init/modules/$name"
  done < <(/sbin/modprobe -d "$kernel" -S "$version" --show-depends "$module" | grep '^insmod')
done

cat >"$work/init/init" <<EOF
#!/bin/busybox sh
set -e
PATH=/bin; alias sys=/bin/busybox
sys mount -t proc proc /proc; sys mount -t sysfs sys /sys; sys mount -t devtmpfs dev /dev
for module in ${order[*]}; do sys insmod /modules/\$module; done
sys mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /host
sys mount -t ext4 /dev/vda /disk
sys mkdir /disk/upper /disk/work
sys mount -t overlay -o lowerdir=/host,upperdir=/disk/upper,workdir=/disk/work root /root
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
chmod +x "$work/init/init"
(cd "$work/init" && find . | cpio -o -H newc --quiet | gzip -1) >"$work/initrd"
truncate -s "$disk_size" "$work/disk"
/sbin/mkfs.ext4 -q -F "$work/disk"

timeout "$limit_s" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m "$memory" -nographic -no-reboot -net none \
  -kernel "$kernel/boot/vmlinuz-$version" -initrd "$work/initrd" -append "console=ttyS0 quiet panic=-1" \
  -drive "file=$work/disk,format=raw,if=virtio,cache=unsafe" \
  -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap </dev/null | stdbuf -oL tr -d '\r' | tee "$work/log"
grep -qx 'all have run, failed: none' "$work/log"
