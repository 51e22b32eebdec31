/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_address.c - the addresses of this machine.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

/* Whether others may reach this machine by an address of the interface. */
static int is_reachable(const struct ifaddrs *i, const char *interface)
{
	const struct sockaddr_in6 *six = (const void *)i->ifa_addr;
	if (!i->ifa_addr || !(i->ifa_flags & IFF_UP))
		return 0;
	if (*interface && strcmp(i->ifa_name, interface))
		return 0;
	if (i->ifa_addr->sa_family == AF_INET6)
		return !IN6_IS_ADDR_LINKLOCAL(&six->sin6_addr);
	return i->ifa_addr->sa_family == AF_INET;
}

static void add_address(const struct ifaddrs *i, struct zt_place *place)
{
	char text[INET6_ADDRSTRLEN];
	const void *at = &((const struct sockaddr_in *)(const void *)i->ifa_addr)->sin_addr;
	if (i->ifa_addr->sa_family == AF_INET6)
		at = &((const struct sockaddr_in6 *)(const void *)i->ifa_addr)->sin6_addr;

	const size_t used = strlen(place->host);
	if (!inet_ntop(i->ifa_addr->sa_family, at, text, sizeof text) ||
	    used + strlen(text) + 2 > sizeof place->host)
		return;
	snprintf(place->host + used, sizeof place->host - used, "%s%s", used ? " " : "", text);
}

static void add_addresses(const struct ifaddrs *all, const char *interface, int of_loopback,
			  struct zt_place *place)
{
	for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
		const int is_loopback = (i->ifa_flags & IFF_LOOPBACK) != 0;
		if (is_loopback == of_loopback && is_reachable(i, interface))
			add_address(i, place);
	}
}

int zt_list_addresses(const char *interface, struct zt_place *place)
{
	struct ifaddrs *all;
	if (getifaddrs(&all))
		return -1;

	*place->host = 0;
	add_addresses(all, interface, 0, place);
	add_addresses(all, interface, 1, place);
	freeifaddrs(all);
	return 0;
}
