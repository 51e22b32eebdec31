/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin_file.c - checks of a file that is about to be loaded. Loading is running code: whoever can
 * write the file can act as the user, so files that others can write or own are refused. A file
 * that ends too early would fail as a crash inside the dynamic linker, so it is refused by name.
 */
#include "core/plugin/plugin_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/plugin/prefix.h"

/* Whoever owns a file can write to it, whatever its mode says. The owner of the program decides
 * already what runs: with it a build that somebody else made works, as under sudo. */
static int check_owner(const char *what, const struct stat *st, struct zr_error *err)
{
	uid_t owner;
	const uid_t self = geteuid();
	if (zr_owner_is_trusted(st->st_uid, &owner))
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "%s belongs to uid %u, who can change it; the owner must be "
		      "root, you (uid %u) or the owner of zeroth (uid %u): copy the plugin to a "
		      "directory of yours if you trust it",
		      what, (unsigned)st->st_uid, (unsigned)self, (unsigned)owner);
}

static int check_writers(const char *path, const struct stat *st, struct zr_error *err)
{
	char dir[PATH_MAX];
	struct stat up;
	if (st->st_mode & S_IWOTH)
		return zr_err(err, ZR_EINVAL,
			      "mode is %04o, writable by others; run chmod o-w on it",
			      st->st_mode & 07777);

	snprintf(dir, sizeof dir, "%s", path);
	if (stat(dirname(dir), &up))
		return zr_err(err, zr_file_code(errno), "its directory: %s", strerror(errno));
	if ((up.st_mode & S_IWOTH) && !(up.st_mode & S_ISVTX))
		return zr_err(err, ZR_EINVAL,
			      "its directory's mode is %04o, writable by others; "
			      "run chmod o-w on it",
			      up.st_mode & 07777);

	int rc = check_owner("it", st, err);
	if (rc)
		return rc;
	return check_owner("its directory", &up, err);
}

static uint64_t end_of(uint64_t at, uint64_t bytes)
{
	return bytes < UINT64_MAX - at ? at + bytes : UINT64_MAX - 1;
}

/* Finds the end of what the headers promise, in bytes. 0 or errno, ENODATA if the program headers
 * end too early. */
static int find_end(int fd, const ElfW(Ehdr) * h, uint64_t *end)
{
	*end = end_of(h->e_shoff, (uint64_t)h->e_shnum * h->e_shentsize);
	for (int i = 0; i < h->e_phnum; i++) {
		ElfW(Phdr) p;
		int no = zr_read_all_at(fd, &p, sizeof p, h->e_phoff + (uint64_t)i * sizeof p);
		if (no)
			return no == EINVAL ? ENODATA : no; /* no file reaches beyond 2^63 */
		uint64_t last = end_of(p.p_offset, p.p_filesz);
		if (p.p_type == PT_LOAD && last > *end)
			*end = last;
	}
	return 0;
}

static int check_elf(int fd, uint64_t size, struct zr_error *err)
{
	ElfW(Ehdr) h = { 0 };
	size_t n = size < sizeof h ? size : sizeof h;
	uint64_t end = sizeof h;
	int no = zr_read_all_at(fd, &h, n, 0);
	if (no)
		return zr_err(err, ZR_EIO, "cannot read it: %s", strerror(no));
	if (n < SELFMAG || memcmp(h.e_ident, ELFMAG, SELFMAG))
		return zr_err(err, ZR_EINVAL, "not an ELF file; a plugin is a shared object");
	if (n == sizeof h && h.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
		return 0; /* dlopen says it best */
	if (n == sizeof h)
		no = find_end(fd, &h, &end);
	if (no == ENODATA)
		return zr_err(err, ZR_EINVAL,
			      "truncated: %llu bytes end within its program "
			      "headers; copy or build it again",
			      (unsigned long long)size);
	if (no)
		return zr_err(err, ZR_EIO, "cannot read its program headers: %s", strerror(no));
	if (end <= size)
		return 0;
	return zr_err(err, ZR_EINVAL,
		      "truncated: it has %llu bytes and its "
		      "headers promise %llu; copy or build it again",
		      (unsigned long long)size, (unsigned long long)end);
}

int zr_plugin_file_check(const char *path, struct zr_error *err)
{
	struct stat st;
	int fd = zr_file_open(AT_FDCWD, path, 1), rc = 0;
	if (fd < 0 || fstat(fd, &st))
		rc = zr_err(err, zr_file_code(errno), "%s",
			    errno == ENXIO ? "not a regular file" : strerror(errno));
	if (!rc)
		rc = check_writers(path, &st, err);
	if (!rc)
		rc = check_elf(fd, (uint64_t)st.st_size, err);
	if (fd >= 0)
		close(fd);
	return rc;
}
