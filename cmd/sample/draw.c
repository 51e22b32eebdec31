/* SPDX-License-Identifier: Apache-2.0
 *
 * draw.c - see draw.h.
 */
#include "cmd/sample/draw.h"

#include <math.h>
#include <string.h>

/* ---- the likeliest tokens -------------------------------------------------------- */

/* Whether token a comes before token b. */
static int before(const float *x, int32_t a, int32_t b)
{
	return x[a] != x[b] ? x[a] > x[b] : a < b;
}

/* heap[0..n): a token comes behind its two children; repairs the place i. */
static void sift(const float *x, int32_t *heap, int64_t n, int64_t i)
{
	int32_t token = heap[i];

	for (int64_t child; (child = 2 * i + 1) < n; i = child) {
		if (child + 1 < n && before(x, heap[child], heap[child + 1]))
			child++;
		if (!before(x, token, heap[child]))
			break;

		heap[i] = heap[child];
	}

	heap[i] = token;
}

void zr_draw_best(const float *logits, int64_t n, int64_t k, int32_t *best)
{
	for (int64_t i = 0; i < k; i++)
		best[i] = (int32_t)i;
	for (int64_t i = k / 2; i-- > 0;)
		sift(logits, best, k, i);
	for (int64_t i = k; i < n; i++)
		if (before(logits, (int32_t)i, best[0])) {
			best[0] = (int32_t)i;
			sift(logits, best, k, 0);
		}
	for (int64_t last = k - 1; last > 0; last--) {
		int32_t worst = best[0];
		best[0] = best[last];
		best[last] = worst;
		sift(logits, best, last, 0);
	}
}

/* ---- a draw ---------------------------------------------------------------------- */

/* A uniform number in [0, 1) from (seed, i): splitmix64's finaliser (Steele et al. 2014). */
static double uniform(uint64_t seed, uint64_t i)
{
	uint64_t z = seed * 0x9e3779b97f4a7c15u + (i + 1) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return (double)((z ^ z >> 31) >> 11) * 0x1p-53;
}

int32_t zr_draw_token(const struct zr_draw *how, const float *logits, int64_t n, uint64_t i,
		      int32_t *best)
{
	int64_t k = how->top_k && how->top_k < n ? how->top_k : n, few;
	if (how->temperature == 0)
		k = 1;
	double sum = 0, part = 0, top, u;

	zr_draw_best(logits, n, k, best);
	if (how->temperature == 0)
		return best[0];

	top = logits[best[0]];
	for (int64_t j = 0; j < k; j++)
		sum += exp((logits[best[j]] - top) / how->temperature);
	if (how->top_p < 1) {
		for (few = 0; few < k && !(few && part >= how->top_p * sum); few++)
			part += exp((logits[best[few]] - top) / how->temperature);
		k = few;
		sum = part;
	}

	u = uniform(how->seed, i) * sum;
	for (int64_t j = 0; j < k; j++) {
		u -= exp((logits[best[j]] - top) / how->temperature);
		if (u < 0)
			return best[j];
	}

	return best[k - 1];
}

/* ---- stop strings ---------------------------------------------------------------- */

size_t zr_stops_room(const struct zr_stops *s)
{
	size_t most = 1;
	for (int i = 0; i < s->n; i++)
		most = strlen(s->text[i]) > most ? strlen(s->text[i]) : most;
	return most;
}

/* The longest of the strings that what is held ends with, or NULL. */
static const char *complete(const struct zr_stops *s)
{
	const char *longest = NULL;

	for (int i = 0; i < s->n; i++) {
		size_t n = strlen(s->text[i]);
		if (n <= s->n_held && !memcmp(s->held + s->n_held - n, s->text[i], n) &&
		    (!longest || n > strlen(longest)))
			longest = s->text[i];
	}

	return longest;
}

/* Whether some string begins with the bytes that are held from `at` on. */
static int may_begin(const struct zr_stops *s, size_t at)
{
	size_t n = s->n_held - at;
	for (int i = 0; i < s->n; i++)
		if (n < strlen(s->text[i]) && !memcmp(s->held + at, s->text[i], n))
			return 1;
	return 0;
}

static int send(struct zr_stops *s, size_t n, zr_stop_sink *sink, void *arg)
{
	int rc = n ? sink(arg, s->held, n) : 0;
	s->n_held -= n;
	memmove(s->held, s->held + n, s->n_held);
	return rc;
}

int zr_stops_write(struct zr_stops *s, const char *p, size_t n, zr_stop_sink *sink, void *arg,
		   const char **found)
{
	int rc = 0;

	*found = NULL;
	for (size_t i = 0; !rc && i < n; i++) {
		size_t free = 0;
		s->held[s->n_held++] = p[i];
		if ((*found = complete(s))) {
			rc = send(s, s->n_held - strlen(*found), sink, arg);
			s->n_held = 0;
			return rc;
		}

		while (free < s->n_held && !may_begin(s, free))
			free++;
		rc = send(s, free, sink, arg);
	}

	return rc;
}

int zr_stops_end(struct zr_stops *s, zr_stop_sink *sink, void *arg)
{
	return send(s, s->n_held, sink, arg);
}
