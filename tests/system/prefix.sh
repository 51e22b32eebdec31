#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# An installed tree that is moved, and a wheel of it: the program, the library and pkg-config find what lies beside them,
# where nobody else could have put it.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
cd "$scratch" || exit 99
umask 022
chmod 755 .
built=$ZEROTH_PLUGIN_PATH configured=$(sed -n "s/^prefix = //p" "$ZR_BUILDDIR/Makefile")

env -u MAKEFLAGS -u MFLAGS -u MAKELEVEL -u MAKE_TERMOUT make -s -C "$ZR_BUILDDIR" install DESTDIR="$PWD/root" > install.out 2>&1
ok 'it is installed below DESTDIR' test -x "root$configured/bin/zeroth"
is '... without files of libtool' "$(find root -name '*.la')" ''
for shell in bash:bash-completion/completions/zeroth zsh:zsh/site-functions/_zeroth fish:fish/vendor_completions.d/zeroth.fish; do
	is "... with what completes words for ${shell%%:*}" "$(cat "root$configured/share/${shell#*:}")" "$("$ZEROTH" completion "${shell%%:*}")"
done
wheel=no
if [ -z "$ZR_SANITIZE" ] && command -v python3 patchelf strip readelf dpkg >/dev/null; then
	library=$(dirname "$(find "root$configured" -name libzeroth.so.0)") library=${library#root}
	python3 "$ZR_SRCDIR/packaging/wheel.py" --stage "$PWD/root" --prefix "$configured" --bindir "$configured/bin" \
		--libdir "$library" --pkgdata "$configured/share/zeroth" --version 1.2.3 --source "$ZR_SRCDIR" \
		--work work --out . > wheel.out 2>&1
	like 'a wheel is made of it' "$(ls ./*.whl; cat wheel.out)" '^\./zeroth-1\.2\.3-py3-none-manylinux_2_[0-9]*_'"$(uname -m)"'\.whl'
	wheel=yes
fi
mv "root$configured" moved && rm -rf root
top=$(pwd -P)/moved

seq 1 20000 > digits.txt
{
	printf '[data]\nplugin = text\npath = digits.txt\n'
	printf '[train]\nsteps = 3\ntrain_batch_size = 2\nmicro_batch_size = 2\nsequence_length = 16\n'
	printf '[model]\nplugin = gpt2\nlayers = 1\nwidth = 16\nheads = 2\ncontext = 16\n'
} > small.ini
want=$("$ZEROTH" train small.ini -o run.dir=built 2>&1 | grep '^digest')
like 'the tree in which it was built trains' "$want" '^digest: '

unset ZEROTH_PLUGIN_PATH ZEROTH_DATA_PATH
zeroth=$top/bin/zeroth
is 'the moved program trains to the same digest' "$("$zeroth" train small.ini -o run.dir=run 2>&1 | grep '^digest')" "$want"
ok '... and samples' "$zeroth" sample run --prompt 1
like '... it loads its own plugins' "$("$zeroth" plugin info optimizer/adamw)" "file +$top/lib[^ ]*/zeroth/optimizer/adamw.so"
ok '... and writes a plugin from its own templates' "$zeroth" plugin new scheduler mine
ln -s "$zeroth" link
like '... by a link, too' "$(./link plugin info optimizer/adamw)" "file +$top/"

# ---- a wheel, unpacked as pip does ----
if [ $wheel = no ]; then
	skip 'a wheel' 'sanitizers, or no patchelf or dpkg'
else
	python3 - ./*.whl <<'END'
import base64, csv, hashlib, io, os, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as z:
    names = [i.filename for i in z.infolist()]
    for i in z.infolist():
        os.chmod(z.extract(i, "site"), i.external_attr >> 16 & 0o777)
    record = "zeroth-1.2.3.dist-info/RECORD"
    listed = list(csv.reader(io.StringIO(z.read(record).decode())))
wrong = [n for n, digest, size in listed[:-1] if "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(
    open("site/" + n, "rb").read()).digest()).decode().rstrip("=") != digest or os.stat("site/" + n).st_size != int(size)]
print("record", [r[0] for r in listed] == names and not wrong, file=open("record", "w"))
END
	is 'its record is right' "$(cat record)" 'record True'
	inside=$PWD/site/zeroth/_prefix
	is 'its command trains to the same digest' "$("$inside/bin/zeroth" train small.ini -o run.dir=wheel 2>&1 | grep '^digest')" "$want"
	is '... as its library does, without another' "$(cd site && PYTHONDONTWRITEBYTECODE=1 python3 -c 'import zeroth
print(zeroth._lib._name, zeroth.prefix)' 2>&1)" "$(realpath "$inside")/lib/libzeroth.so.0 $(realpath "$inside")"
	is 'nothing of this machine is left in it' "$(find site -name '*.so*' -o -name zeroth -path '*bin*' -type f | while read -r f; do
		readelf -d "$f" | grep -E 'R(UN)?PATH' | grep -v '\[\$ORIGIN[/.a-z0-9_-]*\]'
		ldd "$f" | grep -E '=> (/|not found)' | grep -vE "=> $(realpath site)|=> [^ ]*/(lib(c|m|gcc_s)|ld-linux[^ ]*)\.so"
	done)" ''
	is 'what travels has its licence' "$(find site/zeroth/_prefix/lib/beside -type f | wc -l)" "$(find site/*.dist-info/licenses -name copyright | wc -l)"
	is 'the import says what to do without a library' "$(rm -rf site/zeroth/_prefix; cd site && LD_LIBRARY_PATH='' python3 -c 'import zeroth' 2>&1 | grep -c 'ImportError: the package zeroth needs the library libzeroth: .*: cannot open shared object file.*pip install the wheel')" 1
fi

# ---- what builds against it ----
library=$(dirname "$(find "$top" -name libzeroth.so.0 | head -n 1)")
export PKG_CONFIG_LIBDIR=$library/pkgconfig PKG_CONFIG_PATH=
is 'pkg-config finds the moved headers' "$(realpath "$(pkg-config --variable=includedir zeroth-plugin)")" "$top/include"
is '... the library' "$(realpath "$(pkg-config --variable=libdir zeroth)")" "$library"
is '... and the directory of plugins' "$(realpath "$(pkg-config --variable=plugindir zeroth-plugin)")" "$library/zeroth"
if [ -n "$ZR_SANITIZE" ]; then
	skip 'a program with the moved library trains' 'sanitizers'
	skip 'Python finds the moved library' 'sanitizers'
else
	# shellcheck disable=SC2046
	${CC:-cc} -std=c11 -O2 -o embed "$ZR_SRCDIR/tests/examples/embed_train.c" $(pkg-config --cflags --libs zeroth) -Wl,-rpath,"$library"
	is 'a program with the moved library trains to the same digest' "$(./embed 1 small.ini 2>&1)" "$want"
	if command -v python3 > /dev/null; then
		is 'Python finds the moved library' \
			"$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$top/share/zeroth/python python3 -c 'import zeroth; print(zeroth._lib._name)')" \
			"$(realpath "$library/libzeroth.so.0")"
		if [ "$(id -u)" = 0 ]; then
			chown 54321 "$(realpath "$library/libzeroth.so.0")"
			ok '... but not that of a stranger' test "$(PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$top/share/zeroth/python \
				python3 -c 'import zeroth; print(zeroth._lib._name)' 2>&1 | tail -n 1)" != "$(realpath "$library/libzeroth.so.0")"
			chown 0 "$(realpath "$library/libzeroth.so.0")"
		fi
	else
		skip 'Python finds the moved library' 'no python3'
	fi
fi

# ---- a prefix that others can change is not used ----
elsewhere() { "$zeroth" plugin info optimizer/adamw 2>&1; }
refused() { # NAME PATH
	like "$1" "$(elsewhere)" "^zeroth: warning: $2: uid [0-9]+ or others can change it, so that plugins and data are not looked for in"
	like '... and what was configured is' "$(elsewhere | tail -n 1)" "no optimizer plugin 'adamw' in $configured/"
}
if [ -e "$configured/share/zeroth/defaults.ini" ]; then
	skip 'a prefix that others can change' "there is an installation in $configured"
else
	for dir in "$top" "$library/zeroth" "$top/share" "$top/share/zeroth/defaults.ini"; do
		chmod o+w "$dir"
		refused "others write to ${dir#"$top"}" "$dir"
		chmod o-w "$dir"
	done
	if [ "$(id -u)" = 0 ]; then
		chown 54321 "$library/zeroth"
		refused 'a stranger owns the plugins' "$library/zeroth"
		chown -R 54321 "$top"
		like 'a tree of another user, who owns the program as well' "$(elsewhere)" "file +$top/"
		chown -R 0 "$top"
		chmod u+s "$zeroth"
		if [ "$(setpriv --reuid=54321 --regid=54321 --clear-groups cat "/proc/self/status" 2> /dev/null | grep -c '^Uid:.54321')" = 1 ]; then
			secure=(setpriv --reuid=54321 --regid=54321 --clear-groups "$zeroth" plugin info optimizer/adamw)
			like 'set-user-id: the configured prefix alone' "$("${secure[@]}" 2>&1 | tail -n 1)" \
				"no optimizer plugin 'adamw' in $configured/"
			# shellcheck disable=SC2016
			hidden=(unshare -m sh -c 'mount -t tmpfs -o mode=700 tmpfs "$0" && exec "$@"' "$configured")
			if "${hidden[@]}" true 2> /dev/null; then
				like '... also where its caller may not look' "$("${hidden[@]}" "${secure[@]}" 2>&1 | tail -n 1)" \
					"no optimizer plugin 'adamw' in $configured/"
			else
				skip '... also where its caller may not look' 'no file system of its own'
			fi
		else
			skip 'set-user-id: the configured prefix alone' 'no setpriv'
		fi
		chmod u-s "$zeroth"
	else
		skip 'a stranger owns the plugins' 'not root'
	fi
fi
like 'the build tree finds its own as before' "$(ZEROTH_PLUGIN_PATH=$built "$ZEROTH" plugin info optimizer/adamw)" "file +$(realpath "$built")"

done_testing
