/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_listen.c - the socket on which rank 0 listens: on the address that the others are told, or on
 * that of the interface that the user names.
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

/* On the first address of a name that is this machine's. */
static int listen_on_name(const char *host, const char *port, int flags, int *why)
{
	struct addrinfo *all, hints = { .ai_socktype = SOCK_STREAM, .ai_flags = flags };
	int fd = -1;
	*why = EADDRNOTAVAIL;
	if (getaddrinfo(host, port, &hints, &all))
		return -1;

	for (struct addrinfo *a = all; a && fd < 0; a = a->ai_next) {
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

	int fd = listen_on_name(NULL, place->port, AI_PASSIVE, &why);
	return fd < 0 ? failed(h, place, why) : fd;
}

int zt_listen(const struct zr_host *h, const struct env_opts *o, const struct zt_place *place)
{
	int why;
	if (*o->interface)
		return listen_on_named(h, o, place);

	int fd = listen_on_name(place->host, place->port, 0, &why);
	if (fd >= 0 || why != EADDRNOTAVAIL)
		return fd < 0 ? failed(h, place, why) : fd;

	/* others reach this machine by an address that it does not have itself */
	zr_log(h, ZR_LOG_WARN,
	       "%s is no address of this machine: it listens for ranks on port %s of all "
	       "interfaces; [boot] interface chooses one",
	       place->host, place->port);
	return zt_listen_anywhere(h, o, place);
}
