#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The commands of zeroth-tutorial(7) do what it says: each is run as it stands, in order, on a short
# text and, where it trains, for a few steps of a small model.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
src=$(cd "${ZR_SRCDIR:-.}" && pwd)
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
cd "$scratch" || exit 99
export TMPDIR=$scratch XDG_STATE_HOME=$scratch/state

page=$src/man/zeroth-tutorial.7
cp -r "$src/conf/quickstart.ini" "$src/conf/gallery" .
chmod -R u+w gallery
seq 1 40000 > text.txt
seq 1 3 90000 > more.txt
# as zeroth tokenize writes it: llm.c's header, 49488 tokens
{ printf '\x88\xd8\x34\x01\x01\0\0\0\x50\xc1\0\0'; head -c 99988 /dev/zero; } > train.bin
sed -n '/^{$/,/^}$/p' "$page" > ds_config.json
mkdir bin
cat > bin/zeroth <<END
#!/bin/bash
case "\$*" in
bench*) set -- "\$@" -n 1 --seconds 0.0001 ;;
"config diff"*) # 1: they differ
	"$ZEROTH" "\$@"
	exit \$((\$? != 1))
	;;
*175b*) ;;
train*) set -- "\$@" -o train.steps=4 -o train.eval_every=2 -o train.eval_batches=1 ;;
esac
case "\$*" in
*quickstart* | *gallery/[srb]*) set -- "\$@" -o model.layers=2 -o model.width=32 ;;
esac
exec "$ZEROTH" "\$@"
END
chmod 755 bin/zeroth
PATH=$scratch/bin:$PATH

# Lines that end in \e go on.
commands=$(sed -n '/^\.Bd/,/^\.Ed/p' "$page" | sed 's/\\e$/\\/' |
	sed -e ':a' -e '/\\$/N; s/\\\n *//; ta' | grep '^zeroth ')
while read -r line; do
	if [ -n "$ZR_SANITIZE" ] && [[ $line == *' bench' || $line == *--fit* ]]; then
		skip "$line" 'all rates take too long under sanitizers'
	else
		ok "$line" bash -c "$line > out"
	fi
done <<< "$commands"
is 'every command was found' "$(wc -l <<< "$commands")" "$(grep -c '^zeroth [a-z]' "$page")"

digest() {
	grep -E '"(losses|params)_digest": "[0-9a-f]+"' "runs/$1/summary.json" || echo "none: $1"
}
is 'stages 1 and 3 have the same digest' "$(digest stage1)" "$(digest stage3)"
is 'and so has a training from disk' "$(digest disk)" "$(digest stage3)"
ok 'the report is written' test -s runs/traced/report.html
ok 'merged adapters are a model' test -s merged/config.json
done_testing
