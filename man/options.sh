#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# options.sh ZEROTH PLUGINS PAGE: writes the options of core and of the plugins in PLUGINS/<role>/
# between the marks of PAGE. `make man-options` calls it; tests/system/commands.sh fails if the page
# is out of date.
set -e
zeroth=$1 plugins=$2 page=$3
roles=$(dirname "$0")/../core/plugin/roles.def
export ZEROTH_PLUGIN_PATH=$plugins
{
	sed '/^\.\\" BEGIN OPTIONS/q' "$page"
	"$zeroth" plugin info --mdoc
	for role in $(sed -n 's/^ROLE(\([a-z]*\),.*/\1/p' "$roles"); do
		for so in "$plugins/$role"/*.so; do
			[ ! -e "$so" ] || "$zeroth" plugin info --mdoc "$role/$(basename "$so" .so)"
		done
	done
	sed -n '/^\.\\" END OPTIONS/,$p' "$page"
} >"$page.new"
gone=$(comm -23 <(grep '^\.Ss "' "$page" | sort) <(grep '^\.Ss "' "$page.new" | sort))
if [ -n "$gone" ]; then
	echo "options.sh: this build has no $gone; configure with what they need" \
		"(--with-mpi, --with-pmix, --with-cuda), or take them out of $page" >&2
	rm "$page.new"
	exit 1
fi
cat "$page.new" >"$page"
rm "$page.new"
