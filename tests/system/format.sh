#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Every source file is laid out as .clang-format says, so that `make format` changes nothing.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
of_texts

command -v clang-format-14 > /dev/null || skip_all 'clang-format-14 is not installed'

# sources: those that `make format` works on
sources() {
	local folder
	for folder in bench cmd core embed files include kernels plugins tests train; do
		find "$ZR_SRCDIR/$folder" ! -path '*/cmd/new/templates.c' \
			'(' -name '*.[ch]' -o -name '*.cu' -o -name '*.cuh' -o -name '*.def' ')'
	done
}

badly_laid_out() { xargs clang-format-14 --dry-run -Werror 2>&1 | sed -n 's/: error: code should be clang-formatted.*//p'; }

is 'make format would change nothing' "$(sources | badly_laid_out)" ''

cp "$ZR_SRCDIR/.clang-format" "$scratch"
printf 'int f(void)\n{\n  return 1;\n}\n' > "$scratch/bad.c"
like 'and a badly laid out file is found' "$(echo "$scratch/bad.c" | badly_laid_out)" 'bad.c:'

done_testing
