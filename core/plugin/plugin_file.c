/* SPDX-License-Identifier: Apache-2.0
 *
 * plugin_file.c - checks of a file that is about to be loaded. Loading is running code: whoever can
 * write the file can act as the user, so files that others can write are refused. A file that ends
 * too early would fail as a crash inside the dynamic linker, so it is refused by name.
 */
#define _GNU_SOURCE
#include "core/plugin/plugin_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int check_owner(const char *path, const struct stat *st, struct zr_error *err)
{
	char dir[PATH_MAX];
	struct stat up;
	if (st->st_mode & S_IWOTH)
		return zr_err(err, ZR_EINVAL,
			      "mode is %04o, writable by others; run chmod o-w on it",
			      st->st_mode & 07777);
	snprintf(dir, sizeof dir, "%s", path);
	if (stat(dirname(dir), &up))
		return zr_err(err, ZR_EINVAL, "its directory: %s", strerror(errno));
	if ((up.st_mode & S_IWOTH) && !(up.st_mode & S_ISVTX))
		return zr_err(err, ZR_EINVAL, "its directory's mode is %04o, writable by others; "
			      "run chmod o-w on it", up.st_mode & 07777);
	return 0;
}

static uint64_t end_of(uint64_t at, uint64_t bytes)
{
	return bytes < UINT64_MAX - at ? at + bytes : UINT64_MAX - 1;
}

/* How many of the n bytes at `at` there are, with errno 0; -1 with another one. No file reaches
 * beyond 2^63. */
static ssize_t read_at(int fd, void *to, size_t n, uint64_t at)
{
	size_t have = 0;
	ssize_t r = 1;
	while (have < n && r && (r > 0 || errno == EINTR)) {
		r = pread(fd, (char *)to + have, n - have, (off_t)(at + have));
		have += r > 0 ? (size_t)r : 0;
	}
	errno = r < 0 && errno != EINVAL ? errno : 0;
	return errno ? -1 : (ssize_t)have;
}

/* End of what the headers promise, in bytes; UINT64_MAX if the program headers cannot be read, with
 * errno 0 if they end too early. */
static uint64_t promised(int fd, const ElfW(Ehdr) *h)
{
	uint64_t end = end_of(h->e_shoff, (uint64_t)h->e_shnum * h->e_shentsize);
	for (int i = 0; i < h->e_phnum; i++) {
		ElfW(Phdr) p;
		uint64_t at = h->e_phoff + (uint64_t)i * sizeof p;
		if (read_at(fd, &p, sizeof p, at) != sizeof p)
			return UINT64_MAX;
		uint64_t last = p.p_type == PT_LOAD ? end_of(p.p_offset, p.p_filesz) : 0;
		end = last > end ? last : end;
	}
	return end;
}

static int check_elf(int fd, uint64_t size, struct zr_error *err)
{
	ElfW(Ehdr) h = { 0 };
	ssize_t n = read_at(fd, &h, sizeof h, 0);
	if (n < 0)
		return zr_err(err, ZR_EIO, "cannot read it: %s", strerror(errno));
	if (n < SELFMAG || memcmp(h.e_ident, ELFMAG, SELFMAG))
		return zr_err(err, ZR_EINVAL, "not an ELF file; a plugin is a shared object");
	if (n == sizeof h && h.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32))
		return 0; /* dlopen says it best */
	uint64_t end = n == sizeof h ? promised(fd, &h) : sizeof h;
	if (end == UINT64_MAX && errno)
		return zr_err(err, ZR_EIO, "cannot read its program headers: %s", strerror(errno));
	if (end == UINT64_MAX)
		return zr_err(err, ZR_EINVAL, "truncated: %llu bytes end within its program "
			      "headers; copy or build it again", (unsigned long long)size);
	return end <= size ? 0 : zr_err(err, ZR_EINVAL, "truncated: it has %llu bytes and its "
					"headers promise %llu; copy or build it again",
					(unsigned long long)size, (unsigned long long)end);
}

int zr_plugin_file_check(const char *path, struct zr_error *err)
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
	if (fd < 0 || fstat(fd, &st))
		rc = zr_err(err, ZR_EINVAL, "%s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		rc = zr_err(err, ZR_EINVAL, "not a regular file");
	rc = rc ? rc : check_owner(path, &st, err);
	rc = rc ? rc : check_elf(fd, (uint64_t)st.st_size, err);
	if (fd >= 0)
		close(fd);
	return rc;
}
