/* SPDX-License-Identifier: Apache-2.0
 *
 * mpi.h - parts of the boot plugin `mpi`: who the ranks are, and values that they publish.
 *
 * Ranks are numbered so that those of a node follow each other, whatever order the launcher had;
 * rank 0 is MPI's.
 */
#ifndef ZR_BOOT_MPI_H
#define ZR_BOOT_MPI_H

#include <mpi.h>
#include <stdatomic.h>
#include <zeroth/boot.h>

#if defined(__GNUC__) && !defined(__clang__)
/* MPICH declares MPI_STATUSES_IGNORE as an array it would write */
#pragma GCC diagnostic ignored "-Wstringop-overflow"
#endif

/* name that comm gives MPI_COMM_SELF once MPI_Finalize would hang */
#define BROKEN    "zeroth: broken"
#define MAX_VALUE 4096
#define MAX_KEY   64
#define PIECE     1024 /* bytes of a value per message: small ones leave at once */

/* A value, or some of it on its way. */
struct zb_piece {
	char key[MAX_KEY];
	uint32_t total, at, bytes, rsv;
	char data[PIECE];
};

struct zb_value {
	struct zb_value *next;
	char key[MAX_KEY], data[MAX_VALUE];
	uint32_t total, have;
};

/* Pieces that this rank sends. */
struct zb_sending {
	struct zb_sending *next;
	int n;
	MPI_Request *req;
	struct zb_piece piece[MAX_VALUE / PIECE];
};

struct zr_inst {
	const struct zr_host *h;
	int started;       /* this instance called MPI_Init */
	atomic_int failed; /* this rank does not end well */
	MPI_Comm all;      /* in the order of our ranks */
	struct zr_boot_info info;
	struct zb_value *values;
	struct zb_sending *sendings;
	uint64_t put;     /* values that this rank published */
	uint64_t *got;    /* [world] complete values of each rank that came here */
	uint64_t *wanted; /* [world] scratch of a fence */
};

/* mpi_value.c */
double zb_now(void);
void zb_doze(double waited); /* sleeps for some part of what was waited already, at most 1 ms */
int zb_put(struct zr_inst *b, const char *key, const void *value, uint64_t bytes);
int zb_get(struct zr_inst *b, const char *key, void *value, uint64_t bytes, double timeout);
int zb_fence(struct zr_inst *b, double timeout);
void zb_free_values(struct zr_inst *b);

#endif
