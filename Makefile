# make demo | build | test | test-hdfs | test-mlflow | clients | test-reach | deb | wheel | python | dist | sim | chaos | soak | fuzz | bench | lint | precommit | asan | tsan | mutants |
# vm: each first installs what it needs (packaging/deps/install.sh).
# Presets (CMakePresets.json) use the build folders build, build-dev, build-asan, …
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := build
.PHONY: demo build test test-hdfs test-mlflow clients test-reach deb wheel python dist sim chaos soak fuzz bench lint precommit asan tsan mutants vm install

deps = packaging/deps/install.sh $(1) >/dev/null
compile = packaging/compile.sh $(1) $(2)

demo: build
	@python3 examples/mnist_ddp/prepare_data.py --out build/data/mnist
	@exec build/bin/train-run examples/mnist_ddp/job.yaml

build:
	@$(call deps,build)
	@test -e build/build.ninja || cmake --preset release
	@$(call compile,build,programs)

test:
	@$(call deps,build)
	@test -e build/build.ninja || cmake --preset release
	@$(call deps,test) & trap "kill $$!" INT TERM; code=0; $(call compile,build,all) || code=$$?; wait $$! && exit $$code  # the tests' tools come meanwhile
	@packaging/run_tests.sh build -LE 'hdfs|mlflow|clients|reach'

# Test object stores on HDFS, which need a JDK and Hadoop (182 MB).
test-hdfs:
	@$(call deps,hdfs)
	@test -e build/build.ninja || cmake --preset release
	@$(call compile,build,tests_hdfs)
	@packaging/run_tests.sh build -L hdfs

# Test the logging to MLflow with a real server, which needs 386 MB.
test-mlflow:
	@$(call deps,mlflow)
	@test -e build/build.ninja || cmake --preset release
	@$(call compile,build,tests_mlflow)
	@packaging/run_tests.sh build -L mlflow

# Test backends and examples with TensorFlow, JAX, torchft and Horovod, which need 1.7 GB, and a build of Horovod.
clients:
	@$(call deps,clients)
	@test -e build/build.ninja || cmake --preset release
	@$(call compile,build,tests_clients)
	@packaging/run_tests.sh build -L clients

# Test services and packages with the real systemd, in virtual machines, and with Debian's tools: 10 min.
test-reach: deb wheel
	@$(call deps,reach)
	@$(call compile,build,tests_reach)
	@packaging/run_tests.sh build -L reach

# Make the Debian packages, in build-deb/packages.
deb: export DEB_HOST_MULTIARCH = $(shell dpkg-architecture -qDEB_HOST_MULTIARCH)
deb:
	@$(call deps,deb)
	@test -e build-deb/build.ninja || cmake --preset deb
	@$(call compile,build-deb,deb_programs)
	@packaging/deb.sh build-deb build-deb/packages

# Make the wheel for Python's pip, in build-wheel/wheel.
wheel:
	@$(call deps,wheel)
	@test -e build-wheel/build.ninja || cmake --preset wheel
	@$(call compile,build-wheel,wheel_programs)
	@packaging/wheel.sh build-wheel build-wheel/wheel

# Make build/python-venv: a Python environment with the package trainrun, over the libraries and programs of the build.
python:
	@$(call deps,build)
	@test -e build/build.ninja || cmake --preset release
	@$(call compile,build,python_programs)
	@packaging/python_venv.sh build build/python-venv

# Make trainrun-VERSION.tar.gz of the commit, in build-dist: the same commit gives the same bytes.
dist:
	@packaging/dist.sh build-dist

# Run simulations (docs/testing.md): SEEDS=10000 FIRST=1 on all cores. Prints how to see a failing run again.
SEEDS ?= 1000
FIRST ?= 1
sim:
	@$(call deps,test)
	@test -e build/build.ninja || cmake --preset release
	@$(call compile,build,train-sim)
	@exec build/bin/train-sim --seed $(FIRST) --seeds $(SEEDS)

# Kill and cut off real processes (docs/testing.md): MINUTES=30 EVERY=5 SEED=7, as root. KILLS=1: one kill -9 per minute.
MINUTES ?= 5
EVERY ?= $(if $(KILLS),60,5)
chaos:
	@$(call deps,test)
	@test -e build/build.ninja || cmake --preset release
	@$(call compile,build,chaos)
	@exec build/tests/chaos_runner --minutes $(MINUTES) --every $(EVERY) $(if $(SEED),--seed $(SEED)) $(if $(KILLS),--kills)

# Run workers that are slow, but healthy, with hang detection on (docs/testing.md): MINUTES=30
soak:
	@$(call deps,build)
	@test -e build/build.ninja || cmake --preset release
	@$(call compile,build,soak_worker train-run traind trainrun-unwind)
	@exec tests/chaos/hang_soak.sh build $(MINUTES)

# Run the libFuzzer targets (docs/testing.md) one after the other, MINUTES each: MINUTES=30 TARGETS="spec text"
fuzz:
	@$(call deps,fuzz)
	@test -e build-fuzz/build.ninja || cmake --preset fuzz
	@$(call compile,build-fuzz,fuzzers)
	@packaging/fuzz.sh build-fuzz $(MINUTES) $(TARGETS)

bench: build
	@$(call deps,bench)
	@$(call compile,build,benchmark_programs)
	@python3 benchmarks/run.py

# Test with small faults in a module of the product (docs/testing.md): MODULE=launcher/core SAMPLE=200.
MODULE ?= launcher/core
SAMPLE ?= 200
mutants:
	@$(call deps,test)
	@exec packaging/mutants.py $(MODULE) --sample $(SAMPLE) $(if $(TESTS),--tests $(TESTS))

# Run test programs in a virtual machine that has cgroup v2 only: TESTS="one_node_limits_test ...".
vm: TESTS ?= one_node_limits_test one_node_worker_user_test
vm: build
	@$(call deps,vm)
	@$(call compile,build,$(TESTS))
	@packaging/vm.sh build $(TESTS)

lint:
	@$(call deps,lint)
	@packaging/lint.sh

# Quickly check what changed since BASE (origin/main, else main), and the subjects of its commits.
precommit:
	@$(call deps,lint)
	@packaging/precommit.py $(BASE)

# Run the tests with labels unit and sim under a sanitizer, without LibTorch (which is not built with one).
asan tsan:
	@$(call deps,test)
	@test -e build-$@/build.ninja || cmake --preset $@
	@$(call compile,build-$@,tests_unit tests_sim)
	@packaging/run_tests.sh build-$@ -L '^(unit|sim)$$'

# PREFIX=/usr/local DESTDIR=
install: build
	@cmake --install build --prefix $(or $(PREFIX),/usr/local)
