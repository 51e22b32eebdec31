/* SPDX-License-Identifier: Apache-2.0
 *
 * plain.c - chunks by pread and pwrite, where the system has no io_uring or does not let us.
 */
#include "nvme.h"

#include <errno.h>
#include <unistd.h>

static int transfer(const struct nv_chunk *c)
{
	int fd = c->request->object->fd;
	char *mem = c->mem + c->done;
	size_t bytes = c->bytes - c->done;
	off_t at = (off_t)(c->at + c->done);
	ssize_t n;

	if (c->write)
		n = pwrite(fd, mem, bytes, at);
	else
		n = pread(fd, mem, bytes, at);

	return n < 0 ? -errno : (int)n;
}

void nv_plain_run(struct zr_inst *d)
{
	struct nv_chunk *c;
	uint64_t posts;

	for (;;) {
		if (nv_accept(d))
			return;

		c = nv_next(d);
		if (!c)
			/* blocks until there are some */
			(void)!read(d->event, &posts, sizeof posts);
		else
			while (nv_settle(d, c, transfer(c)))
				;
	}
}
