/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi_value.c - keys and values: each is sent to all ranks in small pieces, and kept by all. How
 * ranks wait for each other.
 */
#include "mpi.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#define REPORT 10.0 /* seconds between lines that say what is missing */
#define PUSH   1.0  /* seconds that a put gives its pieces to leave */

double zb_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void zb_doze(double waited)
{
	double nap = waited * 0.03;
	if (nap > 1e-3)
		nap = 1e-3;
	nanosleep(&(struct timespec){ 0, (long)(nap * 1e9) }, NULL);
}

static struct zb_value *find_value(struct zr_inst *b, const char *key)
{
	struct zb_value *v = b->values;
	while (v && strcmp(v->key, key))
		v = v->next;
	return v;
}

static struct zb_value *make(struct zr_inst *b, const char *key, uint32_t total)
{
	struct zb_value *v = calloc(1, sizeof *v);
	if (!v)
		return NULL;

	snprintf(v->key, sizeof v->key, "%s", key);
	v->total = total;
	v->next = b->values;
	return b->values = v;
}

static int no_memory(struct zr_inst *b)
{
	return zr_fail(b->h, ZR_ENOMEM, "no memory for keys and values");
}

/* Whether a message is a piece, and of that value if it is not the first one. Another build of
 * zeroth may have sent it. */
static int is_sound(const struct zb_piece *p, int bytes, const struct zb_value *v)
{
	if (bytes != (int)sizeof *p || p->total > MAX_VALUE || p->bytes > PIECE)
		return 0;
	if (p->at > p->total || p->bytes > p->total - p->at)
		return 0;

	return !p->at || (v && v->total == p->total && v->have == p->at);
}

/* Takes the pieces that have come. */
static int receive(struct zr_inst *b)
{
	struct zb_piece p = { .total = 0 };
	MPI_Status st;
	int there = 0, bytes = 0;
	while (MPI_Iprobe(MPI_ANY_SOURCE, 0, b->all, &there, &st) == MPI_SUCCESS && there) {
		if (MPI_Recv(&p, sizeof p, MPI_BYTE, st.MPI_SOURCE, 0, b->all, &st) !=
			    MPI_SUCCESS ||
		    MPI_Get_count(&st, MPI_BYTE, &bytes) != MPI_SUCCESS)
			return zr_fail(b->h, ZR_EIO, "MPI cannot receive a value");

		p.key[sizeof p.key - 1] = 0;
		struct zb_value *v = find_value(b, p.key);
		if (!is_sound(&p, bytes, v))
			return zr_fail(b->h, ZR_EIO,
				       "rank %d sent what is no value: do all ranks run the same "
				       "zeroth?",
				       st.MPI_SOURCE);

		if (!p.at)
			v = make(b, p.key, p.total);
		if (!v)
			return no_memory(b);

		memcpy(v->data + p.at, p.data, p.bytes);
		v->have = p.at + p.bytes;
		b->got[st.MPI_SOURCE] += v->have == v->total;
	}

	return 0;
}

static int left(struct zb_sending *s)
{
	int done = 1;
	return MPI_Testall(s->n, s->req, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS || done;
}

static struct zb_sending *make_sending(struct zr_inst *b, int pieces)
{
	struct zb_sending *s = calloc(1, sizeof *s);
	if (s)
		s->req = calloc((size_t)(pieces * b->info.world), sizeof *s->req);
	if (!s || !s->req) {
		free(s);
		return NULL;
	}

	s->next = b->sendings;
	return b->sendings = s;
}

static int send_all(struct zr_inst *b, const char *key, const char *value, uint32_t bytes)
{
	int pieces = 1;

	if (bytes)
		pieces = (int)((bytes + PIECE - 1) / PIECE);
	double start = zb_now(), waited = 0;
	struct zb_sending *s = make_sending(b, pieces);
	if (!s)
		return no_memory(b);

	for (int k = 0; k < pieces; k++) {
		struct zb_piece *p = &s->piece[k];
		snprintf(p->key, sizeof p->key, "%s", key);
		p->total = bytes;
		p->at = (uint32_t)k * PIECE;
		p->bytes = bytes - p->at;
		if (p->bytes > PIECE)
			p->bytes = PIECE;
		memcpy(p->data, value + p->at, p->bytes);
		for (int32_t r = 0; r < b->info.world; r++)
			if (r != b->info.rank && MPI_Isend(p, sizeof *p, MPI_BYTE, r, 0, b->all,
							   &s->req[s->n++]) != MPI_SUCCESS)
				return zr_fail(b->h, ZR_EIO, "MPI cannot send a value");
	}

	for (; !left(s) && waited < PUSH; waited = zb_now() - start)
		zb_doze(waited);

	return 0;
}

int zb_put(struct zr_inst *b, const char *key, const void *value, uint64_t bytes)
{
	if (strlen(key) >= MAX_KEY || bytes > MAX_VALUE)
		return zr_fail(b->h, ZR_EINVAL, "key %s: %llu bytes are too many", key,
			       (unsigned long long)bytes);

	int rc = receive(b);
	if (rc)
		return rc;
	if (find_value(b, key))
		return zr_fail(b->h, ZR_ESTATE, "key %s has a value already", key);

	struct zb_value *v = make(b, key, (uint32_t)bytes);
	if (!v)
		return no_memory(b);

	memcpy(v->data, value, bytes);
	v->have = v->total;
	b->put++;
	if (b->info.world > 1)
		return send_all(b, key, value, (uint32_t)bytes);

	return 0;
}

/* A report every 10 s; fails at the timeout. */
static int still_waiting(struct zr_inst *b, double start, double *said, double timeout,
			 const char *what)
{
	double now = zb_now();
	if (now - start >= timeout)
		return zr_fail(b->h, ZR_EPEER, "timeout: waited %.0f s for %s", now - start, what);
	if (now - *said >= REPORT) {
		*said = now;
		zr_log(b->h, ZR_LOG_WARN, "waited %.0f s for %s", now - start, what);
	}

	zb_doze(now - start);
	return 0;
}

int zb_get(struct zr_inst *b, const char *key, void *value, uint64_t bytes, double timeout)
{
	double start = zb_now(), said = start;
	char what[MAX_KEY + 16];
	struct zb_value *v;
	int rc = receive(b);

	snprintf(what, sizeof what, "the key %s", key);
	while (!rc && (!(v = find_value(b, key)) || v->have < v->total)) {
		rc = still_waiting(b, start, &said, timeout, what);
		if (!rc)
			rc = receive(b);
	}

	if (rc)
		return rc;
	if (v->total != bytes)
		return zr_fail(b->h, ZR_EINVAL, "key %s holds %u bytes, not %llu", key, v->total,
			       (unsigned long long)bytes);

	memcpy(value, v->data, bytes);
	return 0;
}

/* "rank 1, 3 at a fence", those whose values are not all here; "" if there are none */
static void behind(const struct zr_inst *b, char *out, size_t room)
{
	size_t n = 0;

	out[0] = 0;
	for (int32_t r = 0; r < b->info.world && n < room; r++)
		if (r != b->info.rank && b->got[r] < b->wanted[r])
			n += (size_t)snprintf(out + n, room - n, "%s%d",
					      n ? ", " : "values of rank ", r);
}

/* All say how many values they have published; then those must come here. */
int zb_fence(struct zr_inst *b, double timeout)
{
	double start = zb_now(), said = start;
	char what[200] = "";
	MPI_Request req;
	int done = 0, rc = 0;

	if (b->info.world == 1)
		return 0;
	if (MPI_Iallgather(&b->put, 1, MPI_UINT64_T, b->wanted, 1, MPI_UINT64_T, b->all, &req) !=
	    MPI_SUCCESS)
		return zr_fail(b->h, ZR_EIO, "MPI_Iallgather failed");

	while (!rc && MPI_Test(&req, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && !done) {
		rc = receive(b);
		if (!rc)
			rc = still_waiting(b, start, &said, timeout,
					   "all ranks to come to a fence");
	}

	while (!rc && (rc = receive(b)) == 0 && (behind(b, what, sizeof what), *what))
		rc = still_waiting(b, start, &said, timeout, what);

	return rc;
}

void zb_free_values(struct zr_inst *b)
{
	while (b->values) {
		struct zb_value *v = b->values;
		b->values = v->next;
		free(v);
	}

	while (b->sendings) {
		struct zb_sending *s = b->sendings;
		b->sendings = s->next;
		if (left(s)) { /* otherwise MPI still reads it */
			free(s->req);
			free(s);
		}
	}
}
