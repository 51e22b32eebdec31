/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_meeting.c - what comes to the port at which ranks meet (plugins/boot/env/tcp.h). An input is
 * pieces of what three connections send, in their order: of a stranger, or of a rank that has
 * proven itself. A piece is
 *
 *     connection   % 3: which; above 127: it says that it is the rank of the next byte, above 191:
 *                  it is cut, and nothing follows in either
 *     kind         of a frame, or 255: the bytes are no frame
 *     key, value   bytes of each
 */
#include "plugins/boot/env/tcp_server.c" /* its functions have no other door than the network */

#include "fuzz.h"

#define CONNECTIONS 3
#define WORLD       3

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzz_quiet();
	return 0;
}

static struct zt_server *start(void)
{
	struct zt_server *v = calloc(1, sizeof *v);
	fuzz_check(v);
	v->world = WORLD;
	v->listening = v->wake = -1;
	v->all = calloc(WORLD, sizeof *v->all);
	v->by_rank = calloc(WORLD, sizeof *v->by_rank);
	v->table = malloc(sizeof(struct zt_head) + WORLD * sizeof *v->all);
	fuzz_check(v->all && v->by_rank && v->table && make_room(v));
	v->all[0].world = WORLD;
	return v;
}

static struct conn *connect_one(struct zt_server *v)
{
	struct conn *c = calloc(1, sizeof *c);
	fuzz_check(c);
	c->fd = dup(STDERR_FILENO); /* no socket: nothing can be sent */
	c->rank = NOBODY;
	c->since = now();
	memset(c->salt, 'a', ZT_SALT);
	v->conn[v->n_conn++] = c;
	return c;
}

/* What a rank with the right token says. Rank 0 is there first, as in a run. */
static void greet(struct zt_server *v, struct conn *c, int32_t rank)
{
	struct zt_hello hello = { .who = { .rank = rank, .world = WORLD },
				  .salt = "aaaaaaaaaaaaaaaa" };
	struct zt_head head = { ZT_MAGIC, ZT_HELLO, 0, sizeof hello };
	fuzz_check(!zt_prove("rank", v->token, c->salt, hello.proof));
	if (c->got + sizeof head + sizeof hello > sizeof c->in)
		return;
	memcpy(c->in + c->got, &head, sizeof head);
	memcpy(c->in + c->got + sizeof head, &hello, sizeof hello);
	c->got += sizeof head + sizeof hello;
	take_frames(v, c);
}

/* What a socket would bring: as much as there is room for. */
static void receive(struct zt_server *v, struct conn *c, const void *data, size_t n)
{
	const size_t room = sizeof c->in - c->got;
	if (n > room)
		n = room;
	memcpy(c->in + c->got, data, n);
	c->got += n;
	take_frames(v, c);
}

/* What flush and drop_ended do where all is taken at once. */
static void settle(struct zt_server *v)
{
	for (size_t i = 0; i < v->n_conn; i++) {
		struct conn *c = v->conn[i];
		c->out_n = c->sent = 0;
		if (c->table)
			fuzz_check(v->table_bytes ==
				   sizeof(struct zt_head) + WORLD * sizeof *v->all);
		c->table = 0;
	}
	drop_ended(v);
}

static size_t take_piece(struct zt_server *v, const uint8_t *data, size_t size)
{
	const size_t left = size - 4;
	size_t key = data[2] % (MAX_KEY + 8), value = (size_t)data[3] * 24;
	while (v->n_conn < CONNECTIONS)
		connect_one(v);
	struct conn *c = v->conn[data[0] % CONNECTIONS];

	if (data[0] > 191) {
		end_conn(c);
		return 4;
	}
	if (data[0] > 127) {
		if (c->rank == NOBODY && c->fd >= 0)
			greet(v, c, data[1] % (WORLD + 1));
		return 4;
	}

	key = key > left ? left : key;
	value = value > left - key ? left - key : value;
	struct zt_head head = { ZT_MAGIC, data[1] % (ZT_FORGOTTEN + 2), (uint16_t)key,
				(uint32_t)value };
	if (data[1] != 255 && c->fd >= 0)
		receive(v, c, &head, sizeof head);
	if (c->fd >= 0)
		receive(v, c, data + 4, key + value);
	return 4 + key + value;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zt_server *v = start();
	struct conn *first = connect_one(v);
	greet(v, first, 0);
	fuzz_check(first->rank == 0);

	for (size_t at = 0; at + 4 <= size;) {
		at += take_piece(v, data + at, size - at);
		settle(v);
	}
	fuzz_usable += v->table_bytes > 0;
	free_server(v);
	return 0;
}
