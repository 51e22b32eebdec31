/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_tcp.c - what ranks of comm/tcp send each other (plugins/comm/tcp/tcp.h). This process is
 * rank 0 of three, rank 1 is on its machine, and each kind of operation was posted. An input is the
 * lowest bit of its first byte, whether the ranks of a machine lend each other their memory, and
 * pieces of what the others send:
 *
 *     stream      % 5: of rank 1 the world's, the node's and the notes; of rank 2 the world's and
 *                 the notes. Above 191: it is cut, and nothing follows
 *     kind        % 6, see `enum piece`
 *     n           a number for it
 */
#define _GNU_SOURCE
#include "plugins/comm/tcp/tcp.c" /* its functions have no other door than the network */

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include "fuzz.h"
#include "tests/lib/testhost.h"

#define WORLD   3
#define STREAMS 5
#define BUFFERS 32
#define COUNT   40             /* elements of a small segment */
#define MANY    (LENT / 4)     /* of one that is worth lending */
#define LARGEST (MANY * 4 * 4) /* bytes of a buffer */

/* SOUND: the header of the rank's next operation, or a note of kind n. SPOILT: the same with byte n
 * changed by the next byte. ZEROS: n * 64 bytes of data. RAW: the next n bytes. ADDRESS: where rank
 * 0 has a buffer. READ: n single bytes, which say that what was lent was read. */
enum piece { SOUND, SPOILT, ZEROS, RAW, ADDRESS, READ, PIECES };

static struct zr_host *host;
static const struct tcp_opts opts_of_all = { .timeout = 60, .interface = "" };
static char sent[LARGEST];

static char staging[16 << 20];

/* Of sums, which take long to fill with zeros for each input. */
static void *lend_staging(const struct zr_host *h, uint64_t bytes, const char *what)
{
	(void)h, (void)what;
	fuzz_check(bytes <= sizeof staging);
	return staging;
}

static void keep_staging(const struct zr_host *h, void *p)
{
	(void)h;
	fuzz_check(!p || p == staging);
}

static void cleanup(void)
{
	test_host_free(host);
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzz_quiet();
	host = test_host(1);
	host->alloc = lend_staging;
	host->release = keep_staging;
	host->rank = host->local_rank = 0;
	host->world = WORLD;
	host->local_world = 2;
	atexit(cleanup);
	return 0;
}

/* ---- the ranks ------------------------------------------------------------------- */

struct stream {
	int rank, channel, fd; /* fd: the other end, -1: it is cut */
	uint64_t seq;          /* of the next header */
};

struct world {
	struct zr_inst *c;
	struct stream stream[STREAMS];
	int n_ops, n_buffers;
	struct zr_comm_seg segment[BUFFERS][2];
	void *buffer[BUFFERS]; /* owned: each as large as what comes, so that more is noticed */
};

static void *take_buffer(struct world *w, int64_t elements)
{
	void *buffer = calloc((size_t)elements, 4);
	fuzz_check(buffer && w->n_buffers < BUFFERS);
	w->buffer[w->n_buffers++] = buffer;
	return buffer;
}

static void connect_stream(struct world *w, int i, int rank, int channel)
{
	const int room = 1 << 20;
	int ends[2];
	fuzz_check(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends));
	setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &room, sizeof room);
	w->c->peer[rank].fd[channel] = ends[0];
	w->stream[i] = (struct stream){ rank, channel, ends[1], 1 };
}

static void open_world(struct world *w, int lends)
{
	struct zr_inst *c = w->c = calloc(1, sizeof *c);
	fuzz_check(c);
	c->h = host;
	c->o = &opts_of_all;
	fuzz_check(!take_groups(c, host) && !take_memory(c));
	connect_stream(w, 0, 1, ZR_GROUP_WORLD);
	connect_stream(w, 1, 1, ZR_GROUP_NODE);
	connect_stream(w, 2, 1, NOTES);
	connect_stream(w, 3, 2, ZR_GROUP_WORLD);
	connect_stream(w, 4, 2, NOTES);
	c->lends = lends;
	c->peer[1].pid = getpid();
	c->peer[1].ends = (int)syscall(SYS_pidfd_open, getpid(), 0);
}

static void close_world(struct world *w)
{
	for (int i = 0; i < STREAMS; i++)
		if (w->stream[i].fd >= 0)
			close(w->stream[i].fd);
	tcp_free(w->c);
	for (int i = 0; i < w->n_buffers; i++)
		free(w->buffer[i]);
}

/* ---- what this rank does --------------------------------------------------------- */

/* Elements of the result of `count` ones. */
static int64_t result_of(int32_t kind, int32_t group, int64_t count)
{
	const int32_t ranks = group == ZR_GROUP_NODE ? 2 : WORLD;
	const int is_of_all = kind == ZR_COMM_ALL_GATHER || kind == ZR_COMM_ALL_TO_ALL;
	return is_of_all ? count * ranks : count;
}

static void post(struct world *w, int32_t kind, int32_t group, int64_t count)
{
	struct zr_comm_seg *seg = w->segment[w->n_ops];
	zr_ticket t;
	for (int i = 0; i < 2; i++) {
		const int64_t n = i ? COUNT : count;
		seg[i] = (struct zr_comm_seg){ sent, take_buffer(w, result_of(kind, group, n)), n };
	}

	const struct zr_comm_op op = { .size = sizeof op,
				       .kind = kind,
				       .group = group,
				       .dtype = ZR_F32,
				       .root = kind == ZR_COMM_BROADCAST,
				       .n_seg = kind == ZR_COMM_BARRIER ? 0 : 2,
				       .seg = seg,
				       .tag = { 1, w->n_ops++, -1 } };
	fuzz_check(!tc_post(w->c, &op, &t));
}

static void post_exchange(struct world *w)
{
	static const int64_t counts[WORLD] = { 8, MANY, 24 };
	const struct zr_comm_exchange x = { .size = sizeof x,
					    .group = ZR_GROUP_WORLD,
					    .dtype = ZR_F32,
					    .send = sent,
					    .recv = take_buffer(w, 8 + MANY + 24),
					    .send_count = counts,
					    .recv_count = counts,
					    .tag = { 1, w->n_ops++, -1 } };
	zr_ticket t;
	fuzz_check(!tc_exchange(w->c, &x, &t));
}

static void post_all(struct world *w)
{
	for (int32_t kind = ZR_COMM_ALL_GATHER; kind <= ZR_COMM_BARRIER; kind++)
		post(w, kind, ZR_GROUP_WORLD, COUNT);
	post_exchange(w);
	post(w, ZR_COMM_ALL_GATHER, ZR_GROUP_NODE, MANY);
	post(w, ZR_COMM_ALL_REDUCE, ZR_GROUP_NODE, MANY);
}

static const struct tc_pend *find_pend(const struct zr_inst *c, int32_t group, uint64_t seq)
{
	if (!seq || seq > c->group[group].posted)
		return NULL;
	return &c->pend[c->group[group].queue[seq % WINDOW]];
}

static int is_over(const struct zr_inst *c)
{
	for (int i = 0; i < WINDOW; i++)
		if (c->pend[i].ticket && !tc_is_done(c, &c->pend[i]))
			return 0;
	return 1;
}

/* What a rank of the world says of its troubles is one line, whatever others have sent. */
static void check_texts(const struct zr_inst *c)
{
	char text[800];
	for (int i = 0; i < WINDOW; i++) {
		if (!c->pend[i].ticket)
			continue;
		tc_missing_text(c, &c->pend[i], text, sizeof text);
		fuzz_check(*text);
		for (const char *at = text; *at; at++)
			fuzz_check((unsigned char)*at >= ' ' && *at != 0x7f);
	}
}

/* ---- what the others send -------------------------------------------------------- */

static void give(const struct stream *s, const void *data, size_t n)
{
	if (s->fd >= 0 && n)
		fuzz_check(send(s->fd, data, n, MSG_NOSIGNAL) == (ssize_t)n || errno == EAGAIN ||
			   errno == EPIPE);
}

/* The header that the rank would send next, or a note with it. */
static size_t make_sound(const struct world *w, struct stream *s, uint8_t n, char *out)
{
	const int32_t group = s->channel == NOTES ? ZR_GROUP_WORLD : s->channel;
	const struct tc_pend *p = find_pend(w->c, group, s->seq);
	struct comm_header header = p ? p->own : (struct comm_header){ .seq = s->seq };
	if (p && header.kind == COMM_EXCHANGE)
		header.total = (int64_t)(p->pair[s->rank].received / 4);
	s->seq++;
	if (s->channel != NOTES) {
		memcpy(out, &header, sizeof header);
		return sizeof header;
	}

	const struct tc_note note = { .what = n, .group = group, .at = header, .why = "no disk" };
	memcpy(out, &note, sizeof note);
	return sizeof note;
}

/* Bytes of the input that were used. */
static size_t send_piece(const struct world *w, struct stream *s, const uint8_t *data, size_t size)
{
	static char out[256 * 64];
	const void *buffer = sent;
	const uint8_t n = data[2];
	const size_t left = size - 3;
	size_t bytes;

	switch ((enum piece)(data[1] % PIECES)) {
	case SOUND:
		give(s, out, make_sound(w, s, n, out));
		return 3;
	case SPOILT:
		if (!left)
			return 3;
		bytes = make_sound(w, s, NOTE_WAITS, out);
		out[n % bytes] ^= (char)data[3];
		give(s, out, bytes);
		return 4;
	case ZEROS:
		memset(out, 0, sizeof out);
		give(s, out, (size_t)n * 64);
		return 3;
	case RAW:
		bytes = n < left ? n : left;
		give(s, data + 3, bytes);
		return 3 + bytes;
	case ADDRESS:
		give(s, &buffer, sizeof buffer);
		return 3;
	case READ:
		memset(out, 1, n);
		give(s, out, n);
		return 3;
	case PIECES:
		break;
	}
	return 3;
}

/* What this rank has sent is of no interest. */
static void drain(const struct world *w)
{
	static char away[1 << 16];
	for (int i = 0; i < STREAMS; i++)
		while (w->stream[i].fd >= 0 && read(w->stream[i].fd, away, sizeof away) > 0)
			continue;
}

/* Moves all that can be moved. 0, or < 0: the run has ended. */
static int move_all(const struct world *w)
{
	int moved;
	do {
		drain(w);
		moved = tc_advance(w->c);
	} while (moved > 0);

	if (moved < 0)
		return moved;
	return tc_read_notes(w->c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct world w = { .n_ops = 0 };
	if (!size)
		return 0;
	test_clear(host);
	open_world(&w, data[0] & 1);
	post_all(&w);

	int rc = 0;
	for (size_t at = 1; !rc && at + 3 <= size;) {
		struct stream *s = &w.stream[data[at] % STREAMS];
		if (data[at] > 191 && s->fd >= 0) {
			close(s->fd);
			s->fd = -1;
		}
		at += send_piece(&w, s, data + at, size - at);
		rc = move_all(&w);
		check_texts(w.c);
	}

	fuzz_check(!rc || (w.c->broken && *test_error(host)));
	fuzz_usable += !rc && is_over(w.c);
	close_world(&w);
	return 0;
}
