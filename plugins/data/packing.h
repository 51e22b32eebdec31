/* SPDX-License-Identifier: Apache-2.0
 *
 * packing.h - which documents share a sequence. A document of n tokens takes n - 1 rows, the last
 * token being a target only; one of more than T + 1 tokens is cut into pieces of T rows, which
 * overlap by a token, so that each token is predicted once. Pieces without a target are left out.
 *
 *   bfd      best fit decreasing: the longest piece first, each into the sequence that it leaves
 *            least room in
 *   wrapped  one document after the other, cut where a sequence is full
 *   none     each piece a sequence of its own
 *
 * Where a piece goes depends on its number of rows only. So what is kept is which sequence has
 * pieces of how many rows, and each epoch gives these places to the pieces of that length in an
 * order by (seed, epoch), as it visits the sequences in one. Nothing else is kept between calls:
 * sequence g of the run, counted over all steps and slots, is visit g % n of epoch g / n.
 */
#ifndef ZR_DATA_PACKING_H
#define ZR_DATA_PACKING_H

#include <zeroth/plugin.h>

enum { PACKING_BFD, PACKING_WRAPPED, PACKING_NONE };
extern const char *const packings[]; /* choices of the option `packing` */

/* Documents [0, n). tokens(): 0 if document d takes no part. targets(): how many of the tokens
 * [from, from + n) of document d are targets. */
struct packing_source {
	int64_t n;
	int64_t (*tokens)(const void *arg, int64_t d);
	int64_t (*targets)(const void *arg, int64_t d, int64_t from, int64_t n);
	const void *arg;
};

struct piece {
	uint32_t document;
	uint32_t from; /* its first row in the document */
	int32_t rows;
	int32_t targets; /* among the tokens that follow its rows */
};

struct packing {
	int64_t length; /* T */
	int64_t n;      /* sequences of an epoch */
	int64_t pieces;
	struct piece *piece;   /* of bfd by falling number of rows */
	uint32_t *place;       /* of bfd: the pieces of each sequence; NULL: as they are */
	uint32_t *first;       /* [n + 1]: of each sequence in `place` */
	uint32_t *longer;      /* of bfd, [T + 1]: pieces that have more than so many rows */
	int64_t rows, targets; /* of all pieces */
	int64_t documents;     /* that take part */
	int64_t longest;       /* tokens of the longest document */
	int64_t cut;           /* documents in more than one piece */
	int64_t unlearned;     /* documents and pieces left out for having no target */
};

/* Packs all documents into sequences of `length` rows: in O(D log T), with about 40 bytes per piece
 * while it works and 20 afterwards. Freed by packing_free, also if it fails. [main] */
int packing_make(const struct zr_host *h, struct packing *p, int kind, int64_t length,
		 const struct packing_source *src);
void packing_free(struct packing *p);
/* Pieces of a document, in order of their rows, to piece[room]; returns how many there are. */
int64_t packing_pieces(const struct packing *p, int64_t document, struct piece *piece,
		       int64_t room);

/* Sequence g of the run; shuffled = 0: in order of the places. [pure] */
struct packing_visit {
	uint64_t key;
	int64_t sequence;
	int shuffled;
};
struct packing_visit packing_visit(const struct packing *p, uint64_t seed, int64_t g, int shuffled);
/* The i-th piece of it, or NULL behind the last. [pure] */
const struct piece *packing_piece(const struct packing *p, const struct packing_visit *v,
				  int64_t i);

#endif
