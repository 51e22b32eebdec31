/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_listen.c - the socket on which rank 0 listens: on the address that the others are told, or on
 * that of the interface that the user names. Debian leads a machine's own name to 127.0.1.1, where
 * no other machine's rank can come.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define BACKLOG 1024

/* ---- loopback addresses ------------------------------------------------------------ */

static int is_loopback(const struct sockaddr *at)
{
	if (at->sa_family == AF_INET) {
		const struct sockaddr_in *four = (const void *)at;
		return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
	}

	const struct sockaddr_in6 *six = (const void *)at;
	return at->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
}

/* As zt_is_loopback; AI_NUMERICHOST: no name is looked up. */
static int has_only_loopback(const char *host, int flags)
{
	struct addrinfo *all, hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
	int only = 1;
	if (getaddrinfo(host, NULL, &hints, &all))
		return 0;

	for (const struct addrinfo *a = all; a; a = a->ai_next)
		only &= is_loopback(a->ai_addr);
	freeaddrinfo(all);
	return only;
}

int zt_is_loopback(const char *host)
{
	return has_only_loopback(host, 0);
}

/* Whether ranks of other machines are expected. Where the launcher does not say how many are here,
 * who writes a loopback address means that all are. */
static int expects_others(const struct ze_hello *mine, const char *host)
{
	if (mine->local_world)
		return mine->local_world < mine->world;
	return strcmp(host, "localhost") && !has_only_loopback(host, AI_NUMERICHOST);
}

/* ---- listening --------------------------------------------------------------------- */

/* Descriptor, or -1 with errno. */
static int listen_at(const struct sockaddr *at, socklen_t size)
{
	const int on = 1;
	int fd = socket(at->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
	if (!bind(fd, at, size) && !listen(fd, BACKLOG))
		return fd;

	int why = errno;
	close(fd);
	errno = why;
	return -1;
}

struct wanted {
	int flags;    /* of getaddrinfo */
	int loopback; /* an address of loopback will do */
};

/* On the first address of a name that is this machine's, and wanted. */
static int listen_on_name(const char *host, const char *port, struct wanted wanted, int *why)
{
	struct addrinfo *all, hints = { .ai_socktype = SOCK_STREAM, .ai_flags = wanted.flags };
	int fd = -1;
	*why = EADDRNOTAVAIL;
	if (getaddrinfo(host, port, &hints, &all))
		return -1;

	for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
		if (!wanted.loopback && is_loopback(a->ai_addr))
			continue;

		fd = listen_at(a->ai_addr, a->ai_addrlen);
		if (fd < 0 && errno != EADDRNOTAVAIL)
			*why = errno;
	}
	freeaddrinfo(all);
	return fd;
}

static void set_port(struct sockaddr *at, uint16_t port)
{
	if (at->sa_family == AF_INET)
		((struct sockaddr_in *)at)->sin_port = htons(port);
	else
		((struct sockaddr_in6 *)at)->sin6_port = htons(port);
}

/* On the first address of the interface of that name. errno ENODEV: there is none. */
static int listen_on_interface(const char *name, uint16_t port)
{
	struct ifaddrs *all;
	int fd = -1, why = ENODEV;
	if (getifaddrs(&all))
		return -1;

	for (struct ifaddrs *i = all; i && fd < 0; i = i->ifa_next) {
		int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
		if (strcmp(i->ifa_name, name) || (family != AF_INET && family != AF_INET6))
			continue;
		set_port(i->ifa_addr, port);
		fd = listen_at(i->ifa_addr, family == AF_INET ? sizeof(struct sockaddr_in) :
								sizeof(struct sockaddr_in6));
		why = errno;
	}

	freeifaddrs(all);
	errno = why;
	return fd;
}

static int failed(const struct zr_host *h, const struct zt_place *place, int why)
{
	if (why == EADDRINUSE)
		return zr_fail(h, ZR_EINVAL,
			       "port %s of %s is in use, perhaps by another training: choose "
			       "another one with MASTER_PORT or [boot] port",
			       place->port, place->host);
	return zr_fail(h, ZR_EIO, "cannot listen on port %s of %s: %s", place->port, place->host,
		       strerror(why));
}

/* On the interface that the user names: a descriptor, or < 0. */
static int listen_on_named(const struct zr_host *h, const struct env_opts *o,
			   const struct zt_place *place)
{
	int fd = listen_on_interface(o->interface, (uint16_t)atoi(place->port));
	if (fd < 0 && errno == ENODEV)
		return zr_fail(h, ZR_EINVAL,
			       "interface %s: this machine has none of that name with an "
			       "address; `ip address` lists them",
			       o->interface);
	return fd < 0 ? failed(h, place, errno) : fd;
}

int zt_listen_anywhere(const struct zr_host *h, const struct env_opts *o,
		       const struct zt_place *place)
{
	int why;
	if (*o->interface)
		return listen_on_named(h, o, place);

	const struct wanted any = { .flags = AI_PASSIVE, .loopback = 1 };
	int fd = listen_on_name(NULL, place->port, any, &why);
	return fd < 0 ? failed(h, place, why) : fd;
}

static void warn_of_all(const struct zr_inst *b, const struct zt_place *place)
{
	const char *why = "is no address of this machine";
	if (zt_is_loopback(place->host))
		why = "leads to this machine alone, where ranks of others cannot come";

	zr_log(b->h, ZR_LOG_WARN,
	       "%s %s: rank 0 listens on port %s of all interfaces; [boot] interface "
	       "chooses one",
	       place->host, why, place->port);
}

int zt_listen(const struct zr_inst *b, const struct zt_place *place)
{
	int why;
	if (*b->o->interface)
		return listen_on_named(b->h, b->o, place);

	const struct wanted reachable = { .loopback = !expects_others(&b->mine, place->host) };
	int fd = listen_on_name(place->host, place->port, reachable, &why);
	if (fd >= 0 || why != EADDRNOTAVAIL)
		return fd < 0 ? failed(b->h, place, why) : fd;

	/* others reach this machine by an address that it does not have itself */
	warn_of_all(b, place);
	return zt_listen_anywhere(b->h, b->o, place);
}
