/* SPDX-License-Identifier: Apache-2.0
 *
 * imports.c - what the plugin's file calls of the C library, by the slots through which the dynamic
 * linker lets it call: those of malloc and the like lead to functions that count and can fail,
 * those of exit and the like to a failure of the test, those of time, getenv and the like to
 * functions whose answers a test can change.
 */
#include "cmd/check/check.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define BLOCKS (1 << 16)

static struct zr_check *check;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *block[BLOCKS]; /* open addressing; REMOVED: none any more */
static int64_t made, held, refuse;
#define REMOVED ((void *)-1)

static size_t place(const void *p)
{
	return ((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15u >> 48;
}

static void *keep(void *p)
{
	size_t i = place(p);

	pthread_mutex_lock(&lock);
	for (int n = 0; p && n < BLOCKS; n++, i = (i + 1) % BLOCKS)
		if (!block[i] || block[i] == REMOVED) {
			block[i] = p;
			held++;
			break;
		}
	pthread_mutex_unlock(&lock);
	return p;
}

/* There are no n bytes. More than the machine has is the plugin's mistake. */
static void miss(size_t n)
{
	const size_t whole = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
	if (n < whole)
		zr_check_missed_memory();
}

static void *keep_bytes(void *p, size_t n)
{
	if (!p)
		miss(n);
	return keep(p);
}

static void forget(const void *p)
{
	size_t i = place(p);

	pthread_mutex_lock(&lock);
	for (int n = 0; p && block[i] && n < BLOCKS; n++, i = (i + 1) % BLOCKS)
		if (block[i] == p) {
			block[i] = REMOVED;
			held--;
			break;
		}
	pthread_mutex_unlock(&lock);
}

static int refused(void)
{
	pthread_mutex_lock(&lock);
	made++;
	int now = refuse > 0 && !--refuse;
	pthread_mutex_unlock(&lock);
	if (now)
		errno = ENOMEM;
	return now;
}

static void *my_malloc(size_t n)
{
	return refused() ? NULL : keep_bytes(malloc(n), n);
}

static void *my_calloc(size_t n, size_t size)
{
	size_t bytes;

	if (refused())
		return NULL;
	if (__builtin_mul_overflow(n, size, &bytes))
		bytes = SIZE_MAX;
	return keep_bytes(calloc(n, size), bytes);
}

static void my_free(void *p)
{
	forget(p);
	free(p);
}

static void *my_realloc(void *p, size_t n)
{
	if (refused())
		return NULL;

	forget(p);
	void *q = realloc(p, n);
	if (n && !q)
		miss(n);
	keep(q ? q : p);
	return q;
}

static char *my_strdup(const char *s)
{
	return refused() ? NULL : keep(strdup(s));
}

static char *my_strndup(const char *s, size_t n)
{
	return refused() ? NULL : keep(strndup(s, n));
}

static void *my_aligned_alloc(size_t align, size_t n)
{
	return refused() ? NULL : keep_bytes(aligned_alloc(align, n), n);
}

static int my_posix_memalign(void **out, size_t align, size_t n)
{
	if (refused())
		return ENOMEM;

	int rc = posix_memalign(out, align, n);
	if (!rc)
		keep(*out);
	else if (rc == ENOMEM)
		miss(n);
	return rc;
}

#define NEVER(name)                                                                                \
	static void my_##name(void)                                                                \
	{                                                                                          \
		zr_check_fail(check, "it called " #name "(), which ends or changes the whole "     \
				     "process; return a code after zr_fail instead");              \
	}
NEVER(exit)
NEVER(_exit)
NEVER(_Exit)
NEVER(quick_exit)
NEVER(abort)
NEVER(fork)

/* ---- another time, environment and process --------------------------------------- */

enum { SECONDS_AWAY = 40000000 }; /* more than a year */

static const char *elsewhere; /* the value of variables that are not set; NULL: we are here */
static int processor;         /* on which the check began to watch the plugin */
static char asked[160];

/* It called this function, and what it gets follows. */
static int is_away(const char *call)
{
	if (!elsewhere)
		return 0;

	pthread_mutex_lock(&lock);
	const size_t n = strlen(asked);
	if (!strstr(asked, call))
		snprintf(asked + n, sizeof asked - n, "%s%s", n ? ", " : "", call);
	pthread_mutex_unlock(&lock);
	return 1;
}

static time_t my_time(time_t *out)
{
	const time_t now = time(NULL) + (is_away("time()") ? SECONDS_AWAY : 0);
	if (out)
		*out = now;
	return now;
}

static clock_t my_clock(void)
{
	return clock() + (is_away("clock()") ? SECONDS_AWAY : 0);
}

static int my_clock_gettime(clockid_t id, struct timespec *t)
{
	const int rc = clock_gettime(id, t);
	if (!rc && is_away("clock_gettime()"))
		t->tv_sec += SECONDS_AWAY;
	return rc;
}

static int my_gettimeofday(struct timeval *t, void *zone)
{
	const int rc = gettimeofday(t, zone);
	if (!rc && is_away("gettimeofday()"))
		t->tv_sec += SECONDS_AWAY;
	return rc;
}

static char *my_getenv(const char *name)
{
	char call[96];
	char *is = getenv(name);
	snprintf(call, sizeof call, "getenv(\"%.64s\")", name);
	return is_away(call) && !is ? (char *)(uintptr_t)elsewhere : is;
}

static pid_t my_getpid(void)
{
	return getpid() + (is_away("getpid()") ? 1 : 0);
}

static pid_t my_gettid(void)
{
	return (pid_t)syscall(SYS_gettid) + (is_away("gettid()") ? 1 : 0);
}

static int my_rand(void)
{
	return rand() ^ (is_away("rand()") ? 0x2bad : 0);
}

static long my_random(void)
{
	return random() ^ (is_away("random()") ? 0x2bad : 0);
}

/* The plugin is told the processor on which the check began, and elsewhere the next one. If it were
 * told the current one, a thread that has moved to the one before would get the same number in both
 * tries. */
static int my_sched_getcpu(void)
{
	return processor + (is_away("sched_getcpu()") ? 1 : 0);
}

static int my_gethostname(char *name, size_t room)
{
	const int rc = gethostname(name, room);
	if (!rc && room && is_away("gethostname()"))
		*name ^= 1;
	return rc;
}

static const struct {
	const char *name;
	void (*fn)(void);
} watched[] = {
#define TO(name, fn)                                                                               \
	{                                                                                          \
#name, (void (*)(void))(fn)                                                        \
	}
	TO(malloc, my_malloc),
	TO(calloc, my_calloc),
	TO(realloc, my_realloc),
	TO(free, my_free),
	TO(strdup, my_strdup),
	TO(strndup, my_strndup),
	TO(aligned_alloc, my_aligned_alloc),
	TO(posix_memalign, my_posix_memalign),
	TO(exit, my_exit),
	TO(_exit, my__exit),
	TO(_Exit, my__Exit),
	TO(quick_exit, my_quick_exit),
	TO(abort, my_abort),
	TO(fork, my_fork),
	TO(time, my_time),
	TO(clock, my_clock),
	TO(clock_gettime, my_clock_gettime),
	TO(gettimeofday, my_gettimeofday),
	TO(getenv, my_getenv),
	TO(secure_getenv, my_getenv),
	TO(getpid, my_getpid),
	TO(gettid, my_gettid),
	TO(rand, my_rand),
	TO(random, my_random),
	TO(sched_getcpu, my_sched_getcpu),
	TO(gethostname, my_gethostname),
};

static void redirect(char *slot, void (*fn)(void))
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)slot / page * page;
	if (!mprotect((void *)at, page, PROT_READ | PROT_WRITE))
		memcpy(slot, &fn, sizeof fn);
}

#if defined(__x86_64__)
#define IS_SLOT(type)                                                                              \
	((type) == R_X86_64_JUMP_SLOT || (type) == R_X86_64_GLOB_DAT || (type) == R_X86_64_64)
#elif defined(__aarch64__)
#define IS_SLOT(type)                                                                              \
	((type) == R_AARCH64_JUMP_SLOT || (type) == R_AARCH64_GLOB_DAT || (type) == R_AARCH64_ABS64)
#else
#define IS_SLOT(type) 0
#endif

static void redirect_all(const struct link_map *m, const ElfW(Rela) * r, size_t n,
			 const ElfW(Sym) * symbols, const char *names)
{
	for (size_t i = 0; r && i < n; i++) {
		const char *name = names + symbols[ELF64_R_SYM(r[i].r_info)].st_name;
		for (size_t k = 0; k < sizeof watched / sizeof *watched; k++)
			if (IS_SLOT(ELF64_R_TYPE(r[i].r_info)) && !strcmp(name, watched[k].name))
				redirect((char *)m->l_addr + r[i].r_offset, watched[k].fn);
	}
}

void zr_imports_watch(struct zr_check *c)
{
	struct link_map *m = NULL;
	Dl_info info;

	const ElfW(Rela) *plt = NULL, *rest = NULL;
	const ElfW(Sym) *symbols = NULL;
	const char *names = NULL;
	size_t n_plt = 0, n_rest = 0;
	check = c;
	processor = sched_getcpu();
	if (!dladdr1(c->plugin->entry, &info, (void **)&m, RTLD_DL_LINKMAP) || !m)
		return;

	for (const ElfW(Dyn) *d = m->l_ld; d->d_tag != DT_NULL; d++) {
		void *at = (void *)d->d_un.d_ptr;
		if (d->d_tag == DT_JMPREL)
			plt = at;
		else if (d->d_tag == DT_PLTRELSZ)
			n_plt = d->d_un.d_val / sizeof *plt;
		else if (d->d_tag == DT_RELA)
			rest = at;
		else if (d->d_tag == DT_RELASZ)
			n_rest = d->d_un.d_val / sizeof *rest;
		else if (d->d_tag == DT_SYMTAB)
			symbols = at;
		else if (d->d_tag == DT_STRTAB)
			names = at;
	}

	if (!symbols || !names)
		return;

	redirect_all(m, plt, n_plt, symbols, names);
	redirect_all(m, rest, n_rest, symbols, names);
}

/* The memory is aligned to 64 bytes, and the word before it points to the block of calloc() that it
 * lies in. calloc() does not touch pages that the kernel has just given: they are zero, and a
 * device never uses most of its scratch. */
void *zr_imports_alloc(uint64_t bytes)
{
	size_t room = (size_t)(bytes + 63) / 64 * 64 + 128;

	if (refused())
		return NULL;

	char *block = calloc(1, room);
	if (!block) {
		miss(room);
		return NULL;
	}

	void **p = (void **)(((uintptr_t)block + 64 + sizeof(void *)) / 64 * 64);
	p[-1] = block;
	return p;
}

void zr_imports_free(void *p)
{
	if (p)
		free(((void **)p)[-1]);
}

int64_t zr_imports_made(void)
{
	return made;
}

int64_t zr_imports_held(void)
{
	return held;
}

void zr_imports_refuse(int64_t nth)
{
	refuse = nth;
}

void zr_imports_elsewhere(const char *value)
{
	elsewhere = value;
	*asked = 0;
}

const char *zr_imports_asked(void)
{
	return asked;
}
