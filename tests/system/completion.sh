#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# zeroth completion: all that the help of a command has is completed, keys and values are those of the option tables, and
# bash, zsh and fish get them by the scripts that it prints.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
cd "$scratch" || exit 99
mkdir bin runs runs/first other
ln -s "$ZEROTH" bin/zeroth
PATH=$scratch/bin:$PATH
touch runs/first/metrics.jsonl notes.txt
printf '[optimizer]\nplugin = sgd\n[optimizer.plain]\nmatch = *\n' >c.ini

words() { zeroth completion words "$@" | cut -f1 | sort | tr '\n' ' '; }

is 'commands' "$(words '')" "$(zeroth --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | sort | tr '\n' ' ')"
is 'a command' "$(words tr)" 'train '
is 'what a command means' "$(zeroth completion words schedu)" "$(printf 'schedule\tprint the learning rate of every step')"

# Every option that the help describes, for commands; for verbs those of their usage.
described() { # described COMMAND...
	zeroth "$@" --help | sed '1,/^$/d' | sed -n 's/^ *\(-.*\)/\1/p' | sed 's/  .*//' | grep -oE -- '--[a-z-]+' | sort -u
}
while read -r command; do
	is "options of $command" "$(words $command - | tr ' ' '\n' | grep '^--' | sort -u)" "$(described $command)"
done <<<"$(zeroth --help | sed -n 's/^  \([a-z]*\)  .*/\1/p' | grep -vE '^(config|data|plugin|checkpoint|completion)$')
data show
config diff
config import"
is 'options of config check' "$(words config check --)" '--help --option '
is 'options of config show' "$(words config show --)" '--help --json --option '
is 'options of plugin info' "$(words plugin info --)" '--help --json --mdoc '
is 'options of plugin check' "$(words plugin check --)" '--exclude --help --include --json --option --tests --timeout '
is 'options of checkpoint export' "$(words checkpoint export --)" '--adapter --best --dtype --gguf --help --merge --option --shard-bytes --to --tokenizer '
is 'options of checkpoint prune' "$(words checkpoint prune --)" '--help --keep '
is 'what an option means' "$(zeroth completion words train --min)" \
	"$(printf -- '--min-ranks\tstarts fewer ranks each time, as the batch allows, but at least N')"
is 'options that the help describes together' "$(zeroth completion words plan --ho)" \
	"$(printf -- '--host\twith --fit: searches for a machine with this much for all ranks')"
for command in 'config check' 'data show' 'plugin check info list new' 'checkpoint export import ls prune verify'; do
	like "verbs of ${command%% *}" " $(words ${command%% *} '')" " ${command#* }"
done
is 'subjects of bench, and configurations' "$(words bench '')" 'adam bin/ c.ini comm gemm io ops other/ runs/ step '

is 'sections' "$(words train -o sch)" 'scheduler. '
is 'sections of a configuration' "$(words train c.ini -o optimizer.pl)" 'optimizer.plain. optimizer.plugin= '
is 'keys of core' "$(words train -o train.gradient_c)" 'train.gradient_clipping= '
is 'keys of the default plugin' "$(words train -o optimizer.beta)" 'optimizer.betas= '
is 'keys of the plugin of a configuration' "$(words train c.ini -o optimizer.m)" 'optimizer.momentum= '
is 'keys of a plugin that -o names' "$(words train c.ini -o optimizer.plugin=lamb -o optimizer.max)" 'optimizer.max_coeff= '
is 'a key and what it means' "$(zeroth completion words train -o optimizer.eps)" \
	"$(printf 'optimizer.eps=\t%s' "$(zeroth plugin info --json optimizer/adamw | grep -A 8 '"name": "eps"' | sed -n 's/.*"doc": "\(.*\)",*$/\1/p' | head -n 1)")"
is 'plugins' "$(words train -o zero.plugin=)" "$(zeroth plugin list | sed -n 's|^zero/\([^ ]*\) .*|zero.plugin=\1|p' | sort -u | tr '\n' ' ')"
is 'values of a choice' "$(words train -o train.reduction=)" 'train.reduction=local train.reduction=slots '
is 'yes and no' "$(words train -o checkpoint.async=)" 'checkpoint.async=no checkpoint.async=yes '
is 'paths' "$(words train -o data.plugin=text -o data.path=no)" 'data.path=notes.txt '
is 'roles and plugins' "$(words plugin info precision/f)" 'precision/fp16 precision/fp32 '
is 'choices of an option' "$(words checkpoint export --dtype '')" 'bf16 fp16 fp32 '
is 'a word or a path' "$(words train --resume a)" 'auto '
is 'configurations' "$(words train '')" 'bin/ c.ini other/ runs/ '
is 'runs' "$(words sample runs/)" 'runs/first '
is 'directories' "$(words checkpoint ls o)" 'other/ '
is 'nothing after what is no command' "$(words elephant '')" ''

# ---- shells ----
zeroth completion bash >zeroth.bash
press() { # press LINE: what bash offers
	bash --norc -c '. ./zeroth.bash; COMP_LINE=$1 COMP_POINT=${#1}; _zeroth; echo "${COMPREPLY[@]}"' - "$1"
}
is 'bash: a command' "$(press 'zeroth sched')" 'schedule'
is 'bash: the next word' "$(press 'zeroth data ')" 'show'
is 'bash: a value is what is behind =' "$(press 'zeroth train -o zero.plugin=stage2')" 'stage2'
is 'bash: a key' "$(press 'zeroth train -o train.gradient_c')" 'train.gradient_clipping='
is 'bash: a path behind another option' "$(press 'zeroth train -n 2 c')" 'c.ini'
is 'bash: it is registered' "$(bash --norc -c '. ./zeroth.bash; complete -p zeroth')" 'complete -F _zeroth zeroth'

if command -v zsh >/dev/null; then
	zeroth completion zsh >_zeroth
	is 'zsh' "$(zsh -f -c 'compdef() { :; }
compadd() { print -r -- "${(@P)@[-1]}"; }
. ./_zeroth
words=(zeroth train -o train.reduction=s); CURRENT=4; _zeroth
words=(zeroth train -o train.gradient_cl); CURRENT=4; _zeroth' | tr -s '\n ' ' ')" 'train.reduction=slots train.gradient_clipping= '
else
	skip 'zsh' 'not here'
fi
if command -v fish >/dev/null; then
	zeroth completion fish >zeroth.fish
	is 'fish' "$(HOME=$scratch fish -N -c 'source zeroth.fish; complete -C "zeroth train -o train.reduction=s"; complete -C "zeroth sched"' | cut -f1 | tr '\n' ' ')" \
		'train.reduction=slots schedule '
else
	skip 'fish' 'not here'
fi
"$ZEROTH" completion elephant >out 2>err
is 'no such shell' "$? $(head -n 1 err)" '2 zeroth completion: expected bash, zsh, fish or words, found elephant'

done_testing
