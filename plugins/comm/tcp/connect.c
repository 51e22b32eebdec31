/* SPDX-License-Identifier: Apache-2.0
 *
 * connect.c - the connections of pairs of ranks. Each rank listens on a port that the system
 * chooses; boot, or for a group of listed ranks an all_gather, tells the others its addresses. The
 * higher rank of a pair connects, to whichever address answers with the number of this run, which
 * rank 0 has drawn: machines may have addresses that are another one's elsewhere. Who does not know
 * the number is cut off.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAGIC     0x7a725443u
#define TRY       2000 /* ms that one attempt to connect may take */
#define ANSWER    10.0 /* s that a rank gives another one to answer, beside the timeout */
#define STRANGERS 64   /* connections that have not said who they are */
#define BACKLOG   4096

struct address {
	uint16_t family, scope; /* AF_INET or AF_INET6 */
	uint8_t at[16];
};

/* What a rank says through boot. */
struct place {
	uint16_t port, n, rsv[2];
	struct address address[ADDRESSES];
};

/* What who connects says, and is answered with. */
struct greeting {
	uint32_t magic;
	int32_t from, to, channel;
	uint8_t run[16];
};

struct stranger {
	int fd; /* -1: none */
	size_t got;
	double since;
	struct greeting says;
};

struct meeting {
	struct zr_inst *c;
	int listening;
	int32_t expected; /* connections that are still to come */
	double start;
	struct stranger stranger[STRANGERS];
};

/* ---- addresses ------------------------------------------------------------------- */

static void add_address(struct place *p, const struct sockaddr *at)
{
	struct address *a = &p->address[p->n];
	if (p->n == ADDRESSES)
		return;
	a->family = at->sa_family;
	if (at->sa_family == AF_INET)
		memcpy(a->at, &((const struct sockaddr_in *)at)->sin_addr, 4);
	else
		memcpy(a->at, &((const struct sockaddr_in6 *)at)->sin6_addr, 16);
	p->n++;
}

static int is_wanted(const struct zr_inst *c, const struct ifaddrs *i, int loopback)
{
	int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
	if (family != AF_INET && family != AF_INET6)
		return 0;
	if (*c->o->interface)
		return !loopback && !strcmp(c->o->interface, i->ifa_name);
	if (!(i->ifa_flags & IFF_UP) || !!(i->ifa_flags & IFF_LOOPBACK) != loopback)
		return 0;
	return family == AF_INET ||
	       !IN6_IS_ADDR_LINKLOCAL(&((const struct sockaddr_in6 *)i->ifa_addr)->sin6_addr);
}

/* Those of the network first, then that of the machine itself. */
static int find_addresses(const struct zr_inst *c, struct place *p)
{
	struct ifaddrs *all;
	if (getifaddrs(&all))
		return zr_fail(c->h, ZR_EIO, "this machine's addresses: %s", strerror(errno));

	for (int loopback = 0; loopback < 2; loopback++)
		for (struct ifaddrs *i = all; i; i = i->ifa_next)
			if (is_wanted(c, i, loopback))
				add_address(p, i->ifa_addr);
	freeifaddrs(all);
	if (p->n)
		return 0;
	return zr_fail(c->h, ZR_EINVAL,
		       "interface %s: this machine has none of that name with an address; `ip "
		       "address` lists them",
		       *c->o->interface ? c->o->interface : "lo");
}

static socklen_t make_sockaddr(const struct address *a, uint16_t port, struct sockaddr_storage *out)
{
	memset(out, 0, sizeof *out);
	if (a->family == AF_INET) {
		struct sockaddr_in *in = (struct sockaddr_in *)out;
		in->sin_family = AF_INET;
		in->sin_port = htons(port);
		memcpy(&in->sin_addr, a->at, 4);
		return sizeof *in;
	}

	struct sockaddr_in6 *in = (struct sockaddr_in6 *)out;
	in->sin6_family = AF_INET6;
	in->sin6_port = htons(port);
	memcpy(&in->sin6_addr, a->at, 16);
	return sizeof *in;
}

/* ---- listening ------------------------------------------------------------------- */

/* On all addresses, or those of one family where the system has but that; with an interface, on its
 * first address. */
static int open_port(struct zr_inst *c, struct place *p)
{
	struct address any = { .family = AF_INET6 };
	struct sockaddr_storage at;
	socklen_t size = sizeof at;
	int families[] = { AF_INET6, AF_INET }, fd = -1;
	if (*c->o->interface)
		any = p->address[0];
	for (int i = 0; i < 2 && fd < 0; i++) {
		if (!*c->o->interface)
			any.family = (uint16_t)families[i];
		fd = socket(any.family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		if (fd >= 0 && bind(fd, (struct sockaddr *)&at, make_sockaddr(&any, 0, &at))) {
			close(fd);
			fd = -1;
		}
	}

	if (fd < 0 || listen(fd, BACKLOG) || getsockname(fd, (struct sockaddr *)&at, &size)) {
		int why = errno;
		if (fd >= 0)
			close(fd);
		return zr_fail(c->h, ZR_EIO, "cannot listen on a port: %s", strerror(why));
	}

	p->port = ntohs(at.ss_family == AF_INET ? ((struct sockaddr_in *)&at)->sin_port :
						  ((struct sockaddr_in6 *)&at)->sin6_port);
	return fd;
}

/* ---- a connection ---------------------------------------------------------------- */

static void tune(const struct zr_inst *c, int fd)
{
	const int on = 1;
	const unsigned patience = c->o->timeout < 1e6 ? (unsigned)(c->o->timeout * 1e3) :
							1000000000;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience, sizeof patience);
}

static int wait_for(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	return poll(&p, 1, ms);
}

/* A descriptor, or -1 and errno. */
static int try_address(const struct address *a, uint16_t port)
{
	struct sockaddr_storage at;
	socklen_t size = make_sockaddr(a, port, &at), room = sizeof(int);
	int fd = socket(at.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), why = 0;
	if (fd < 0)
		return -1;
	if (!connect(fd, (struct sockaddr *)&at, size))
		return fd;

	why = errno;
	if (why == EINPROGRESS) {
		why = ETIMEDOUT;
		if (wait_for(fd, POLLOUT, TRY) > 0)
			getsockopt(fd, SOL_SOCKET, SO_ERROR, &why, &room);
	}
	if (!why)
		return fd;

	close(fd);
	errno = why;
	return -1;
}

/* Whether all of it went, or came, in time. */
static int exchange(int fd, void *data, size_t n, int sends, double end)
{
	size_t at = 0;
	while (at < n) {
		ssize_t done = sends ? send(fd, (char *)data + at, n - at, MSG_NOSIGNAL) :
				       recv(fd, (char *)data + at, n - at, 0);
		if (done > 0) {
			at += (size_t)done;
			continue;
		}
		if (done == 0 || (errno != EAGAIN && errno != EINTR) || tc_now() > end)
			return 0;

		wait_for(fd, sends ? POLLOUT : POLLIN, 100);
	}
	return 1;
}

/* Greets who listens there, and is answered alike. */
static int greet(struct meeting *m, int fd, int32_t rank, int channel)
{
	struct greeting mine = { MAGIC, m->c->rank, rank, channel, { 0 } }, theirs;
	const double end = m->start + m->c->o->timeout + ANSWER;
	memcpy(mine.run, m->c->run, sizeof mine.run);
	return exchange(fd, &mine, sizeof mine, 1, end) &&
	       exchange(fd, &theirs, sizeof theirs, 0, end) && theirs.magic == MAGIC &&
	       theirs.from == rank && theirs.to == m->c->rank && theirs.channel == channel &&
	       !memcmp(theirs.run, m->c->run, sizeof theirs.run);
}

static int connect_channel(struct meeting *m, int32_t rank, int channel, const struct place *p)
{
	int why = ECONNREFUSED;
	for (int i = 0; i < p->n && i < ADDRESSES; i++) {
		int fd = try_address(&p->address[i], p->port);
		if (fd < 0) {
			why = errno;
			continue;
		}
		if (greet(m, fd, rank, channel)) {
			tune(m->c, fd);
			m->c->peer[rank].fd[channel] = fd;
			return 0;
		}
		close(fd);
		why = ECONNRESET;
	}

	int rc = tc_read_notes(m->c); /* it may be gone because one of them has stopped */
	if (rc)
		return rc;
	return zr_fail(m->c->h, ZR_EPEER,
		       "rank %d cannot be reached from rank %d at any of its %d addresses, port "
		       "%u: %s; [comm] interface says which network to use",
		       rank, m->c->rank, p->n, p->port, strerror(why));
}

/* ---- who comes ------------------------------------------------------------------- */

/* Whether a pair of this rank and another one has that connection, but not yet. */
static int is_lacking(const struct zr_inst *c, int32_t rank, int channel)
{
	if (c->peer[rank].fd[channel] >= 0)
		return 0;
	return channel == NOTES || tc_place_in(&c->group[channel], rank) >= 0;
}

static int is_of_run(const struct meeting *m, const struct greeting *g)
{
	const struct zr_inst *c = m->c;
	if (g->magic != MAGIC || memcmp(g->run, c->run, sizeof c->run) || g->to != c->rank ||
	    g->from <= c->rank || g->from >= c->world || g->channel < 0 || g->channel >= CHANNELS)
		return 0;
	return is_lacking(c, g->from, g->channel);
}

static void take_stranger(struct meeting *m, struct stranger *s)
{
	ssize_t n = recv(s->fd, (char *)&s->says + s->got, sizeof s->says - s->got, 0);
	if (n < 0 && (errno == EAGAIN || errno == EINTR) && tc_now() - s->since < ANSWER)
		return;
	if (n > 0)
		s->got += (size_t)n;
	if (n > 0 && s->got < sizeof s->says)
		return;

	struct greeting answer = { MAGIC, m->c->rank, s->says.from, s->says.channel, { 0 } };
	memcpy(answer.run, m->c->run, sizeof answer.run);
	if (n > 0 && is_of_run(m, &s->says) &&
	    exchange(s->fd, &answer, sizeof answer, 1, tc_now() + ANSWER)) {
		tune(m->c, s->fd);
		m->c->peer[s->says.from].fd[s->says.channel] = s->fd;
		m->expected--;
	} else {
		close(s->fd);
	}
	s->fd = -1;
}

static void accept_one(struct meeting *m)
{
	struct stranger *place = NULL;
	int fd = accept4(m->listening, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return;

	for (int i = 0; i < STRANGERS; i++) {
		struct stranger *s = &m->stranger[i];
		if (!place || s->fd < 0 || (place->fd >= 0 && s->since < place->since))
			place = s;
	}
	if (place->fd >= 0)
		close(place->fd); /* the oldest one */
	*place = (struct stranger){ .fd = fd, .since = tc_now() };
}

static int32_t count_lacking(const struct zr_inst *c, int32_t rank)
{
	int32_t n = 0;
	for (int k = 0; k < CHANNELS; k++)
		n += is_lacking(c, rank, k);
	return n;
}

static int name_missing(const struct meeting *m)
{
	const struct zr_inst *c = m->c;
	char text[400] = "";
	for (int32_t r = c->rank + 1; r < c->world; r++)
		if (count_lacking(c, r))
			comm_say(text, sizeof text, "%s%d", *text ? ", " : "", r);
	return zr_fail(c->h, ZR_EPEER, "timeout: waited %.3g s for connections of rank %s",
		       tc_now() - m->start, text);
}

/* Until all higher ranks have come. */
static int accept_expected(struct meeting *m)
{
	struct pollfd p[STRANGERS + 1];
	while (m->expected > 0) {
		p[STRANGERS] = (struct pollfd){ .fd = m->listening, .events = POLLIN };
		for (int i = 0; i < STRANGERS; i++)
			p[i] = (struct pollfd){ .fd = m->stranger[i].fd, .events = POLLIN };
		poll(p, STRANGERS + 1, 100);
		for (int i = 0; i < STRANGERS; i++)
			if (m->stranger[i].fd >= 0)
				take_stranger(m, &m->stranger[i]);
		if (p[STRANGERS].revents)
			accept_one(m);
		int rc = tc_read_notes(m->c); /* another rank may have stopped meanwhile */
		if (rc)
			return rc;
		if (tc_now() - m->start > m->c->o->timeout)
			return name_missing(m);
	}
	return 0;
}

static int accept_higher(struct meeting *m)
{
	for (int32_t r = m->c->rank + 1; r < m->c->world; r++)
		m->expected += count_lacking(m->c, r);
	return accept_expected(m);
}

/* ---- all ------------------------------------------------------------------------- */

static int connect_all(struct meeting *m, int32_t rank, const struct place *p)
{
	for (int k = 0; k < CHANNELS; k++) {
		if (!is_lacking(m->c, rank, k))
			continue;

		int rc = connect_channel(m, rank, k, p);
		if (rc)
			return rc;
	}
	return 0;
}

static int connect_lower(struct meeting *m, const struct zr_boot_v1 *boot, struct zr_inst *b)
{
	struct zr_inst *c = m->c;
	for (int32_t r = 0; r < c->rank; r++) {
		char key[32];
		struct place p;
		snprintf(key, sizeof key, "comm.tcp.%d", r);
		int rc = boot->get(b, key, &p, sizeof p, c->o->timeout);
		if (!rc)
			rc = connect_all(m, r, &p);
		if (rc)
			return rc;
	}
	return 0;
}

/* The number of the run. */
static int agree_on_run(struct zr_inst *c, const struct zr_boot_v1 *boot, struct zr_inst *b)
{
	if (c->rank)
		return boot->get(b, "comm.tcp.run", c->run, sizeof c->run, c->o->timeout);
	if (getrandom(c->run, sizeof c->run, 0) != sizeof c->run)
		return zr_fail(c->h, ZR_EIO, "no random numbers");
	return boot->put(b, "comm.tcp.run", c->run, sizeof c->run);
}

static int start_listening(struct meeting *m, struct place *mine)
{
	int rc = find_addresses(m->c, mine);
	if (rc)
		return rc;

	m->listening = open_port(m->c, mine);
	return m->listening < 0 ? m->listening : 0;
}

static int meet(struct meeting *m, const struct zr_boot_v1 *boot, struct zr_inst *b)
{
	struct zr_inst *c = m->c;
	struct place mine = { 0 };
	char key[32];
	int rc = start_listening(m, &mine);
	if (rc)
		return rc;

	snprintf(key, sizeof key, "comm.tcp.%d", c->rank);
	rc = boot->put(b, key, &mine, sizeof mine);
	if (!rc)
		rc = agree_on_run(c, boot, b);
	if (!rc)
		rc = connect_lower(m, boot, b);
	if (rc)
		return rc;

	return accept_higher(m);
}

static struct meeting *open_meeting(struct zr_inst *c)
{
	struct meeting *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;

	m->c = c;
	m->listening = -1;
	m->start = tc_now();
	for (int i = 0; i < STRANGERS; i++)
		m->stranger[i].fd = -1;
	return m;
}

static void close_meeting(struct meeting *m)
{
	for (int i = 0; i < STRANGERS; i++)
		if (m->stranger[i].fd >= 0)
			close(m->stranger[i].fd);
	if (m->listening >= 0)
		close(m->listening);
	free(m);
}

int tc_connect(struct zr_inst *c)
{
	struct zr_inst *b = NULL;
	const struct zr_boot_v1 *boot = c->h->get(c->h, "zr.boot/1", &b);
	if (!boot || !boot->put || !boot->get)
		return zr_fail(c->h, ZR_ENOTSUP,
			       "boot offers no key-value area through which %d ranks could meet",
			       c->world);

	struct meeting *m = open_meeting(c);
	if (!m)
		return zr_fail(c->h, ZR_ENOMEM, "no memory");

	int rc = meet(m, boot, b);
	close_meeting(m);
	return rc;
}

/* ---- a group of listed ranks ----------------------------------------------------- */

/* Where all ranks of the world listen. */
static int gather_places(struct zr_inst *c, int32_t number, const struct place *mine,
			 struct place *all)
{
	const struct zr_comm_seg seg = { mine, all, sizeof *mine };
	return tc_gather(c, ZR_GROUP_WORLD, &seg, number);
}

static int meet_group(struct meeting *m, int32_t number, struct place *all)
{
	struct zr_inst *c = m->c;
	const struct tc_group *g = &c->group[number];
	struct place mine = { 0 };
	int rc = start_listening(m, &mine);
	if (!rc)
		rc = gather_places(c, number, &mine, all);
	for (int32_t k = 0; !rc && k < g->rank; k++)
		rc = connect_all(m, tc_in_world(g, k), &all[tc_in_world(g, k)]);
	if (rc)
		return rc;

	return accept_higher(m);
}

int tc_connect_group(struct zr_inst *c, int32_t number)
{
	struct place *all = malloc((size_t)c->world * sizeof *all);
	struct meeting *m = open_meeting(c);
	int rc;
	if (all && m)
		rc = meet_group(m, number, all);
	else
		rc = zr_fail(c->h, ZR_ENOMEM, "no memory");
	if (m)
		close_meeting(m);
	free(all);
	return rc;
}
