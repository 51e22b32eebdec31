/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_client.c - a rank's connection to the thread of rank 0: see tcp.h. One request at a time;
 * only why a rank stops may be sent beside it.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define REPORT    10.0 /* seconds between lines that say who is waited for */
#define TRY_TIME  5.0  /* seconds that one attempt to connect may take */
#define SEND_MAX  10.0 /* seconds that rank 0 may take nothing */
#define HELLO_MAX 15.0 /* seconds until rank 0 has said who it is */
#define NAP_MIN   0.05
#define NAP_MAX   1.0

static double now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* ---- frames ---------------------------------------------------------------------- */

/* Why the run is stopped, for whoever asks from now on; why: errno, 0: rank 0 has closed it. */
static void note_lost(struct zr_inst *b, int why)
{
	struct zt_client *c = b->tcp;
	snprintf(c->stopped, sizeof c->stopped,
		 "rank 0 at %.600s, port %s: the connection was lost%s%s", c->place.host,
		 c->place.port, why ? ": " : "", why ? strerror(why) : "");
}

static int lost(struct zr_inst *b, int why)
{
	note_lost(b, why);
	return zr_fail(b->h, ZR_EPEER, "%s", b->tcp->stopped);
}

/* Waits until bytes can be read or sent: 1, 0 at `until`, or -1. [any] */
static int wait_for(struct zt_client *c, short what, double until)
{
	for (;;) {
		double left = until - now();
		if (left <= 0)
			return 0;

		struct pollfd p = { .fd = c->fd, .events = what };
		int rc = poll(&p, 1, left > 1000 ? 1000000 : (int)(left * 1e3) + 1);
		if (rc > 0)
			return 1;
		if (rc < 0 && errno != EINTR)
			return -1;
	}
}

/* Whether it was sent. [any] */
static int send_frame(struct zt_client *c, int kind, const char *key, const void *value,
		      size_t bytes)
{
	size_t key_bytes = key ? strlen(key) : 0, n = 0, at = 0;
	unsigned char frame[sizeof(struct zt_head) + MAX_KEY + MAX_VALUE];
	struct zt_head head = { .magic = ZT_MAGIC,
				.kind = (uint16_t)kind,
				.key_bytes = (uint16_t)key_bytes,
				.bytes = (uint32_t)bytes };
	memcpy(frame, &head, sizeof head);
	n = sizeof head;
	memcpy(frame + n, key ? key : "", key_bytes);
	n += key_bytes;
	if (bytes)
		memcpy(frame + n, value, bytes);
	n += bytes;

	pthread_mutex_lock(&c->sending);
	while (at < n) {
		ssize_t done = send(c->fd, frame + at, n - at, MSG_NOSIGNAL);
		if (done < 0 && errno == EINTR)
			continue;
		if (done < 0 && errno == EAGAIN && wait_for(c, POLLOUT, now() + SEND_MAX) > 0)
			continue;
		if (done <= 0)
			break;
		at += (size_t)done;
	}

	pthread_mutex_unlock(&c->sending);
	return at == n;
}

/* Reads n bytes. 1, 0 at `until`, or < 0. */
static int read_all(struct zr_inst *b, void *data, size_t n, double until)
{
	size_t at = 0;
	while (at < n) {
		int rc = wait_for(b->tcp, POLLIN, until);
		if (rc == 0)
			return 0;

		ssize_t done = rc < 0 ? -1 : recv(b->tcp->fd, (char *)data + at, n - at, 0);
		if (done < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (done <= 0)
			return lost(b, done ? errno : 0);

		at += (size_t)done;
	}
	return 1;
}

static int no_rendezvous(struct zr_inst *b)
{
	return zr_fail(b->h, ZR_EINVAL,
		       "what listens at %s, port %s is not rank 0 of a training: choose another "
		       "port with MASTER_PORT or [boot] port",
		       b->tcp->place.host, b->tcp->place.port);
}

/* The next frame: its kind, 0 at `until`, or < 0. A value of another length than `room` allows is
 * refused; *bytes: what it has. */
static int read_frame(struct zr_inst *b, void *value, size_t room, size_t *bytes, double until)
{
	struct zt_head head;
	int rc = read_all(b, &head, sizeof head, until);
	if (rc <= 0)
		return rc;
	if (head.magic != ZT_MAGIC || head.key_bytes || head.bytes > room)
		return no_rendezvous(b);

	*bytes = head.bytes;
	rc = head.bytes ? read_all(b, value, head.bytes, now() + REPORT) : 1;
	if (rc == 0)
		return lost(b, ETIMEDOUT);
	return rc < 0 ? rc : head.kind;
}

/* ---- requests -------------------------------------------------------------------- */

struct reply {
	int kind;       /* that is wanted */
	void *value;    /* [room] */
	size_t room;    /* at least ZT_TEXT */
	size_t bytes;   /* that it has */
	double timeout; /* seconds; HUGE: none */
	int stops;      /* who waits too long tells the others */
	int refusal;    /* the code of a refusal; 0: ZR_EINVAL */
};

static int stopped(struct zr_inst *b, const struct reply *r)
{
	struct zt_client *c = b->tcp;
	snprintf(c->stopped, sizeof c->stopped, "%.*s", (int)r->bytes, (const char *)r->value);
	return zr_fail(b->h, ZR_EPEER, "%s", c->stopped);
}

/* Asks for whom it waits, at most a second. Fills text; "": nobody said it. Returns 1; the kind of
 * another frame that came, which is in r; or < 0. */
static int ask(struct zr_inst *b, struct reply *r, char text[ZT_TEXT])
{
	*text = 0;
	if (!send_frame(b->tcp, ZT_ASK, NULL, NULL, 0))
		return lost(b, errno);

	int kind = read_frame(b, r->value, r->room, &r->bytes, now() + 1);
	if (kind == 0)
		return 1;
	if (kind != ZT_WAITING)
		return kind;

	snprintf(text, ZT_TEXT, "%.*s", (int)r->bytes, (const char *)r->value);
	return 1;
}

static int give_up(struct zr_inst *b, const struct reply *r, double waited, const char *text)
{
	char why[ZT_TEXT + 64];
	snprintf(why, sizeof why, "timeout: waited %.0f s for %s", waited,
		 *text ? text : "rank 0 to answer");
	if (r->stops)
		zt_stop(b, why);
	return zr_fail(b->h, ZR_EPEER, "%s", why);
}

/* Who gives up a get takes it back, lest its value answers a later request. Returns 1 if the value
 * has come at last, 0 if not, or < 0. */
static int take_back(struct zr_inst *b, struct reply *r)
{
	const double until = now() + 1;
	size_t bytes = 0;
	int found = 0, kind;
	if (r->kind != ZT_VALUE)
		return 0;
	if (!send_frame(b->tcp, ZT_FORGET, NULL, NULL, 0))
		return lost(b, errno);

	while ((kind = read_frame(b, r->value, r->room, &bytes, until)) > 0) {
		if (kind == ZT_FORGOTTEN)
			return found;
		r->bytes = bytes;
		if (kind == ZT_STOPPED)
			return stopped(b, r);
		found |= kind == ZT_VALUE;
	}
	return kind;
}

/* What a frame that came means: 1 it is wanted, 0 it is none that ends the wait, or < 0. */
static int judge(struct zr_inst *b, const struct reply *r, int kind)
{
	if (kind == r->kind)
		return 1;
	if (kind == ZT_WAITING)
		return 0; /* an answer that came late */
	if (kind == ZT_STOPPED)
		return stopped(b, r);
	if (kind == ZT_REFUSED)
		return zr_fail(b->h, r->refusal ? r->refusal : ZR_EINVAL, "%.*s", (int)r->bytes,
			       (const char *)r->value);
	return no_rendezvous(b);
}

/* Waits for the reply; logs every 10 s who is missing. */
static int await(struct zr_inst *b, struct reply *r)
{
	const double start = now();
	double said = start;
	char text[ZT_TEXT];
	for (;;) {
		double end = start + r->timeout, next = said + REPORT;
		int kind = read_frame(b, r->value, r->room, &r->bytes, next < end ? next : end);
		if (kind == 0) {
			kind = ask(b, r, text);
			double at = now();
			if (kind == 1 && at >= end) {
				int found = take_back(b, r);
				if (found)
					return found < 0 ? found : 0;
				return give_up(b, r, at - start, text);
			}
			if (kind == 1 && *text)
				zr_log(b->h, ZR_LOG_WARN, "waited %.0f s for %s", at - start, text);
			said = at;
			if (kind == 1)
				continue;
		}

		if (kind < 0)
			return kind;

		int rc = judge(b, r, kind);
		if (rc)
			return rc < 0 ? rc : 0;
	}
}

/* Rank 0 answers nobody whom it has told that the run is stopped. */
static int request(struct zr_inst *b, int kind, const char *key, const void *value, size_t bytes,
		   struct reply *r)
{
	if (*b->tcp->stopped)
		return zr_fail(b->h, ZR_EPEER, "%s", b->tcp->stopped);
	if (!send_frame(b->tcp, kind, key, value, bytes)) {
		/* why the run was stopped may be there to read */
		int why = errno, came = read_frame(b, r->value, r->room, &r->bytes, now() + 0.1);
		return came == ZT_STOPPED ? stopped(b, r) : lost(b, why);
	}
	return await(b, r);
}

/* ---- the connection -------------------------------------------------------------- */

/* A descriptor, or -1 and errno. */
static int connect_to(const struct sockaddr *at, socklen_t size)
{
	const int on = 1;
	int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), why = 0;
	socklen_t room = sizeof why;
	if (fd < 0)
		return -1;
	if (connect(fd, at, size)) {
		struct pollfd p = { .fd = fd, .events = POLLOUT };
		why = errno;
		if (why == EINPROGRESS) {
			why = ETIMEDOUT;
			if (poll(&p, 1, (int)(TRY_TIME * 1e3)) > 0)
				getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &room);
		}
	}

	if (why) {
		close(fd);
		errno = why;
		return -1;
	}
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	return fd;
}

/* To any address of a name; text[ZT_TEXT]: why none could be reached. */
static int connect_to_name(const char *host, const char *port, char *text)
{
	struct addrinfo *all, hints = { .ai_socktype = SOCK_STREAM };
	int fd = -1, rc = getaddrinfo(host, port, &hints, &all);
	if (rc) {
		snprintf(text, ZT_TEXT, "%s", gai_strerror(rc));
		return -1;
	}
	for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		fd = connect_to(a->ai_addr, a->ai_addrlen);
		if (fd < 0)
			snprintf(text, ZT_TEXT, "%s", strerror(errno));
	}
	freeaddrinfo(all);
	return fd;
}

/* To any of the place's names, as above. */
static int connect_to_place(const struct zt_place *place, char *text)
{
	struct zt_place names = *place;
	char *save = NULL;
	int fd = -1;

	for (char *name = names.host; fd < 0 && (name = strtok_r(name, " ", &save)); name = NULL)
		fd = connect_to_name(name, place->port, text);
	return fd;
}

static void nap(double seconds)
{
	struct timespec t = { (time_t)seconds, (long)((seconds - (double)(time_t)seconds) * 1e9) };
	nanosleep(&t, NULL);
}

/* Whether rank 0 runs on this machine, as far as the launcher says it. */
static int is_beside_rank0(const struct ze_hello *mine)
{
	return !mine->local_world || mine->rank == mine->local_rank;
}

/* Rank 0 listens on that interface alone, and the name may lead to loopback, as in its machine. */
static void look_at_interface(struct zr_inst *b)
{
	struct zt_place own;
	if (!*b->o->interface || !is_beside_rank0(&b->mine) || !zt_is_loopback(b->tcp->place.host))
		return;

	if (!zt_list_addresses(b->o->interface, &own) && *own.host)
		memcpy(b->tcp->place.host, own.host, sizeof own.host);
}

/* What to do where no rank 0 can be. */
static const char *advice(const struct zr_inst *b)
{
	if (is_beside_rank0(&b->mine) || !zt_is_loopback(b->tcp->place.host))
		return "";

	return "; each machine reaches itself there: MASTER_ADDR or [boot] address says how "
	       "others reach that of rank 0";
}

/* Tries until rank 0 is there. */
static int find_rank0(struct zr_inst *b)
{
	const struct zt_place *place = &b->tcp->place;
	const double start = now();
	double said = start, pause = NAP_MIN;
	char text[ZT_TEXT];
	look_at_interface(b);
	for (;;) {
		b->tcp->fd = connect_to_place(place, text);
		if (b->tcp->fd >= 0)
			return 0;

		double at = now();
		if (at - start >= b->o->timeout)
			return zr_fail(b->h, ZR_EPEER,
				       "timeout: waited %.0f s for rank 0 at %s, port %s: %s%s",
				       at - start, place->host, place->port, text, advice(b));
		if (at - said >= REPORT) {
			said = at;
			zr_log(b->h, ZR_LOG_WARN, "waited %.0f s for rank 0 at %s, port %s: %s%s",
			       at - start, place->host, place->port, text, advice(b));
		}
		nap(pause);
		pause = pause * 1.5 < NAP_MAX ? pause * 1.5 : NAP_MAX;
	}
}

/* As rank 0: to its own thread, wherever that listens. */
static int connect_to_self(struct zr_inst *b, int listening)
{
	struct sockaddr_storage at;
	socklen_t size = sizeof at;
	if (getsockname(listening, (struct sockaddr *)&at, &size))
		return -1;
	b->tcp->fd = connect_to((struct sockaddr *)&at, size);
	return b->tcp->fd < 0 ? -1 : 0;
}

static int lead(struct zr_inst *b, const char *token, int listening)
{
	if (listening < 0)
		listening = zt_listen(b, &b->tcp->place);
	if (listening < 0)
		return listening;

	b->server = zt_server_start(listening, &b->mine, token);
	if (!b->server)
		return zr_fail(b->h, ZR_EIO, "cannot start the thread that answers ranks: %s",
			       strerror(errno));
	if (connect_to_self(b, listening))
		return zr_fail(b->h, ZR_EIO, "cannot reach port %s of %s: %s", b->tcp->place.port,
			       b->tcp->place.host, strerror(errno));
	return 0;
}

/* ---- who is who ------------------------------------------------------------------ */

/* Both sides show that they know the token. */
static int introduce(struct zr_inst *b, const char *token)
{
	struct zt_hello mine = { .who = b->mine };
	char salt[ZT_TEXT], proof[ZT_TEXT], wanted[ZT_PROOF];
	struct reply challenge = { ZT_CHALLENGE, salt, sizeof salt, 0, HELLO_MAX, 0, 0 },
		     welcome = { ZT_WELCOME, proof, sizeof proof, 0, HELLO_MAX, 0, 0 };
	int rc = await(b, &challenge);
	if (rc)
		return rc;
	if (challenge.bytes != ZT_SALT + 1 || salt[ZT_SALT])
		return no_rendezvous(b);
	if (zt_draw_salt(mine.salt) || zt_prove("rank", token, salt, mine.proof) ||
	    zt_prove("rank 0", token, mine.salt, wanted))
		return zr_fail(b->h, ZR_EIO, "crypt(3) makes no proof of the token");

	rc = request(b, ZT_HELLO, NULL, &mine, sizeof mine, &welcome);
	if (rc)
		return rc;
	if (welcome.bytes != ZT_PROOF || !zt_is_proof(proof, wanted))
		return zr_fail(b->h, ZR_EINVAL,
			       "rank 0 at %s, port %s does not know the token: it is another one's",
			       b->tcp->place.host, b->tcp->place.port);
	return 0;
}

/* Whether the hellos of all ranks can be theirs. */
static int check_table(struct zr_inst *b)
{
	for (int32_t r = 0; r < b->mine.world; r++)
		if (b->all[r].rank != r || b->all[r].world != b->mine.world ||
		    !memchr(b->all[r].host, 0, sizeof b->all[r].host))
			return zr_fail(b->h, ZR_EINVAL, "rank 0 says nonsense of rank %d", r);
	return 0;
}

static int take_table(struct zr_inst *b)
{
	const size_t bytes = (size_t)b->mine.world * sizeof *b->all;
	const size_t room = bytes > ZT_TEXT ? bytes : ZT_TEXT;
	char *data = malloc(room);
	struct reply table = { ZT_TABLE, data, room, 0, b->o->timeout, 1, 0 };
	if (!data)
		return zr_fail(b->h, ZR_ENOMEM, "no memory");

	int rc = await(b, &table);
	if (!rc && table.bytes != bytes)
		rc = no_rendezvous(b);
	if (!rc) {
		memcpy(b->all, data, bytes);
		rc = check_table(b);
	}
	free(data);
	return rc;
}

static int join_with(struct zr_inst *b, char *token)
{
	int listening = -1;
	int rc = b->find(b, &b->tcp->place, token, &listening);
	if (rc)
		return rc;

	rc = b->mine.rank == 0 ? lead(b, token, listening) : find_rank0(b);
	if (rc)
		return rc;

	rc = introduce(b, token);
	if (rc)
		return rc;
	return take_table(b);
}

int zt_join(struct zr_inst *b)
{
	char token[ZT_TOKEN + 1];
	b->all = calloc((size_t)b->mine.world, sizeof *b->all);
	b->tcp = calloc(1, sizeof *b->tcp);
	if (!b->all || !b->tcp)
		return zr_fail(b->h, ZR_ENOMEM, "no memory");

	b->tcp->fd = -1;
	pthread_mutex_init(&b->tcp->sending, NULL);
	pthread_mutex_init(&b->tcp->asking, NULL);
	ze_name_process(&b->mine);
	int rc = join_with(b, token);
	explicit_bzero(token, sizeof token);
	return rc;
}

void zt_leave(struct zr_inst *b)
{
	if (!b->tcp)
		return;
	if (b->tcp->fd >= 0) {
		send_frame(b->tcp, ZT_LEAVE, NULL, NULL, 0);
		close(b->tcp->fd);
	}
	zt_server_end(b->server);
	pthread_mutex_destroy(&b->tcp->sending);
	pthread_mutex_destroy(&b->tcp->asking);
	free(b->tcp);
	b->tcp = NULL;
}

/* ---- the role -------------------------------------------------------------------- */

/* A request of a rank that has joined, beside which another thread may look for news. */
static int ask_rank0(struct zr_inst *b, int kind, const char *key, const void *value,
		     uint64_t bytes, struct reply *r)
{
	pthread_mutex_lock(&b->tcp->asking);
	int rc = request(b, kind, key, value, bytes, r);
	pthread_mutex_unlock(&b->tcp->asking);
	return rc;
}

int zt_put(struct zr_inst *b, const char *key, const void *value, uint64_t bytes)
{
	char text[ZT_TEXT];
	struct reply done = { ZT_DONE, text, sizeof text, 0, b->o->timeout, 0, ZR_ESTATE };
	return ask_rank0(b, ZT_PUT, key, value, bytes, &done);
}

int zt_get(struct zr_inst *b, const char *key, void *value, uint64_t bytes, double timeout)
{
	char data[MAX_VALUE];
	struct reply found = { ZT_VALUE, data, sizeof data, 0, timeout, 0, 0 };
	int rc = ask_rank0(b, ZT_GET, key, NULL, 0, &found);
	if (rc)
		return rc;
	if (found.bytes != bytes)
		return zr_fail(b->h, ZR_EINVAL, "key %s holds %llu bytes, not %llu", key,
			       (unsigned long long)found.bytes, (unsigned long long)bytes);

	memcpy(value, data, bytes);
	return 0;
}

int zt_fence(struct zr_inst *b, double timeout)
{
	char text[ZT_TEXT];
	struct reply done = { ZT_DONE, text, sizeof text, 0, timeout, 0, 0 };
	return ask_rank0(b, ZT_FENCE, NULL, NULL, 0, &done);
}

void zt_stop(struct zr_inst *b, const char *why)
{
	char text[ZT_TEXT];
	if (!b->tcp || b->tcp->fd < 0)
		return;
	snprintf(text, sizeof text, "rank %d stopped: %.900s", b->mine.rank, why);
	send_frame(b->tcp, ZT_STOP, NULL, text, strlen(text));
}

/* The text of a frame that says why the run is stopped, among n bytes that have come; NULL: there
 * is none yet. Other frames are answers to requests that were given up. */
static const unsigned char *find_stop(const unsigned char *data, size_t n, uint32_t *bytes)
{
	struct zt_head head;
	for (size_t at = 0; n - at >= sizeof head; at += sizeof head + head.bytes) {
		memcpy(&head, data + at, sizeof head);
		if (head.magic != ZT_MAGIC || head.key_bytes || n - at - sizeof head < head.bytes)
			return NULL;

		*bytes = head.bytes;
		if (head.kind == ZT_STOPPED)
			return data + at + sizeof head;
	}
	return NULL;
}

/* Looks at what has come and leaves it there: the next request reads it, too. */
static void look_for_stop(struct zr_inst *b)
{
	struct zt_client *c = b->tcp;
	unsigned char data[2 * (sizeof(struct zt_head) + MAX_VALUE)];
	uint32_t bytes;
	ssize_t n = recv(c->fd, data, sizeof data, MSG_PEEK | MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		note_lost(b, n ? errno : 0);
		return;
	}

	const unsigned char *text = find_stop(data, (size_t)n, &bytes);
	if (text)
		snprintf(c->stopped, sizeof c->stopped, "%.*s", (int)bytes, (const char *)text);
}

int zt_stopped(struct zr_inst *b, char *why, uint64_t room)
{
	struct zt_client *c = b->tcp;
	if (pthread_mutex_trylock(&c->asking))
		return 0; /* the thread that waits for a reply will be told */

	if (!*c->stopped)
		look_for_stop(b);
	const int is_stopped = *c->stopped != 0;
	if (is_stopped)
		snprintf(why, room, "%s", c->stopped);
	pthread_mutex_unlock(&c->asking);
	return is_stopped;
}
