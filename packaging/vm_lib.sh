# shellcheck shell=bash
# Boots a virtual machine with a Debian kernel and cgroup v2 only, for packaging/vm.sh and tests/reach. QEMU emulates its 2
# processors (20 times slower than this one), so that it also runs in containers and virtual machines. The machine sees this
# machine's files below /host, and writes to its own disk, /disk. It needs what packaging/deps/install.sh vm installs.

vm_work="$(mktemp -d)"
trap 'rm -rf "$vm_work"' EXIT
vm_deps="${TRAINRUN_DEPS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/trainrun/deps}"

# vm_boot LOWER LIMIT_S: boot, make /root of the folders LOWER (below /host, separated by colons) under a layer that can be
# written, and run the shell script on stdin as process 1. Its tools are busybox's, as `sys mount`. Print the console.
vm_boot() {
  local lower="$1" limit_s="$2" kernel="$vm_deps/vm-kernel-1" version order=() module file name
  version="$(ls "$kernel/lib/modules")"
  rm -rf "$vm_work/init"
  mkdir -p "$vm_work"/init/{bin,modules,proc,sys,dev,host,disk,root}
  cp "$(command -v busybox)" "$vm_work/init/bin/busybox"
  # Load the modules that it needs to see this machine's files and its disk, each after those that it depends on itself.
  for module in virtio_pci virtio_blk 9pnet_virtio 9p overlay crc32c_generic ext4; do
    while read -r _ file; do
      name="$(basename "$file")"
      [[ " ${order[*]} " == *" $name "* ]] || order+=("$name")
      cp "$file" "$vm_work/init/modules/$name"
    done < <(/sbin/modprobe -d "$kernel" -S "$version" --show-depends "$module" | grep '^insmod')
  done
  {
    cat <<EOF
#!/bin/busybox sh
set -e
PATH=/bin; alias sys=/bin/busybox
sys mount -t proc proc /proc; sys mount -t sysfs sys /sys; sys mount -t devtmpfs dev /dev
for module in ${order[*]}; do sys insmod /modules/\$module; done
sys mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144,cache=loose,ro host /host
sys mount -t ext4 /dev/vda /disk
sys mkdir /disk/upper /disk/work
sys mount -t overlay -o lowerdir=$lower,upperdir=/disk/upper,workdir=/disk/work root /root
EOF
    cat
  } >"$vm_work/init/init"
  chmod +x "$vm_work/init/init"
  (cd "$vm_work/init" && find . | cpio -o -H newc --quiet | gzip -1) >"$vm_work/initrd"
  rm -f "$vm_work/disk"
  truncate -s 8G "$vm_work/disk"
  /sbin/mkfs.ext4 -q -F "$vm_work/disk"
  timeout "$limit_s" qemu-system-x86_64 -accel tcg,thread=multi -cpu max -smp 2 -m 6G -nographic -no-reboot -net none \
    -kernel "$kernel/boot/vmlinuz-$version" -initrd "$vm_work/initrd" -append "console=ttyS0 quiet panic=-1 ${vm_append:-}" \
    -drive "file=$vm_work/disk,format=raw,if=virtio,cache=unsafe" \
    -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap </dev/null | stdbuf -oL tr -d '\r' | tee "$vm_work/log"
}
