#!/bin/sh
# tests/e2e/programs/ssh_host.sh FOLDER NAME: be the host NAME, with an sshd and with folders for temporary files of its own; of
# these, only FOLDER is shared with others. It must run in namespaces of its own for mounts and the host name:
#   unshare --mount --uts --propagation private tests/e2e/programs/ssh_host.sh FOLDER NAME
# FOLDER/sshd-NAME is the configuration of sshd.
set -e
folder=$1 name=$2
hostname "$name"
mount --bind "$folder" /mnt
mount -t tmpfs -o mode=1777 none /tmp
mkdir -p "$folder"
mount --bind /mnt "$folder"
umount /mnt
mount -t tmpfs -o mode=1777 none /var/tmp
mount -t tmpfs -o mode=755 none /run
mkdir /run/sshd
exec /usr/sbin/sshd -D -e -f "$folder/sshd-$name"
