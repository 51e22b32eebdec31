/* SPDX-License-Identifier: Apache-2.0
 *
 * forgedmpi.c - preloaded into one rank: what its plugins send to others with MPI_Isend is no
 * message of theirs any more. FORGE says how: `total`, `bytes`, `at`, `rest` or `later` of a piece
 * of a value of boot/mpi, `short` for one that is cut off, `group` of a note of comm/mpi.
 */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/boot/mpi.h"

static int is(const char *how)
{
	const char *forge = getenv("FORGE");
	return forge && !strcmp(forge, how);
}

static void forge_piece(struct zb_piece *p)
{
	if (is("total"))
		p->total = MAX_VALUE + 1;
	else if (is("bytes"))
		p->bytes = p->total = PIECE + 1;
	else if (is("at"))
		p->at = p->total + 1;
	else if (is("rest"))
		p->bytes = p->total + 1;
	else if (is("later"))
		p->at = p->total - 1, p->bytes = 1;
}

/* A note begins with what it says and the group, both int32_t. */
static void forge_note(void *note)
{
	const int32_t group = 1 << 20;
	memcpy((char *)note + sizeof(int32_t), &group, sizeof group);
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
	      MPI_Request *request)
{
	const int is_piece = count == (int)sizeof(struct zb_piece);
	void *copy = malloc((size_t)count); /* for the rest of the process */

	memcpy(copy, data, (size_t)count);
	if (is_piece)
		forge_piece(copy);
	else if (is("group"))
		forge_note(copy);
	return PMPI_Isend(copy, is_piece && is("short") ? count - 1 : count, type, to, tag, comm,
			  request);
}
