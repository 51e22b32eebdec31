#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# What debian/ and the Dockerfile say of this tree is so: versions, symbols, libraries, and every file that is installed is
# in one package.
. "${ZR_SRCDIR:-.}/tests/lib/tap.sh" || exit 99
of_texts
cd "${ZR_SRCDIR:-.}" || exit 99

version=$(sed -n 's/^AC_INIT(\[zeroth\], \[\(.*\)\])$/\1/p' configure.ac)
is 'debian/changelog has the version' "$(sed -n '1s/^zeroth (\([^)]*\)) .*/\1/p' debian/changelog)" "$version"
is 'the symbols have the versions of the library' "$(sed -n 's/^ (symver)\([^ ]*\) .*/\1/p' debian/libzeroth0.symbols | sort)" \
	"$(sed -n 's/^\(ZEROTH_[0-9.]*\) {$/\1/p' embed/zeroth.map | sort)"

# ./setup installs what building and testing need.
libraries() { grep -oE '\blib[a-z0-9+-]+-dev\b|\bzlib1g-dev\b' | sort -u; }
is 'Build-Depends has the libraries of setup' "$(sed -n '/^Build-Depends/,/^Standards/p' debian/control | libraries)" \
	"$(sed -n "/^packages='/,/'\$/p" setup | libraries | grep -v cmocka)"
packages=$(sed -n 's/^Package: //p' debian/control | sort)
is 'each package has its files' "$(for f in debian/*.install; do f=${f#debian/} && echo "${f%.install}"; done | sort)" "$packages"
is 'the Dockerfile installs packages that there are' "$(grep -oE '/tmp/[a-z0-9-]+_\*' Dockerfile | sed 's|/tmp/||; s/_.*//' |
	grep -vxF "$packages")" ''


# Pages of the manual, which several packages share.
listed=$(sed -nE 's|^usr/share/man/(man7/)?||p' debian/*.install)
for page in man/*.[0-9]; do
	page=${page#man/}
	n=$(grep -cxE "man${page##*.}|${page//./\\.}" <<<"$listed")
	[ "$n" = 1 ] || echo "$page is in $n packages"
done >"$scratch/pages"
is 'every page of the manual is in one package' "$(cat "$scratch/pages")" ''
is 'the archive of sources has all of debian/' "$(git ls-files debian 2>/dev/null | sort)" \
	"$(git ls-files debian 2>/dev/null | while read -r f; do grep -ohE "(^|[[:space:]])${f//./\\.}([[:space:]]|\$)" packaging/local.mk | tr -d ' \t\\'; done | sort)"
done_testing
