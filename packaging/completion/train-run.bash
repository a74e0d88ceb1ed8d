# Completion of train-run for bash: source this file, or install it as share/bash-completion/completions/train-run.
_train_run() {
  local line="${COMP_LINE:0:COMP_POINT}" words word prefix paths=''
  read -ra words <<<"$line"
  [[ "$line" != *[[:space:]] ]] || words+=('')
  word="${words[-1]}"
  prefix="${word%"${word##*[=:]}"}"   # readline replaces only what follows these
  COMPREPLY=()
  while IFS=$'\t' read -r word _; do
    if [[ "$word" = :* ]]; then paths="$word"; else COMPREPLY+=("${word#"$prefix"}"); fi
  done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null)
  [ "$paths" != :files ] || compopt -o default
  [ "$paths" != :folders ] || compopt -o dirnames
  [[ "${#COMPREPLY[@]}" != 1 || "${COMPREPLY[0]}" != *[.,=] ]] || compopt -o nospace
}
complete -F _train_run train-run
