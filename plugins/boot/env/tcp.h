/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp.h - how ranks of several machines meet where no directory is given: rank 0 listens on a port,
 * a thread of it answers, and every rank, rank 0 too, keeps one connection to it until it leaves.
 *
 *   rank                            rank 0
 *                                   CHALLENGE   a salt
 *   HELLO   who it is, its proof
 *           for that salt, and one
 *           of its own          ->  WELCOME     rank 0's proof for the rank's salt; or REFUSED
 *                                   TABLE       once all are there: the hello of every rank
 *   PUT     key, value          ->  DONE or REFUSED
 *   GET     key                 ->  VALUE       once it is there
 *   FORGET                      ->  FORGOTTEN   no VALUE comes any more; after a GET given up
 *   FENCE                       ->  DONE        once all ranks have come
 *   ASK                         ->  WAITING     who is waited for; while one of these is pending
 *   STOP    why                 ->  STOPPED     why, to all ranks
 *   LEAVE
 *
 * A proof is crypt(3) of the token and a salt that the other side has drawn: who listens in learns
 * neither the token nor a proof that serves again. What follows is not encrypted. A frame is a
 * head, a key and a value; numbers are those of the machine, which are the same everywhere.
 */
#ifndef ZR_BOOT_ENV_TCP_H
#define ZR_BOOT_ENV_TCP_H

#include <pthread.h>

#include "env.h"

#define ZT_MAGIC 0x7a725431u
#define ZT_SALT  16  /* letters */
#define ZT_PROOF 128 /* bytes, with the zero at the end */
#define ZT_TOKEN 256 /* letters at most */
#define ZT_TEXT  1024

enum zt_kind {
	ZT_CHALLENGE = 1,
	ZT_HELLO,
	ZT_WELCOME,
	ZT_REFUSED,
	ZT_TABLE,
	ZT_PUT,
	ZT_GET,
	ZT_FENCE,
	ZT_DONE,
	ZT_VALUE,
	ZT_ASK,
	ZT_WAITING,
	ZT_STOP,
	ZT_STOPPED,
	ZT_LEAVE,
	ZT_FORGET,
	ZT_FORGOTTEN
};

struct zt_head {
	uint32_t magic;
	uint16_t kind, key_bytes; /* the key without a zero at its end */
	uint32_t bytes;           /* of the value */
};

struct zt_hello {
	struct ze_hello who;
	char salt[ZT_SALT + 1];
	char proof[ZT_PROOF];
};

/* Where rank 0 listens. */
struct zt_place {
	char host[1024]; /* names or addresses with blanks between them, one of which leads there */
	char port[8];
};

/* A rank's connection to rank 0. */
struct zt_client {
	int fd;                  /* -1: none */
	pthread_mutex_t sending; /* a whole frame */
	pthread_mutex_t asking;  /* from a request to its reply; and what follows */
	char stopped[ZT_TEXT];   /* why the run is; "": it goes on, as far as this rank was told */
	struct zt_place place;
};

/* tcp_place.c: from the options and what the launcher says; the secret is of a file or of
 * ZEROTH_TOKEN, "" where there is none. */
ze_find zt_find_said;
/* The first of the hosts that Slurm writes as "node[03-05,9],x2". 1, or 0: it names none. */
int zt_first_host(const char *list, char *out, size_t room);

/* tcp_proof.c: 0 or -1 */
int zt_draw_salt(char salt[ZT_SALT + 1]);
/* side: "rank" or "rank 0", so that no proof of one serves the other. */
int zt_prove(const char *side, const char *token, const char *salt, char proof[ZT_PROOF]);
int zt_is_proof(const char *a, const char *b); /* in a time that says nothing of either */

/* tcp_address.c: the addresses of this machine, or of one interface unless it is ""; those of
 * loopback come last. 0 or -1 with errno. */
int zt_list_addresses(const char *interface, struct zt_place *place);

/* tcp_listen.c: a listening socket for rank 0; port: set if place has 0. */
int zt_listen(const struct zr_inst *b, const struct zt_place *place);
/* On all interfaces, or the one of the options. */
int zt_listen_anywhere(const struct zr_host *h, const struct env_opts *o,
		       const struct zt_place *place);

/* Whether all addresses of a name are of loopback: each machine reaches itself there. */
int zt_is_loopback(const char *host);

/* tcp_server.c: answers on `listening`, which it owns, until it is ended. `mine` is rank 0's. NULL:
 * the reason is in errno. */
struct zt_server *zt_server_start(int listening, const struct ze_hello *mine, const char *token);
/* Waits a while for the others to leave, less if one has stopped the run. NULL is fine. */
void zt_server_end(struct zt_server *v);

/* tcp_client.c: what env.c does over a connection. */
int zt_join(struct zr_inst *b); /* fills all and id */
void zt_leave(struct zr_inst *b);
int zt_put(struct zr_inst *b, const char *key, const void *value, uint64_t bytes);
int zt_get(struct zr_inst *b, const char *key, void *value, uint64_t bytes, double timeout);
int zt_fence(struct zr_inst *b, double timeout);
void zt_stop(struct zr_inst *b, const char *why);            /* [any] */
int zt_stopped(struct zr_inst *b, char *why, uint64_t room); /* [any] */

#endif
