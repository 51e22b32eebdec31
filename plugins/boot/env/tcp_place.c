/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_place.c - where rank 0 listens, and the secret: from options, else from what launchers say.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Ports that nobody else is likely to want, below those that systems give to connections. */
#define FIRST_PORT 20000
#define PORTS      10000

int zt_first_host(const char *list, char *out, size_t room)
{
	size_t plain = strcspn(list, "[,");
	if (list[plain] != '[') {
		snprintf(out, room, "%.*s", (int)plain, list);
		return plain > 0;
	}

	/* the first number keeps its zeros; what is behind the brackets belongs to the name */
	const char *number = list + plain + 1, *close = strchr(number, ']');
	if (!close)
		return 0;

	snprintf(out, room, "%.*s%.*s%.*s", (int)plain, list, (int)strcspn(number, "-,]"), number,
		 (int)strcspn(close + 1, "[,"), close + 1);
	return 1;
}

/* ---- the port -------------------------------------------------------------------- */

static int is_yes(const char *text)
{
	return text && (!strcasecmp(text, "true") || !strcmp(text, "1"));
}

/* MASTER_PORT, or the next one where torchrun's own store listens there. */
static int take_master_port(const struct zr_host *h, const char *text, struct zt_place *out)
{
	char *end;
	long port = strtol(text, &end, 10);
	if (*end || port < 1 || port > 65534)
		return zr_fail(h, ZR_EINVAL, "MASTER_PORT=%s is not a port from 1 to 65534", text);

	port += is_yes(getenv("TORCHELASTIC_USE_AGENT_STORE"));
	snprintf(out->port, sizeof out->port, "%ld", port);
	return 0;
}

/* Jobs of Slurm say no port. Each has another one, and so has each of its steps. */
static int take_slurm_port(struct zt_place *out)
{
	const char *job = getenv("SLURM_JOB_ID"), *step = getenv("SLURM_STEP_ID");
	if (!job)
		return 0;

	unsigned long number = strtoul(job, NULL, 10) * 7 + (step ? strtoul(step, NULL, 10) : 0);
	snprintf(out->port, sizeof out->port, "%lu", FIRST_PORT + number % PORTS);
	return 1;
}

static int find_port(const struct zr_host *h, const struct env_opts *o, struct zt_place *out)
{
	const char *master = getenv("MASTER_PORT");
	if (o->port) {
		snprintf(out->port, sizeof out->port, "%u", (unsigned)o->port);
		return 0;
	}
	if (master && *master)
		return take_master_port(h, master, out);
	if (take_slurm_port(out))
		return 0;
	return zr_fail(h, ZR_EINVAL,
		       "nothing says on which port ranks meet: set MASTER_PORT, or [boot] port, or "
		       "give a `directory` that all of them see");
}

/* ---- the host -------------------------------------------------------------------- */

static int find_place(const struct zr_host *h, const struct env_opts *o, struct zt_place *out)
{
	const char *master = getenv("MASTER_ADDR"), *nodes = getenv("SLURM_STEP_NODELIST");
	if (o->address && *o->address)
		snprintf(out->host, sizeof out->host, "%s", o->address);
	else if (master && *master)
		snprintf(out->host, sizeof out->host, "%s", master);
	else if (!nodes || !zt_first_host(nodes, out->host, sizeof out->host))
		return zr_fail(h, ZR_EINVAL,
			       "nothing says where rank 0 is: set MASTER_ADDR, or [boot] address, "
			       "or give a `directory` that all ranks see");
	return find_port(h, o, out);
}

/* ---- the secret ------------------------------------------------------------------ */

static int read_token_file(const struct zr_host *h, const char *path, char token[ZT_TOKEN + 1])
{
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st)) {
		int why = errno;
		if (fd >= 0)
			close(fd);
		return zr_fail(h, ZR_EINVAL, "token %s: %s", path, strerror(why));
	}

	if (!S_ISREG(st.st_mode) || st.st_mode & 077) {
		close(fd);
		return zr_fail(h, ZR_EINVAL,
			       "token %s: its mode is %04o, and others may read it or it is no "
			       "regular file: run chmod 600 on it",
			       path, (unsigned)st.st_mode & 07777);
	}

	ssize_t n = read(fd, token, ZT_TOKEN + 1);
	close(fd);
	if (n < 0)
		return zr_fail(h, ZR_EIO, "token %s: %s", path, strerror(errno));
	if (n > ZT_TOKEN)
		return zr_fail(h, ZR_EINVAL, "token %s: it is longer than %d letters", path,
			       ZT_TOKEN);

	token[n] = 0;
	token[strcspn(token, "\r\n")] = 0;
	if (!*token)
		return zr_fail(h, ZR_EINVAL, "token %s: its first line is empty", path);
	return 0;
}

static int read_token(const struct zr_host *h, const struct env_opts *o, char token[ZT_TOKEN + 1])
{
	const char *given = getenv("ZEROTH_TOKEN");
	*token = 0;
	if (o->token && *o->token)
		return read_token_file(h, o->token, token);
	if (!given)
		return 0;
	if (strlen(given) > ZT_TOKEN)
		return zr_fail(h, ZR_EINVAL, "ZEROTH_TOKEN is longer than %d letters", ZT_TOKEN);

	strcpy(token, given);
	return 0;
}

int zt_find_said(struct zr_inst *b, struct zt_place *place, char *token, int *listening)
{
	(void)listening;
	int rc = find_place(b->h, b->o, place);
	if (rc)
		return rc;
	return read_token(b->h, b->o, token);
}
