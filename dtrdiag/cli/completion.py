"""``dtrdiag completion``: what does a shell have to run to complete our command lines?

A script on standard output, rather than typer's `--install-completion`: that edits start-up files
of the user's, guesses the shell, and its scripts offer either names or files, never both, although
a TRACE can be either.
"""

from __future__ import annotations

from typing import Annotated

import typer

from dtrdiag.cli.completing import SHELLS
from dtrdiag.errors import UsageError
from dtrdiag.suggestions import no_such

BASH = r"""# dtrdiag: completion for bash; in ~/.bashrc: eval "$(dtrdiag completion bash)"
_dtrdiag_completion() {
    local kind value help line
    COMPREPLY=()
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            plain) COMPREPLY+=("$value") ;;
            file | dir)
                [[ $kind == file ]] && kind=f || kind=d
                while IFS= read -r line; do
                    COMPREPLY+=("$line")
                done < <(compgen -"$kind" -- "$2")
                compopt -o filenames 2>/dev/null
                ;;
        esac
    done < <(
        IFS=$'\n'
        COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD _DTRDIAG_COMPLETE=complete_bash \
            command "$1" 2>/dev/null
    )
}
complete -o nosort -F _dtrdiag_completion dtrdiag 2>/dev/null ||
    complete -F _dtrdiag_completion dtrdiag
"""
ZSH = r"""#compdef dtrdiag
# dtrdiag: completion for zsh; in ~/.zshrc after compinit: eval "$(dtrdiag completion zsh)"
_dtrdiag_completion() {
    local kind value help
    local -a found
    local -i files=0 folders=0 more=1
    while IFS=$'\t' read -r kind value help; do
        case $kind in
            plain) found+=("${value//:/\\:}${help:+:$help}") ;;
            file) files=1 ;;
            dir) folders=1 ;;
        esac
    done < <(
        COMP_WORDS="${(pj:\n:)words}" COMP_CWORD=$((CURRENT - 1)) \
            _DTRDIAG_COMPLETE=complete_zsh command "$words[1]" 2>/dev/null
    )
    (( $#found )) && _describe -V dtrdiag found && more=0
    (( files )) && _files && more=0
    (( folders )) && _files -/ && more=0
    return more
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _dtrdiag_completion "$@"
else
    compdef _dtrdiag_completion dtrdiag
fi
"""
FISH = r"""# dtrdiag: completion for fish; to be kept as ~/.config/fish/completions/dtrdiag.fish
function _dtrdiag_completion
    set -l before (commandline -opc)
    set -l words (string join \n -- $before (commandline -ct) | string collect --allow-empty)
    set -l lines (env COMP_WORDS="$words" COMP_CWORD=(count $before) \
        _DTRDIAG_COMPLETE=complete_fish $before[1] 2>/dev/null)
    for line in $lines
        set -l parts (string split -m 2 \t -- $line)
        switch $parts[1]
            case plain
                printf '%s\t%s\n' $parts[2] $parts[3]
            case file
                __fish_complete_path (commandline -ct)
            case dir
                __fish_complete_directories (commandline -ct)
        end
    end
end
complete --command dtrdiag --no-files --keep-order --arguments '(_dtrdiag_completion)'
"""
SCRIPTS = {"bash": BASH, "zsh": ZSH, "fish": FISH}


def completion(
    shell: Annotated[str, typer.Argument(metavar="|".join(SHELLS), help="The shell to set up.")],
) -> None:
    """Print what lets a shell complete verbs, options and names.

    For bash put eval "$(dtrdiag completion bash)" into ~/.bashrc; for zsh the same with zsh into
    ~/.zshrc, after compinit; for fish save it as ~/.config/fish/completions/dtrdiag.fish. The first
    press of the Tab key takes a second or two, in which what there is to say is gathered and kept
    in the cache.
    """
    if shell not in SCRIPTS:
        raise UsageError(no_such("shell", shell, SCRIPTS))
    print(SCRIPTS[shell], end="")
