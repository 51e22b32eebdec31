/* SPDX-License-Identifier: Apache-2.0
 *
 * pmix.c - boot of ranks that a launcher with PMIx started, as mpirun or srun --mpi=pmix: PMIx
 * says who they are, and carries where rank 0 listens and a secret that it has drawn. The rest is
 * that of boot/env: see plugins/boot/env/tcp.h.
 */
#define _GNU_SOURCE
#include "plugins/boot/env/tcp.h"
#include "plugins/descriptor.h"

#include <errno.h>
#include <netinet/in.h>
#include <pmix.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PLACE "zeroth.place" /* the key: "PORT TOKEN ADDRESS..." */

static pmix_proc_t self; /* of this process, which PMIx starts once */

static int failed(const struct zr_host *h, const char *what, pmix_status_t why)
{
	return zr_fail(h, ZR_EIO, "PMIx cannot say %s: %s", what, PMIx_Error_string(why));
}

/* ---- who this rank is -------------------------------------------------------------- */

/* A number that PMIx knows of the job (rank PMIX_RANK_WILDCARD) or of this process. */
static int get_number(const struct zr_host *h, pmix_rank_t rank, const char *key, int32_t *out)
{
	pmix_proc_t proc = self;
	pmix_value_t *v = NULL;

	proc.rank = rank;
	pmix_status_t rc = PMIx_Get(&proc, key, NULL, 0, &v);
	if (rc != PMIX_SUCCESS)
		return failed(h, key, rc);

	uint32_t number = 0;
	if (v->type == PMIX_UINT32)
		number = v->data.uint32;
	else if (v->type == PMIX_UINT16)
		number = v->data.uint16;
	else
		rc = PMIX_ERR_TYPE_MISMATCH;
	PMIX_VALUE_RELEASE(v);

	if (rc != PMIX_SUCCESS)
		return failed(h, key, rc);

	*out = (int32_t)number;
	return 0;
}

static int take_place(const struct zr_host *h, struct ze_hello *m)
{
	m->rank = (int32_t)self.rank;
	m->job = ze_hash(0, self.nspace);
	int rc = get_number(h, PMIX_RANK_WILDCARD, PMIX_JOB_SIZE, &m->world);
	if (!rc)
		rc = get_number(h, self.rank, PMIX_LOCAL_RANK, &m->local_rank);
	if (!rc)
		rc = get_number(h, PMIX_RANK_WILDCARD, PMIX_LOCAL_SIZE, &m->local_world);
	return rc;
}

/* ---- where rank 0 is --------------------------------------------------------------- */

static int put_text(const struct zr_host *h, char *text)
{
	pmix_value_t v = { .type = PMIX_STRING, .data.string = text };
	pmix_status_t rc = PMIx_Put(PMIX_GLOBAL, PLACE, &v);
	if (rc == PMIX_SUCCESS)
		rc = PMIx_Commit();
	return rc == PMIX_SUCCESS ? 0 : failed(h, "where rank 0 is", rc);
}

/* As rank 0: listens, and tells the others where. */
static int offer(struct zr_inst *b, struct zt_place *place, char *token, int *listening)
{
	struct sockaddr_storage at;
	socklen_t size = sizeof at;
	char text[sizeof place->host + 128], second[ZT_SALT + 1];

	snprintf(place->port, sizeof place->port, "%d", (int)b->o->port);
	if (zt_list_addresses(b->o->interface, place))
		return zr_fail(b->h, ZR_EIO, "cannot list network addresses: %s", strerror(errno));

	*listening = zt_listen_anywhere(b->h, b->o, place);
	if (*listening < 0)
		return *listening;
	if (getsockname(*listening, (struct sockaddr *)&at, &size) || zt_draw_salt(token) ||
	    zt_draw_salt(second))
		return zr_fail(b->h, ZR_EIO, "cannot offer a port: %s", strerror(errno));

	const struct sockaddr_in *four = (const void *)&at;
	const struct sockaddr_in6 *six = (const void *)&at;
	const int port = ntohs(at.ss_family == AF_INET ? four->sin_port : six->sin6_port);
	snprintf(place->port, sizeof place->port, "%d", port);
	strcat(token, second);
	snprintf(text, sizeof text, "%d %s %s", port, token, place->host);
	return put_text(b->h, text);
}

static int is_place(const char *text, struct zt_place *place, char *token)
{
	int used = 0;
	if (sscanf(text, "%7s %256s %n", place->port, token, &used) < 2 || !used)
		return 0;
	return snprintf(place->host, sizeof place->host, "%s", text + used) <
	       (int)sizeof place->host;
}

static int take_offer(struct zr_inst *b, struct zt_place *place, char *token)
{
	pmix_proc_t first = self;
	pmix_value_t *v = NULL;

	first.rank = 0;
	pmix_status_t rc = PMIx_Get(&first, PLACE, NULL, 0, &v);
	if (rc != PMIX_SUCCESS)
		return failed(b->h, "where rank 0 is", rc);

	const int is_sound = v->type == PMIX_STRING && is_place(v->data.string, place, token);
	PMIX_VALUE_RELEASE(v);
	if (!is_sound)
		return zr_fail(b->h, ZR_EIO,
			       "rank 0 says no place to meet: do all ranks run the "
			       "same zeroth?");
	return 0;
}

/* All ranks come here, also after an error of rank 0. */
static int find(struct zr_inst *b, struct zt_place *place, char *token, int *listening)
{
	pmix_info_t collect;
	bool yes = true;
	int rc = b->mine.rank ? 0 : offer(b, place, token, listening);

	PMIX_INFO_CONSTRUCT(&collect);
	PMIX_INFO_LOAD(&collect, PMIX_COLLECT_DATA, &yes, PMIX_BOOL);
	pmix_status_t met = PMIx_Fence(NULL, 0, &collect, 1);
	PMIX_INFO_DESTRUCT(&collect);

	if (!rc && met != PMIX_SUCCESS)
		rc = failed(b->h, "that all ranks are there", met);
	if (rc || !b->mine.rank)
		return rc;
	return take_offer(b, place, token);
}

/* ---- life -------------------------------------------------------------------------- */

/* The launcher kills the others of a rank that ends without PMIx_Finalize, which waits for none. */
static void pmix_destroy(struct zr_inst *b)
{
	ze_destroy(b);
	if (PMIx_Initialized())
		PMIx_Finalize(NULL, 0);
}

static int pmix_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *b = ze_new(h, opts);
	if (!b)
		return ZR_ENOMEM;

	pmix_status_t started = PMIx_Init(&self, NULL, 0);
	int rc = 0;
	if (started != PMIX_SUCCESS)
		rc = zr_fail(h, ZR_EINVAL,
			     "PMIx does not start (%s): start ranks by a launcher that has it, as "
			     "mpirun, prterun or srun --mpi=pmix",
			     PMIx_Error_string(started));

	b->find = find;
	if (!rc)
		rc = take_place(h, &b->mine);
	if (!rc)
		rc = ze_take_ranks(b);
	if (rc) {
		pmix_destroy(b);
		return rc;
	}

	*out = b;
	return 0;
}

static const struct zr_opt opts[] = {
	ZR_OPT(struct env_opts, port, ZR_T_I64, 0, "0", 0, 65535, "",
	       "Where rank 0 listens; 0: on a port that is free, which PMIx tells the others."),
	ZR_OPT(struct env_opts, interface, ZR_T_STR, 0, "", 0, 0, "",
	       "Network interface of rank 0 that it listens on, as eth0. Without one, all."),
	ZR_OPT(struct env_opts, timeout, ZR_T_F64, ZR_O_MIN_OPEN, "300", 0, 1e9, "s",
	       "A rank that waits longer for others to join ends the run, naming them."),
};

PLUGIN(boot, "pmix", &ze_vtbl, .version = "1",
       .summary = "Ranks of a launcher with PMIx, as mpirun or srun --mpi=pmix; they need no MPI.",
       PLUGIN_OPTIONS(struct env_opts, opts), .create = pmix_create, .destroy = pmix_destroy);
