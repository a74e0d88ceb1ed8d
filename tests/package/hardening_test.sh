#!/usr/bin/env bash
# tests/package/hardening_test.sh BUILD_FOLDER: check that no program or library that we build or install loads libraries from a
# folder that others could fill, and that each has the compiler's and the linker's defences.
# tests/package/hardening_test.sh --files FOLDER: check those of an unpacked package.
set -euo pipefail

files=""
if [ "$1" = --files ]; then files="$2" && shift; fi
build="$(cd "$1" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
failed=0 looked_at=0

complain() { printf 'hardening_test: %s: %s\n' "$1" "$2" >&2; failed=1; }

# check_runpath FILE INSTALLED: each element is $ORIGIN/… or, unless installed, an absolute folder outside the build
check_runpath() {
  local file="$1" installed="$2" path element
  path="$(sed -n 's/.*(R\(UN\)\?PATH).*\[\(.*\)\]$/\2/p' "$work/dynamic")"
  [ -n "$path" ] || { ! grep -q '(R\(UN\)\?PATH)' "$work/dynamic" || complain "$file" "its RUNPATH is empty"; return 0; }
  [[ ":$path:" != *::* ]] || complain "$file" "an element of its RUNPATH is empty, which is the current folder: $path"
  while IFS= read -r -d : element; do
    case "$element" in
      '') ;;
      "\$ORIGIN" | "\$ORIGIN"/*) ;;
      "$build"*) complain "$file" "its RUNPATH leads into the build folder: $element" ;;
      /*) [ "$installed" = 0 ] || complain "$file" "its RUNPATH leads out of the prefix: $element" ;;
      *) complain "$file" "its RUNPATH is relative to the current folder: $element" ;;
    esac
  done <<<"$path:"
}

# check FILE INSTALLED
check() {
  local file="$1"
  readelf -W -d "$file" >"$work/dynamic"
  readelf -W -h -l "$file" >"$work/headers"
  readelf -W --dyn-syms "$file" >"$work/symbols"
  looked_at=$((looked_at + 1))
  # One of them is for a search by a relative RUNPATH.
  [[ "$file" = */train_digest_relative_program ]] || check_runpath "$file" "$2"
  # A test of the SDK needs a program at fixed addresses.
  [[ "$file" = */tests/sdk_client_fixed_addresses ]] || grep -q 'Type: *DYN' "$work/headers" ||
    complain "$file" "it is not position independent"
  grep -q 'GNU_RELRO' "$work/headers" || complain "$file" "it has no RELRO"
  grep -q '(FLAGS_1).*NOW\|BIND_NOW' "$work/dynamic" || complain "$file" "its symbols are not bound at its start (-z now)"
  ! grep 'GNU_STACK' "$work/headers" | grep -q 'RWE' || complain "$file" "its stack is executable"
  # Four files of a test have one function each, which needs none.
  [[ "$file" =~ /(train_digest_program|train_digest_relative_program|libtrainrun_digest\.so|libtrainrun_by_path\.so)$ ]] || grep -q '__stack_chk_fail' "$work/symbols" || complain "$file" "no function of it has a stack protector"
}

is_program() { [ "$(head -c 4 "$1" | tr -d '\0')" = $'\x7fELF' ]; }

if [ -n "$files" ]; then
  while IFS= read -r -d '' file; do
    if is_program "$file"; then check "$file" 1; fi
  done < <(find "$build" -type f ! -name '*.a' -print0)
  [ "$looked_at" -ge 4 ] || complain "$build" "only $looked_at programs were found"
  [ "$failed" = 0 ] && echo "hardening_test: $looked_at files passed"
  exit "$failed"
fi

# Check all programs, examples, test programs, libraries and modules that were built. Symbolic links belong to Arrow.
while IFS= read -r -d '' file; do
  if is_program "$file"; then check "$file" 0; fi
done < <(find "$build/bin" "$build/libexec" "$build/tests" "$build/lib" -type f \( -perm -u+x -o -name '*.so*' \) \
           ! -path '*/CMakeFiles/*' ! -name '*.a' -print0)
[ "$looked_at" -ge 20 ] || complain "$build" "only $looked_at programs were found"

cmake --install "$build" --prefix "$work/prefix" >"$work/log" || { cat "$work/log"; exit 1; }
while IFS= read -r -d '' file; do check "$file" 1; done < <(
  find "$work/prefix/bin" "$work/prefix/sbin" "$work/prefix/libexec" -type f -print0
  find "$work/prefix" -type f -name 'libtrainrun*.so*' -print0)

for program in train-run traind; do   # _FORTIFY_SOURCE: checked versions of copy and print functions
  readelf -W --dyn-syms "$build/bin/$program" >"$work/symbols"
  grep -q '__[a-z]*_chk@' "$work/symbols" || complain "$program" "it was built without _FORTIFY_SOURCE"
done

# The programs must not load a library from the current folder.
mkdir "$work/cwd"
for name in libxxhash.so.0 libfmt.so.9 libssl.so.3 libcrypto.so.3; do echo 'no library' >"$work/cwd/$name"; done
(cd "$work/cwd" && "$build/bin/train-run" --version >/dev/null && "$build/bin/traind" --version >/dev/null) ||
  complain "train-run" "it loads libraries from the current folder"

[ "$failed" = 0 ] && echo "hardening_test: $looked_at files passed"
