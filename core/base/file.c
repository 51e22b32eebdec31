/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - see file.h.
 */
#include "core/base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

int zr_dir_open(int at, const char *name, int follow)
{
	int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
	struct stat st;
	if (fd >= 0 || errno != ENOTDIR || follow || fstatat(at, name, &st, AT_SYMLINK_NOFOLLOW))
		return fd;

	errno = S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
	return -1;
}

/* Without O_NONBLOCK opening a FIFO waits for a writer. */
int zr_file_open(int at, const char *name, int follow)
{
	int fd = openat(at, name,
			O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (follow ? 0 : O_NOFOLLOW));
	struct stat st;
	int no = 0;
	if (fd < 0)
		return -1;

	if (fstat(fd, &st))
		no = errno;
	else if (!S_ISREG(st.st_mode))
		no = ENXIO;
	if (!no)
		return fd;

	close(fd);
	errno = no;
	return -1;
}

/* ---- bytes ---- */

int zr_write_all_at(int fd, const void *data, size_t bytes, uint64_t at)
{
	for (const char *p = data; bytes;) {
		ssize_t n = at == ZR_HERE ? write(fd, p, bytes) : pwrite(fd, p, bytes, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? errno : EIO;

		p += n;
		bytes -= (size_t)n;
		if (at != ZR_HERE)
			at += (uint64_t)n;
	}
	return 0;
}

int zr_read_all_at(int fd, void *to, size_t bytes, uint64_t at)
{
	for (char *p = to; bytes;) {
		ssize_t n = pread(fd, p, bytes, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? errno : ENODATA;

		p += n;
		at += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

int zr_file_text(int at, const char *name, int follow, size_t most, char **text, size_t *bytes)
{
	struct stat st;
	int fd = zr_file_open(at, name, follow), no = 0;
	*text = NULL;
	*bytes = 0;
	if (fd < 0 || fstat(fd, &st))
		no = errno;
	else
		*bytes = (size_t)st.st_size;
	if (!no && *bytes > most)
		no = EFBIG;
	if (!no && !(*text = malloc(*bytes + 1)))
		no = ENOMEM;
	if (!no)
		no = zr_read_all_at(fd, *text, *bytes, 0);
	if (fd >= 0)
		close(fd);
	if (!no) {
		(*text)[*bytes] = 0;
		return 0;
	}

	free(*text);
	*text = NULL;
	return no;
}

int zr_file_new(int at, const char *name, const void *data, size_t bytes, int durably)
{
	if (unlinkat(at, name, 0) && errno != ENOENT)
		return errno;

	int fd = openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		return errno;

	int no = zr_write_all_at(fd, data, bytes, ZR_HERE);
	if (!no && durably && fsync(fd))
		no = errno;
	if (close(fd) && !no)
		no = errno;
	return no;
}

int zr_file_put(int at, const char *name, const void *data, size_t bytes)
{
	char *back = NULL;
	size_t n;
	int no = zr_file_new(at, name, data, bytes, 1);
	if (!no)
		no = zr_file_text(at, name, 0, bytes, &back, &n);
	if (!no && (n != bytes || memcmp(back, data, n)))
		no = EIO;
	free(back);
	return no;
}

/* ---- names ---- */

int zr_sync_dir(int at)
{
	/* EINVAL: a file system that cannot, and need not */
	if (fsync(at) && errno != EINVAL)
		return errno;
	return 0;
}

int zr_sync_parent(const char *path)
{
	char copy[PATH_MAX];
	if (snprintf(copy, sizeof copy, "%s", path) >= (int)sizeof copy)
		return ENAMETOOLONG;

	int fd = zr_dir_open(AT_FDCWD, dirname(copy), 1);
	if (fd < 0)
		return errno;

	int no = zr_sync_dir(fd);
	close(fd);
	return no;
}

int zr_remove(int at, const char *name)
{
	struct dirent *e;
	int fd = zr_dir_open(at, name, 0), no = 0;
	if (fd < 0 && (errno == ENOTDIR || errno == ELOOP) && !unlinkat(at, name, 0))
		return 0;
	if (fd < 0)
		return errno;

	DIR *d = fdopendir(fd);
	while (d && (errno = 0, e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") &&
		    unlinkat(fd, e->d_name, 0) && !no)
			no = errno;
	if (!no)
		no = errno;
	if (d)
		closedir(d);
	else
		close(fd);
	if (!no && unlinkat(at, name, AT_REMOVEDIR))
		no = errno;
	return no;
}

int zr_take_name(int at, const char *tmp, const char *name)
{
	int taken = !!renameat2(at, tmp, at, name, RENAME_NOREPLACE);
	if (taken && (errno == EINVAL || errno == ENOSYS)) /* a file system without the flag */
		taken = !!renameat(at, tmp, at, name);
	if (taken && errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR)
		return errno;
	if (taken && renameat2(at, tmp, at, name, RENAME_EXCHANGE))
		return errno;

	int no;
	if (at == AT_FDCWD)
		no = zr_sync_parent(name);
	else
		no = zr_sync_dir(at);
	if (!no && taken)
		zr_remove(at, tmp);
	return no;
}

int zr_file_code(int no)
{
	if (no == ENOMEM)
		return ZR_ENOMEM;
	if (no == ENOENT || no == ENOTDIR || no == EACCES || no == ELOOP || no == ENXIO ||
	    no == ENAMETOOLONG)
		return ZR_EINVAL;
	return ZR_EIO;
}

static const char *file_error(int no)
{
	if (no == ELOOP)
		return "a symbolic link, and none is followed here: give what it points to";
	if (no == ENXIO)
		return "not a regular file";
	if (no == ENODATA)
		return "cut short";
	return strerror(no);
}

int zr_file_failed(struct zr_error *err, const char *path, const char *doing, int no)
{
	int code = ZR_EIO;
	if (no == ENOMEM)
		code = ZR_ENOMEM;
	else if (no == ENOENT || no == ENOTDIR || no == ELOOP || no == ENXIO || no == EFBIG ||
		 no == ENODATA)
		code = ZR_EINVAL;
	return zr_err(err, code, "%s: %s%s%s", path, doing, *doing ? ": " : "", file_error(no));
}
