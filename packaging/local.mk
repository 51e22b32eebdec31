# SPDX-License-Identifier: Apache-2.0
#
# packaging: a wheel for pip, which carries the command, the library and plugins, and the libraries that they link; and
# what Debian and Docker want at the top of the tree.
EXTRA_DIST += %D%/wheel.py %D%/backend.py pyproject.toml Dockerfile .dockerignore \
	debian/changelog debian/control debian/copyright debian/rules debian/source/format \
	debian/libzeroth-dev.install debian/libzeroth0.install debian/libzeroth0.symbols \
	debian/python3-zeroth.install debian/zeroth-cuda.install debian/zeroth.docs debian/zeroth.install \
	debian/tests/control debian/tests/trains

# zeroth-VERSION-py3-none-manylinux_X_Y_ARCH.whl, in the build directory.
wheel: all
	rm -rf wheel.stage
	$(MAKE) install DESTDIR='$(abs_builddir)/wheel.stage' >/dev/null
	python3 $(srcdir)/%D%/wheel.py --stage '$(abs_builddir)/wheel.stage' --prefix '$(prefix)' \
		--bindir '$(bindir)' --libdir '$(libdir)' --pkgdata '$(pkgdatadir)' --version '$(VERSION)' \
		--source '$(srcdir)' --work '$(abs_builddir)/wheel.work' --out '$(abs_builddir)'
	rm -rf wheel.stage
.PHONY: wheel
