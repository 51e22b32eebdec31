/* SPDX-License-Identifier: Apache-2.0
 *
 * offload_fixture.c - stores, requests and directories for tests of offload plugins.
 */
#include "offload_fixture.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct zr_host *host;
char disk[] = "/tmp/t_offload.XXXXXX";
char logged[8192];

static void keep_line(const struct zr_host *h, int32_t level, const char *msg)
{
	size_t n = strlen(logged);
	(void)h;
	(void)level;
	snprintf(logged + n, sizeof logged - n, "%s\n", msg);
}

struct zr_host *store_host(void)
{
	struct zr_host *h = test_host(1); /* without threads: tests fork */
	h->log = keep_line;
	return h;
}

int offload_setup(void **state)
{
	(void)state;
	host = store_host();
	return mkdtemp(disk) ? 0 : -1;
}

int offload_teardown(void **state)
{
	(void)state;
	test_host_free(host);
	return rmdir(disk);
}

/* ---- stores ---- */

int store_try(struct store *s, const char *plugin, const char *at, const char *const *options)
{
	int rc;
	test_clear(host);
	*logged = 0;
	s->desc = test_plugin(plugin);
	s->v = test_iface(s->desc, "zr.offload/1");
	s->opts = test_options(s->desc);
	if (strstr(plugin, "nvme"))
		assert_int_equal(test_set(s->desc, s->opts, "path", at), 0);
	for (; options && *options; options += 2)
		assert_int_equal(test_set(s->desc, s->opts, options[0], options[1]), 0);
	rc = test_create(host, s->desc, s->opts, &s->inst);
	s->info = (struct zr_tier_info){ .size = sizeof s->info };
	if (rc)
		free(s->opts);
	else
		assert_int_equal(s->v->info(s->inst, &s->info), ZR_OK);
	return rc;
}

void store_open(struct store *s, const char *plugin, const char *const *options)
{
	if (store_try(s, plugin, disk, options))
		fail_msg("%s", test_error(host));
}

void store_close(struct store *s)
{
	s->desc->destroy(s->inst);
	free(s->opts);
}

/* ---- requests ---- */

uint64_t store_make(struct store *s, const char *key, uint64_t bytes)
{
	uint64_t object = 0;
	if (s->v->make(s->inst, key, bytes, &object))
		fail_msg("%s", test_error(host));
	return object;
}

uint64_t store_post(struct store *s, int write, uint64_t object, uint64_t off, void *mem,
		    uint64_t bytes)
{
	uint64_t ticket = 0;
	if (write ? s->v->write(s->inst, object, off, mem, bytes, &ticket) :
		    s->v->read(s->inst, object, off, mem, bytes, &ticket))
		fail_msg("%s", test_error(host));
	return ticket;
}

void store_wait(struct store *s, uint64_t ticket)
{
	if (s->v->wait(s->inst, ticket))
		fail_msg("%s", test_error(host));
}

void store_write(struct store *s, uint64_t object, uint64_t off, const void *mem, uint64_t bytes)
{
	store_wait(s, store_post(s, 1, object, off, (void *)(uintptr_t)mem, bytes));
}

void store_read(struct store *s, uint64_t object, uint64_t off, void *mem, uint64_t bytes)
{
	store_wait(s, store_post(s, 0, object, off, mem, bytes));
}

int store_reads(struct store *s, uint64_t object, uint64_t off, void *mem, uint64_t bytes)
{
	return s->v->wait(s->inst, store_post(s, 0, object, off, mem, bytes));
}

/* ---- directories ---- */

int dirs_in(const char *at, char *first, size_t room)
{
	DIR *d = opendir(at);
	struct dirent *e;
	int n = 0;
	assert_non_null(d);
	*first = 0;
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && !n++)
			assert_true((size_t)snprintf(first, room, "%s/%s", at, e->d_name) < room);
	closedir(d);
	return n;
}

void file_of(const char *key, char *path, size_t room)
{
	char dir[300];
	struct dirent *e;
	DIR *d;
	assert_int_equal(dirs_in(disk, dir, sizeof dir), 1);
	d = opendir(dir);
	assert_non_null(d);
	*path = 0;
	while ((e = readdir(d)))
		if (strstr(e->d_name, key))
			assert_true((size_t)snprintf(path, room, "%s/%s", dir, e->d_name) < room);
	closedir(d);
	assert_true(*path);
}

/* ---- numbers ---- */

uint32_t draw(uint32_t n)
{
	static uint64_t x = 88172645463325252u;
	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return (uint32_t)(x >> 20) % n;
}

void fill(char *mem, uint64_t bytes, uint32_t seed)
{
	for (uint64_t i = 0; i < bytes; i++)
		mem[i] = (char)((i * 2654435761u + seed * 40503u) >> 13);
}
