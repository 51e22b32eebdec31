/* SPDX-License-Identifier: Apache-2.0
 *
 * faults.c - see faults.h: what was asked for, and whether this call is the one.
 *
 * Nothing here allocates: it runs in malloc.
 */
#define _GNU_SOURCE
#include "tests/faults/faults.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define ANY  -2
#define MAIN -1

static const char *const call_name[] = FAULT_NAMES;

static const struct {
	const char *name;
	int value;
} errors[] = {
	{ "ENOMEM", ENOMEM }, { "EIO", EIO },       { "ENOSPC", ENOSPC }, { "EINTR", EINTR },
	{ "EAGAIN", EAGAIN }, { "EACCES", EACCES }, { "EMFILE", EMFILE }, { "ENOSYS", ENOSYS },
	{ "EDQUOT", EDQUOT }, { "ENOENT", ENOENT },
};

static struct {
	int ready;
	int call; /* -1: none */
	int process;
	int64_t n;
	int later;
	enum fault_kind kind;
	int error;
	double slow;
	char path[256];
	int log; /* descriptor */
	struct fault_counts *counts;
} set = { .call = -1, .process = ANY, .log = -1 };

static _Atomic int64_t reached[FAULT_CALLS], chosen;
static int process = MAIN;
__thread int fault_busy __attribute__((tls_model("initial-exec")));

/* ---- settings ---- */

static int find_error(const char *name)
{
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (!strcmp(errors[i].name, name))
			return errors[i].value;
	return 0;
}

static void refuse(const char *word)
{
	dprintf(2, "ZR_FAULT: %s is not understood\n", word);
	_exit(99);
}

static void take_kind(const char *v, const char *word)
{
	set.error = find_error(v);
	set.kind = set.error           ? FAULT_FAIL :
		   !strcmp(v, "short") ? FAULT_SHORT :
		   !strcmp(v, "flip")  ? FAULT_FLIP :
		   !strcmp(v, "slow")  ? FAULT_SLOW :
					 FAULT_NONE;
	if (set.kind == FAULT_NONE)
		refuse(word);
}

static void take_call(const char *v, const char *word)
{
	for (int i = 0; i < FAULT_CALLS; i++)
		if (!strcmp(call_name[i], v))
			set.call = i;
	if (set.call < 0)
		refuse(word);
}

static void take_word(char *word)
{
	char *v = strchr(word, '=');
	size_t n = v ? (size_t)(v++ - word) : 0;
	if (n == 4 && !memcmp(word, "call", n))
		take_call(v, word);
	else if (n == 1 && *word == 'n')
		set.n = atoll(v);
	else if (n == 4 && !memcmp(word, "kind", n))
		take_kind(v, word);
	else if (n == 3 && !memcmp(word, "and", n))
		set.later = 1;
	else if (n == 7 && !memcmp(word, "process", n))
		set.process = strcmp(v, "main") ? atoi(v) : MAIN;
	else if (n == 4 && !memcmp(word, "path", n))
		snprintf(set.path, sizeof set.path, "%s", v);
	else if (n == 4 && !memcmp(word, "slow", n))
		set.slow = atof(v);
	else
		refuse(word);
}

static void map_counts(const char *file)
{
	int fd = (int)syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || syscall(SYS_ftruncate, fd, sizeof *set.counts))
		refuse(file);
	void *m = (void *)syscall(SYS_mmap, NULL, sizeof *set.counts, PROT_READ | PROT_WRITE,
				  MAP_SHARED, fd, 0);
	syscall(SYS_close, fd);
	if (m != MAP_FAILED)
		set.counts = m;
}

static void forked(void)
{
	process = MAIN;
	for (int i = 0; i < FAULT_CALLS; i++)
		reached[i] = 0;
	chosen = 0;
}

__attribute__((constructor)) static void begin(void)
{
	char text[512], *save, *word;
	const char *v = getenv("ZR_FAULT_PROGRAM");
	if (v && strcmp(v, program_invocation_short_name))
		return;

	v = getenv("ZR_FAULT");
	set.slow = 0.05;
	fault_busy++;
	if (v) {
		snprintf(text, sizeof text, "%s", v);
		for (word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save))
			take_word(word);
		if (set.call < 0 || set.kind == FAULT_NONE || set.n < 1)
			refuse(v);
	}
	v = getenv("ZR_FAULT_COUNTS");
	if (v)
		map_counts(v);
	v = getenv("ZR_FAULT_LOG");
	if (v)
		set.log = (int)syscall(SYS_openat, AT_FDCWD, v,
				       O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	pthread_atfork(NULL, NULL, forked);
	fault_busy--;
	set.ready = 1;
}

/* ---- the end ---- */

typedef int main_fn(int argc, char **argv, char **env);
static main_fn *program;

static void end(void)
{
	set.ready = 0;
}

static int run_program(int argc, char **argv, char **env)
{
	fault_busy++;
	atexit(end);
	fault_busy--;
	return program(argc, argv, env);
}

/* What runs behind main is not the program's: the counters of `make coverage` crash without
 * memory. */
VISIBLE int __libc_start_main(main_fn *main, int argc, char **argv, void (*init)(void),
			      void (*fini)(void), void (*loader)(void), void *stack)
{
	int (*next)(main_fn *, int, char **, void (*)(void), void (*)(void), void (*)(void),
		    void *);
	program = main;
	*(void **)&next = fault_next("__libc_start_main");
	return next(run_program, argc, argv, init, fini, loader, stack);
}

/* ---- points ---- */

/* A child becomes a rank some time after it was forked. */
static int this_process(void)
{
	const char *v = process == MAIN ? getenv("ZEROTH_LOCAL_RANK") : NULL;
	if (v) {
		forked();
		process = atoi(v);
	}
	return process;
}

static void count(enum fault_call call, int p, int64_t n)
{
	_Atomic int64_t *most = p + 1 < FAULT_PROCESSES ? &set.counts->calls[p + 1][call] : NULL;
	for (int64_t was = most ? *most : n; was < n;)
		if (atomic_compare_exchange_weak(most, &was, n))
			break;
}

static void note(enum fault_call call, const char *path)
{
	if (set.counts && !set.counts->fired++)
		snprintf(set.counts->where, sizeof set.counts->where, "%s %s", call_name[call],
			 path ? path : "");
}

static void slow_down(void)
{
	struct timespec t = { (time_t)set.slow,
			      (long)((set.slow - (double)(time_t)set.slow) * 1e9) };
	nanosleep(&t, NULL);
}

int fault_error(void)
{
	return set.error;
}

enum fault_kind fault_point(enum fault_call call, const char *path)
{
	int old = errno;
	if (!set.ready || fault_busy)
		return FAULT_NONE;
	int p = this_process();
	int64_t n = ++reached[call];
	if (set.path[0] && (int)call == set.call) { /* those on this path are counted alone */
		if (!path || !strstr(path, set.path))
			return FAULT_NONE;
		n = ++chosen;
	}
	if (set.counts)
		count(call, p, n);
	if ((int)call != set.call || (set.process != ANY && set.process != p) ||
	    (set.later ? n < set.n : n != set.n)) {
		errno = old;
		return FAULT_NONE;
	}
	note(call, path);
	if (set.kind == FAULT_SLOW)
		slow_down();
	errno = set.kind == FAULT_FAIL ? set.error : old;
	return set.kind == FAULT_SLOW ? FAULT_NONE : set.kind;
}

/* ---- what they share ---- */

static int is_outside(const char *path)
{
	return *path != '/' || !strncmp(path, "/proc/", 6) || !strncmp(path, "/sys/", 5) ||
	       !strncmp(path, "/memfd:", 7) ||
	       (!strncmp(path, "/dev/", 5) && strncmp(path, "/dev/shm/", 9));
}

static const char *link_of(int fd, char *buf, size_t size)
{
	char link[64];
	snprintf(link, sizeof link, fd == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", fd);
	long n = syscall(SYS_readlinkat, AT_FDCWD, link, buf, size - 1);
	if (n < 0)
		return NULL;
	buf[n] = 0;
	return buf;
}

const char *fault_fd_path(int fd, char *buf, size_t size)
{
	int old = errno;
	const char *path = fault_busy || fd <= 2 || !set.ready ? NULL : link_of(fd, buf, size);
	errno = old;
	return path && !is_outside(path) ? path : NULL;
}

const char *fault_at_path(int dir, const char *path, char *buf, size_t size)
{
	int old = errno;
	size_t n;
	if (fault_busy || !set.ready || !path)
		return NULL;
	if (*path == '/')
		return is_outside(path) ? NULL : path;
	if (!link_of(dir, buf, size))
		path = NULL;
	errno = old;
	n = path ? strlen(buf) : 0;
	if (path)
		snprintf(buf + n, size - n, "/%s", path);
	return path && !is_outside(buf) ? buf : NULL;
}

void *fault_next(const char *name)
{
	fault_busy++;
	void *fn = dlsym(RTLD_NEXT, name);
	fault_busy--;
	if (!fn)
		refuse(name);
	return fn;
}

/* Direct transfers stay aligned. */
size_t fault_half(size_t bytes)
{
	return bytes >= 8192 ? bytes / 8192 * 4096 : bytes > 1 ? bytes / 2 : bytes;
}

void fault_flip(void *data, size_t bytes)
{
	((unsigned char *)data)[bytes / 2] ^= 0x10;
}

void *fault_flipped(const void *data, size_t bytes)
{
	void *copy = (void *)syscall(SYS_mmap, NULL, bytes, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (copy == MAP_FAILED)
		refuse("flip");
	memcpy(copy, data, bytes);
	fault_flip(copy, bytes);
	return copy;
}

void fault_drop(void *copy, size_t bytes)
{
	syscall(SYS_munmap, copy, bytes);
}

/* ---- the log ---- */

int fault_records(void)
{
	return set.log >= 0 && !fault_busy;
}

void fault_record(const char *format, ...)
{
	char line[2 * PATH_MAX + 128];
	va_list ap;
	int old = errno;
	if (set.log < 0)
		return;
	fault_busy++;
	int n = snprintf(line, sizeof line, "%d\t", this_process() < 0 ? -1 : process), m;
	va_start(ap, format);
	m = vsnprintf(line + n, sizeof line - (size_t)n - 1, format, ap);
	va_end(ap);
	n += m < (int)sizeof line - n - 1 ? m : (int)sizeof line - n - 2;
	line[n++] = '\n';
	syscall(SYS_write, set.log, line, n);
	fault_busy--;
	errno = old;
}
