# Completion of train-run for fish: install it as share/fish/vendor_completions.d/train-run.fish.
function __train_run_complete
    set -l words (commandline -opc) (commandline -ct)
    for line in ($words[1] __complete $words[2..-1] 2>/dev/null)
        switch $line
            case :files
                __fish_complete_path (commandline -ct)
            case :folders
                __fish_complete_directories (commandline -ct) ''
            case '*'
                echo $line
        end
    end
end
complete -c train-run -f -a '(__train_run_complete)'
