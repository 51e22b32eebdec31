/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_server.c - the thread of rank 0 that answers all ranks: see tcp.h. It owns all of its data;
 * others only tell it to end.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <search.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_STRANGERS 64   /* connections that have not proven themselves; the oldest one goes */
#define STRANGER_TIME 10.0 /* seconds that they have for it */
#define LEAVE_TIME    10.0 /* seconds that the end waits for the others, */
#define STOP_TIME     1.0  /* and after the run was stopped */
#define NOBODY        (-1)
#define LARGEST       (sizeof(struct zt_head) + MAX_KEY + MAX_VALUE)

struct conn {
	int fd;
	int32_t rank; /* NOBODY: it has not proven itself */
	int waits;    /* ZT_HELLO: for the table; ZT_GET, ZT_FENCE, 0 */
	int left;     /* nothing is expected of it any more */
	int told;     /* that the run is stopped */
	double since;
	char salt[ZT_SALT + 1];
	char key[MAX_KEY + 1]; /* that it waits for */
	size_t got;
	unsigned char in[LARGEST];
	unsigned char *out; /* [out_room] what is to be sent, from `sent` to `out_n` */
	size_t out_n, out_room, sent;
	size_t table_sent; /* of the table, which goes when `out` is empty */
	int table;
};

struct value {
	char key[MAX_KEY + 1];
	uint32_t bytes;
	unsigned char data[];
};

struct zt_server {
	pthread_t thread;
	int listening, wake;
	int32_t world, joined; /* joined: ranks of by_rank */
	char token[ZT_TOKEN + 1];
	struct ze_hello *all;  /* [world] */
	struct conn **by_rank; /* [world] NULL: not here */
	struct conn **conn;    /* [n_conn] */
	struct pollfd *poll;   /* [n_conn + 2] as they were when it began to wait */
	size_t n_conn, room;
	void *values; /* a tree of struct value by key */
	unsigned char *table;
	size_t table_bytes;
	char refused[ZT_TEXT]; /* why somebody last was; "": nobody */
	char stopped[ZT_TEXT]; /* why; "": it goes on */
	double ends;           /* when it gives up waiting for others; 0: nobody has asked */
};

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- sending --------------------------------------------------------------------- */

static void end_conn(struct conn *c)
{
	if (c->fd >= 0)
		close(c->fd);
	c->fd = -1;
}

static void append(struct conn *c, const void *data, size_t n)
{
	if (c->out_n + n > c->out_room) {
		size_t room = 2 * (c->out_n + n);
		unsigned char *larger = realloc(c->out, room);
		if (!larger) {
			end_conn(c);
			return;
		}
		c->out = larger;
		c->out_room = room;
	}

	memcpy(c->out + c->out_n, data, n);
	c->out_n += n;
}

static void answer(struct conn *c, int kind, const void *value, size_t bytes)
{
	struct zt_head head = { .magic = ZT_MAGIC,
				.kind = (uint16_t)kind,
				.bytes = (uint32_t)bytes };
	append(c, &head, sizeof head);
	if (c->fd >= 0 && bytes)
		append(c, value, bytes);
}

static void answer_text(struct conn *c, int kind, const char *text)
{
	answer(c, kind, text, strlen(text));
}

/* Sends as much as is taken. 0: the connection has failed. */
static int send_some(struct conn *c, const unsigned char *data, size_t n, size_t *at)
{
	while (*at < n) {
		ssize_t done = send(c->fd, data + *at, n - *at, MSG_NOSIGNAL);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0)
			return errno == EAGAIN;
		*at += (size_t)done;
	}
	return 1;
}

static int has_output(const struct conn *c)
{
	return c->sent < c->out_n || c->table;
}

/* A table that has begun goes first: nothing may come into its middle. */
static void flush(const struct zt_server *v, struct conn *c)
{
	if (!c->table_sent) {
		if (!send_some(c, c->out, c->out_n, &c->sent))
			end_conn(c);
		if (c->fd < 0 || c->sent < c->out_n)
			return;

		c->out_n = c->sent = 0;
	}

	if (!c->table)
		return;
	if (!send_some(c, v->table, v->table_bytes, &c->table_sent))
		end_conn(c);
	if (c->table_sent == v->table_bytes)
		c->table = 0, c->table_sent = 0;
}

/* ---- what ranks wait for --------------------------------------------------------- */

/* Tells all ranks; the first reason stands. */
static void stop_run(struct zt_server *v, const char *why)
{
	if (!*v->stopped)
		snprintf(v->stopped, sizeof v->stopped, "%s", why);
	for (int32_t r = 0; r < v->world; r++) {
		struct conn *c = v->by_rank[r];
		if (!c || c->told || c->left)
			continue;
		answer_text(c, ZT_STOPPED, v->stopped);
		c->told = 1;
		c->waits = 0;
	}
}

static void send_table(struct zt_server *v)
{
	struct zt_head head = { .magic = ZT_MAGIC,
				.kind = ZT_TABLE,
				.bytes = (uint32_t)((size_t)v->world * sizeof *v->all) };
	memcpy(v->table, &head, sizeof head);
	memcpy(v->table + sizeof head, v->all, head.bytes);
	v->table_bytes = sizeof head + head.bytes;
	for (int32_t r = 0; r < v->world; r++) {
		v->by_rank[r]->table = 1;
		v->by_rank[r]->waits = 0;
	}
}

static void end_fence(struct zt_server *v)
{
	for (int32_t r = 0; r < v->world; r++)
		if (!v->by_rank[r] || v->by_rank[r]->waits != ZT_FENCE)
			return;
	for (int32_t r = 0; r < v->world; r++) {
		v->by_rank[r]->waits = 0;
		answer(v->by_rank[r], ZT_DONE, NULL, 0);
	}
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct value *)a)->key, ((const struct value *)b)->key);
}

static const struct value *find_value(struct zt_server *v, const char *key)
{
	struct value wanted;
	snprintf(wanted.key, sizeof wanted.key, "%s", key);
	struct value *const *found = tfind(&wanted, &v->values, by_key);
	return found ? *found : NULL;
}

static void put_value(struct zt_server *v, struct conn *c, const char *key, const void *data,
		      uint32_t bytes)
{
	char why[MAX_KEY + 64];
	if (find_value(v, key)) {
		snprintf(why, sizeof why, "key %s has a value already", key);
		answer_text(c, ZT_REFUSED, why);
		return;
	}

	struct value *x = malloc(sizeof *x + bytes);
	if (x) {
		snprintf(x->key, sizeof x->key, "%s", key);
		x->bytes = bytes;
		memcpy(x->data, data, bytes);
	}
	if (!x || !tsearch(x, &v->values, by_key)) {
		free(x);
		answer_text(c, ZT_REFUSED, "rank 0 has no memory for the value");
		return;
	}

	answer(c, ZT_DONE, NULL, 0);
	for (int32_t r = 0; r < v->world; r++) {
		struct conn *other = v->by_rank[r];
		if (!other || other->waits != ZT_GET || strcmp(other->key, key))
			continue;
		other->waits = 0;
		answer(other, ZT_VALUE, data, bytes);
	}
}

static void get_value(struct zt_server *v, struct conn *c, const char *key)
{
	const struct value *x = find_value(v, key);
	if (x) {
		answer(c, ZT_VALUE, x->data, x->bytes);
		return;
	}
	c->waits = ZT_GET;
	snprintf(c->key, sizeof c->key, "%s", key);
}

/* "rank 1, 3 to join", of what c waits for. */
static void say_missing(const struct zt_server *v, struct conn *c)
{
	char text[400];
	size_t n = 0;
	int named = 0;
	if (c->waits == ZT_GET) {
		snprintf(text, sizeof text, "the key %s", c->key);
		answer_text(c, ZT_WAITING, text);
		return;
	}

	for (int32_t r = 0; r < v->world && n < sizeof text - 40; r++) {
		const struct conn *other = v->by_rank[r];
		if (c->waits == ZT_FENCE ? other && other->waits == ZT_FENCE : other != NULL)
			continue;
		n += (size_t)snprintf(text + n, sizeof text - n, "%s%d", named++ ? ", " : "rank ",
				      r);
	}

	if (c->waits == ZT_FENCE)
		snprintf(text + n, sizeof text - n, " to come to a fence");
	else
		snprintf(text + n, sizeof text - n, " to join%s%s",
			 *v->refused ? "; it has refused one: " : "", v->refused);
	answer_text(c, ZT_WAITING, text);
}

/* ---- who comes ------------------------------------------------------------------- */

static void refuse(struct zt_server *v, struct conn *c, const char *why)
{
	snprintf(v->refused, sizeof v->refused, "%s", why);
	answer_text(c, ZT_REFUSED, why);
	c->left = 1; /* it is closed once that is sent */
}

/* Whether a rank that has proven itself can be one of this run; else why[ZT_TEXT]. */
static int fits(const struct zt_server *v, const struct ze_hello *m, char *why)
{
	const struct ze_hello *mine = &v->all[0];
	if (m->world != v->world)
		snprintf(why, ZT_TEXT,
			 "a rank %d came that is one of %d ranks, where rank 0 is one of %d",
			 m->rank, m->world, v->world);
	else if (m->rank < 0 || m->rank >= v->world || !memchr(m->host, 0, sizeof m->host))
		snprintf(why, ZT_TEXT, "it says that it is rank %d of %d", m->rank, m->world);
	else if (m->job != mine->job)
		snprintf(why, ZT_TEXT,
			 "rank 0 is of another job of the launcher: give each its own port");
	else if (v->by_rank[m->rank])
		snprintf(why, ZT_TEXT,
			 "rank %d has come already, from %s: give each training its own port",
			 m->rank, v->all[m->rank].host);
	else if (v->table_bytes)
		snprintf(why, ZT_TEXT,
			 "the run has begun, and its rank %d was there: give each training its own "
			 "port",
			 m->rank);
	else
		return 1;
	return 0;
}

static void take_hello(struct zt_server *v, struct conn *c, const struct zt_hello *hello)
{
	char proof[ZT_PROOF], why[ZT_TEXT];
	if (zt_prove("rank", v->token, c->salt, proof) || !zt_is_proof(hello->proof, proof)) {
		refuse(v, c,
		       "its token is not that of rank 0: both have [boot] token, or "
		       "ZEROTH_TOKEN, or neither");
		return;
	}

	if (!fits(v, &hello->who, why)) {
		refuse(v, c, why);
		return;
	}
	if (!memchr(hello->salt, 0, sizeof hello->salt) ||
	    zt_prove("rank 0", v->token, hello->salt, proof)) {
		refuse(v, c, "rank 0 cannot make a proof");
		return;
	}

	c->rank = hello->who.rank;
	c->waits = ZT_HELLO;
	v->all[c->rank] = hello->who;
	v->by_rank[c->rank] = c;
	answer(c, ZT_WELCOME, proof, sizeof proof);
	if (*v->stopped)
		stop_run(v, v->stopped);
	else if (++v->joined == v->world)
		send_table(v);
}

/* ---- frames ---------------------------------------------------------------------- */

static void take_frame(struct zt_server *v, struct conn *c, const struct zt_head *head,
		       const char *key, const unsigned char *value)
{
	char text[ZT_TEXT];
	struct zt_hello hello;
	if (c->rank == NOBODY && (head->kind != ZT_HELLO || head->bytes != sizeof hello)) {
		end_conn(c);
		return;
	}
	if (*v->stopped && c->told && head->kind != ZT_LEAVE)
		return; /* it will read why */

	switch (head->kind) {
	case ZT_HELLO:
		if (c->rank != NOBODY)
			break;
		memcpy(&hello, value, sizeof hello);
		take_hello(v, c, &hello);
		return;
	case ZT_PUT:
		put_value(v, c, key, value, head->bytes);
		return;
	case ZT_GET:
		get_value(v, c, key);
		return;
	case ZT_FORGET:
		c->waits = 0;
		answer(c, ZT_FORGOTTEN, NULL, 0);
		return;
	case ZT_FENCE:
		c->waits = ZT_FENCE;
		end_fence(v);
		return;
	case ZT_ASK:
		if (c->waits)
			say_missing(v, c);
		return;
	case ZT_STOP:
		snprintf(text, sizeof text, "%.*s", (int)head->bytes, (const char *)value);
		stop_run(v, text);
		return;
	case ZT_LEAVE:
		c->left = 1;
		return;
	}
	end_conn(c);
}

/* Takes the frames that are whole out of c->in. */
static void take_frames(struct zt_server *v, struct conn *c)
{
	size_t at = 0;
	while (c->fd >= 0 && c->got - at >= sizeof(struct zt_head)) {
		struct zt_head head;
		char key[MAX_KEY + 1];
		memcpy(&head, c->in + at, sizeof head);
		if (head.magic != ZT_MAGIC || head.key_bytes > MAX_KEY || head.bytes > MAX_VALUE) {
			end_conn(c);
			return;
		}

		size_t size = sizeof head + head.key_bytes + head.bytes;
		if (c->got - at < size)
			break;
		const unsigned char *body = c->in + at + sizeof head;
		snprintf(key, sizeof key, "%.*s", head.key_bytes, (const char *)body);
		take_frame(v, c, &head, key, body + head.key_bytes);
		at += size;
	}

	memmove(c->in, c->in + at, c->got - at);
	c->got -= at;
}

static void read_conn(struct zt_server *v, struct conn *c)
{
	while (c->fd >= 0) {
		ssize_t n = recv(c->fd, c->in + c->got, sizeof c->in - c->got, 0);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n <= 0) {
			end_conn(c);
			return;
		}
		c->got += (size_t)n;
		take_frames(v, c);
	}
}

/* ---- connections ----------------------------------------------------------------- */

/* Makes room for one more that has not proven itself. */
static void limit_strangers(struct zt_server *v)
{
	struct conn *oldest = NULL;
	int n = 0;
	for (size_t i = 0; i < v->n_conn; i++) {
		struct conn *c = v->conn[i];
		if (c->rank != NOBODY || c->fd < 0)
			continue;
		n++;
		if (!oldest)
			oldest = c; /* they are in the order in which they came */
	}

	if (n >= MAX_STRANGERS)
		end_conn(oldest);
}

static int make_room(struct zt_server *v)
{
	if (v->n_conn < v->room)
		return 1;

	size_t room = 2 * v->room + 64;
	struct conn **conn = realloc(v->conn, room * sizeof *conn);
	if (conn)
		v->conn = conn;
	struct pollfd *polled = realloc(v->poll, (room + 2) * sizeof *polled);
	if (polled)
		v->poll = polled;
	if (!conn || !polled)
		return 0;

	v->room = room;
	return 1;
}

static void take_connection(struct zt_server *v)
{
	const int on = 1;
	int fd = accept4(v->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;

	struct conn *c = make_room(v) ? calloc(1, sizeof *c) : NULL;
	if (!c || zt_draw_salt(c->salt)) {
		free(c);
		close(fd);
		return;
	}
	limit_strangers(v);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	c->fd = fd;
	c->rank = NOBODY;
	c->since = now();
	v->conn[v->n_conn++] = c;
	answer(c, ZT_CHALLENGE, c->salt, sizeof c->salt);
	flush(v, c);
}

/* Whether a connection is over; a rank that has not left is missed by all. */
static int is_over(struct zt_server *v, struct conn *c, double at)
{
	char why[ZT_TEXT];
	if (c->fd >= 0 && c->left && !has_output(c))
		end_conn(c);
	if (c->fd >= 0 && c->rank == NOBODY && at - c->since > STRANGER_TIME)
		end_conn(c);
	if (c->fd >= 0)
		return 0;
	if (c->rank == NOBODY)
		return 1;

	v->by_rank[c->rank] = NULL;
	v->joined--;
	if (c->left || *v->stopped)
		return 1;

	snprintf(why, sizeof why, "rank %d on %s has ended, or its connection was cut", c->rank,
		 v->all[c->rank].host);
	stop_run(v, why);
	return 1;
}

static void drop_ended(struct zt_server *v)
{
	double at = now();
	size_t n = 0;
	for (size_t i = 0; i < v->n_conn; i++) {
		struct conn *c = v->conn[i];
		if (!is_over(v, c, at)) {
			v->conn[n++] = c;
			continue;
		}
		free(c->out);
		free(c);
	}

	v->n_conn = n;
}

/* ---- the thread ------------------------------------------------------------------ */

static int wait_for_any(struct zt_server *v)
{
	v->poll[0] = (struct pollfd){ .fd = v->wake, .events = POLLIN };
	v->poll[1] = (struct pollfd){ .fd = v->listening, .events = POLLIN };
	for (size_t i = 0; i < v->n_conn; i++)
		v->poll[i + 2] = (struct pollfd){
			.fd = v->conn[i]->fd,
			.events = (short)(POLLIN | (has_output(v->conn[i]) ? POLLOUT : 0)),
		};
	return poll(v->poll, v->n_conn + 2, 250);
}

static int has_ranks(const struct zt_server *v)
{
	for (int32_t r = 0; r < v->world; r++)
		if (v->by_rank[r])
			return 1;
	return 0;
}

/* Whether its end was asked for, and all ranks have left or were waited for long enough. */
static int has_ended(struct zt_server *v)
{
	uint64_t asked;
	if (v->poll[0].revents && read(v->wake, &asked, sizeof asked) > 0)
		v->ends = now() + (*v->stopped ? STOP_TIME : LEAVE_TIME);
	if (v->ends <= 0)
		return 0;
	return !has_ranks(v) || now() >= v->ends;
}

static void *serve(void *arg)
{
	struct zt_server *v = arg;
	for (;;) {
		wait_for_any(v);
		size_t waited = v->n_conn;
		for (size_t i = 0; i < waited; i++)
			if (v->poll[i + 2].revents)
				read_conn(v, v->conn[i]);
		if (v->poll[1].revents)
			take_connection(v);
		for (size_t i = 0; i < v->n_conn; i++)
			if (v->conn[i]->fd >= 0 && has_output(v->conn[i]))
				flush(v, v->conn[i]);
		drop_ended(v);
		if (has_ended(v))
			return NULL;
	}
}

/* ---- life ------------------------------------------------------------------------ */

static void free_server(struct zt_server *v)
{
	for (size_t i = 0; i < v->n_conn; i++) {
		end_conn(v->conn[i]);
		free(v->conn[i]->out);
		free(v->conn[i]);
	}
	tdestroy(v->values, free);
	if (v->wake >= 0)
		close(v->wake);
	close(v->listening);
	explicit_bzero(v->token, sizeof v->token);
	free(v->all);
	free(v->by_rank);
	free(v->conn);
	free(v->poll);
	free(v->table);
	free(v);
}

/* Signals are for the other threads of the process. */
static int start_thread(struct zt_server *v)
{
	sigset_t all, was;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &was);
	int rc = pthread_create(&v->thread, NULL, serve, v);
	pthread_sigmask(SIG_SETMASK, &was, NULL);
	return rc;
}

struct zt_server *zt_server_start(int listening, const struct ze_hello *mine, const char *token)
{
	const size_t world = (size_t)mine->world;
	struct zt_server *v = calloc(1, sizeof *v);
	if (!v) {
		close(listening);
		return NULL;
	}

	v->listening = listening;
	v->world = mine->world;
	snprintf(v->token, sizeof v->token, "%s", token);
	v->wake = eventfd(0, EFD_CLOEXEC);
	v->all = calloc(world, sizeof *v->all);
	v->by_rank = calloc(world, sizeof *v->by_rank);
	v->table = malloc(sizeof(struct zt_head) + world * sizeof *v->all);
	if (v->wake < 0 || !v->all || !v->by_rank || !v->table || !make_room(v))
		goto failed;

	v->all[0] = *mine;
	errno = start_thread(v);
	if (!errno)
		return v;
failed:
	free_server(v);
	return NULL;
}

void zt_server_end(struct zt_server *v)
{
	const uint64_t one = 1;
	if (!v)
		return;
	if (write(v->wake, &one, sizeof one) < 0)
		pthread_cancel(v->thread);
	pthread_join(v->thread, NULL);
	free_server(v);
}
