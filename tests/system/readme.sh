#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# The commands of README.md do what it says: every line of its code that starts with `zeroth` or `cc` is run as it
# stands, in order, on a text and a model so small that all take seconds.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh"
src=$(cd "${ZR_SRCDIR:-.}" && pwd)
[ -n "$ZEROTH" ] || skip_all 'ZEROTH names no program'
cd "$scratch" || exit 99
umask 022

ln -s "$src/conf" "$src/tests" .
seq 1 20000 >text
mkdir gpt2
ln -s "$src/tests/golden/tokenizers/gpt2.json" gpt2/tokenizer.json
mkdir bin
cat >bin/zeroth <<END
#!/bin/sh
case \$1 in train | launch | plan | data)
	case "\$*" in *train.bin*) ;; *) set -- "\$@" -o data.path=text ;; esac
	set -- "\$@" -o model.layers=1 -o model.width=16 -o model.context=16 -o train.steps=2 \\
		-o train.eval_batches=1 ;;
esac
exec "$ZEROTH" "\$@"
END
compiler=${CC:-cc} # by its path: it may be called cc itself
printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v ${compiler%% *})${compiler#"${compiler%% *}"}" >bin/cc
chmod 755 bin/zeroth bin/cc
PATH=$scratch/bin:$PATH
# The tree stands for an installation.
export PATH PKG_CONFIG_PATH="$ZR_BUILDDIR"

blocks=$(sed -n '/^```$/,/^```$/p' "$src/README.md")
if ! command -v pkg-config >/dev/null; then
	blocks=$(grep -v lion.so <<<"$blocks")
fi
if "$ZEROTH" tokenize --tokenizer gpt2/tokenizer.json -o probe.bin text 2>&1 | grep -q 'needs PCRE2'; then
	optional='^zeroth tokenize '
fi
while read -r line; do
	ok "$line" bash -c "$line"
done < <(grep -E '^(zeroth|cc) ' <<<"$blocks" | grep -vE "${optional:-^$}")
is 'README.md: every command of zeroth is tried' \
	"$(grep -oE '^zeroth [a-z]+' <<<"$blocks" | sort -u | tr '\n' ' ')" \
	"$("$ZEROTH" --help | sed -n 's/^  \([a-z]*\)  .*/zeroth \1/p' | sort | tr '\n' ' ')"
is 'README.md has at most 100 lines' "$(($(wc -l <"$src/README.md") <= 100))" 1
is 'ARCHITECTURE.md has at most 200 lines' "$(($(wc -l <"$src/ARCHITECTURE.md") <= 200))" 1

# Every file and directory that ARCHITECTURE.md names exists.
lost=
tops='include|core|files|train|cmd|plugins|kernels|conf|tests|bench|man'
for path in $(grep -oE "\`($tops)/[a-zA-Z0-9_./-]*\`" "$src/ARCHITECTURE.md" | tr -d '`'); do
	[ -e "$src/$path" ] || lost+=" $path"
done
is 'ARCHITECTURE.md names what exists' "$lost" ''

# What CHANGELOG.md tells is of this version, or of the one to come.
version=$(sed -n 's/^AC_INIT(\[zeroth\], \[\(.*\)\])$/\1/p' "$src/configure.ac")
newest=$(sed -n 's/^## \([0-9.]*\).*/\1/p' "$src/CHANGELOG.md" | sed -n 1p)
is 'CHANGELOG.md begins with this version or the next one' \
	"$(printf '%s\n' "$version" "$newest" | sort -V | tail -n 1)" "$newest"

done_testing
