/* SPDX-License-Identifier: Apache-2.0
 *
 * machines.h - trains on several machines, to which a remote shell leads: an agent on each starts
 * and watches its ranks (agent.h), which meet over TCP (boot/env). [main]
 */
#ifndef ZR_TRAIN_RUN_MACHINES_H
#define ZR_TRAIN_RUN_MACHINES_H

#include "train/run/supervise.h"

#define ZR_MACHINES_MOST 1024

/* One of them, as the user named it. */
struct zr_machine_name {
	char host[256]; /* "user@host" for the remote shell */
	int slots;      /* ranks that it takes */
};

struct zr_machines_how {
	const struct zr_machine_name *name; /* [n] */
	int n;
	/* The words that start an agent on a machine: "{host}" in one of them is its name. A name
	 * is added where none has that. */
	char *const *shell;
	int n_shell;
	const char *program; /* zeroth there */
	const char *version; /* which it must have */
	int port;            /* at which ranks meet; 0: one that is free on the first machine */
	/* [n_variables] NAME=value that the ranks get */
	char *const *variable;
	int n_variables;
};

struct zr_machines; /* the machines over several attempts */

/* NULL: no memory. */
struct zr_machines *zr_machines_open(const struct zr_machines_how *how);
void zr_machines_close(struct zr_machines *m);

/* Trains with so many ranks, filling machines in their order, but none that has gone where the
 * others have room; the words are those of a command line. Prints what ranks print. Returns the
 * exit code, and in *end why all have ended, the machine before it. */
int zr_machines_train(struct zr_machines *m, int ranks, char *const *words, int n_words,
		      struct zr_crew_end *end);

#endif
