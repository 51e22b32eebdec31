/* SPDX-License-Identifier: Apache-2.0
 *
 * mapped.c - see mapped.h.
 */
#include "mapped.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#define WHOLE (INT64_C(256) << 20) /* bytes of all files up to which they are hashed whole */
#define PAGE  4096
#define PAGES 1024 /* of all larger ones together that are hashed instead */

int mapped_take(const struct zr_host *h, const char *name, int fd, struct mapped *m)
{
	struct stat st;
	int rc = ZR_OK;

	if (fstat(fd, &st)) {
		rc = zr_fail(h, ZR_EINVAL, "%s: %s", name, strerror(errno));
	} else if (!S_ISREG(st.st_mode)) {
		rc = zr_fail(h, ZR_EINVAL, "%s: is not a regular file", name);
	} else if (st.st_size == 0) {
		rc = zr_fail(h, ZR_EINVAL, "%s: is empty", name);
	} else {
		void *p = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
		if (p == MAP_FAILED) {
			rc = zr_fail(h, ZR_EIO, "%s: cannot map %lld bytes: %s", name,
				     (long long)st.st_size, strerror(errno));
		} else {
			m->base = p;
			m->bytes = st.st_size;
		}
	}

	close(fd);
	return rc;
}

int mapped_open(const struct zr_host *h, const char *name, struct mapped *m)
{
	int fd = open(name, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return zr_fail(h, ZR_EINVAL, "%s: %s", name, strerror(errno));
	return mapped_take(h, name, fd, m);
}

void mapped_close(struct mapped *m)
{
	if (m->base)
		munmap((void *)m->base, (size_t)m->bytes);
	m->base = NULL;
}

/* Of pages evenly over the file, the first and the last among them. */
static uint64_t hash_samples(const struct mapped *m, int64_t pages)
{
	uint64_t hash = 0;
	int64_t i;

	madvise((void *)m->base, (size_t)m->bytes, MADV_RANDOM); /* no page but these is read */
	for (i = 0; i < pages; i++) {
		int64_t at = (m->bytes / PAGE - 1) * i / (pages - 1) * PAGE;
		hash = XXH3_64bits_withSeed(m->base + at, PAGE, hash);
	}

	madvise((void *)m->base, (size_t)m->bytes, MADV_NORMAL);
	return XXH3_64bits_withSeed(m->base + m->bytes - PAGE, PAGE, hash);
}

void mapped_hash(const struct mapped *m, int64_t files, int64_t all, struct file *f)
{
	int64_t pages = PAGES / files > 16 ? PAGES / files : 16;

	f->bytes = m->bytes;
	f->sampled = all > WHOLE && m->bytes > pages * PAGE;
	if (f->sampled)
		f->hash = hash_samples(m, pages);
	else
		f->hash = XXH3_64bits(m->base, (size_t)m->bytes);
}

void mapped_hash_whole(const struct mapped *m, struct zr_data_file *told)
{
	if (!told->sampled || !ZR_HAS(told, struct zr_data_file, whole) || !told->whole)
		return;

	told->hash = XXH3_64bits(m->base, (size_t)m->bytes);
	told->sampled = 0;
}
