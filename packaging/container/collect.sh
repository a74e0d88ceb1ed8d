#!/usr/bin/env bash
# packaging/container/collect.sh ROOT OUT: copy trainrun's programs, as its Debian packages have installed them in ROOT, to OUT,
# together with the libraries that they need besides glibc and GCC's. OUT is a tree to copy over the root of another image.
set -euo pipefail

root="${1%/}" out="$2"
modules="/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")/trainrun"
programs=(/usr/bin/train-run /usr/sbin/traind /usr/libexec/trainrun/trainrun-unwind /usr/libexec/trainrun/trainrun-pmix)
for file in "${programs[@]}" "$modules/libtrainrun_http.so"; do install -D "$root$file" "$out$file"; done
ln -sf ../sbin/traind "$out/usr/bin/traind"
# Programs look for libraries in that folder first. libcurl, which libtrainrun_http.so needs for requests, is left to the image.
ldd "${programs[@]/#/$root}" | sed -n 's/.* => \(\/[^ ]*\) .*/\1/p' | sort -u |
  grep -Ev '/(libc|libm|libdl|libpthread|librt|libresolv|libgcc_s|libstdc\+\+)\.so' | xargs -I{} install -D -m644 -t "$out$modules" {}
