/* SPDX-License-Identifier: Apache-2.0
 *
 * at_once.c - two ranks that are threads of a process share the static memory of a plugin. To see
 * whether they notice, one of them is stopped where it matters: when an instruction of it has
 * written to that memory, which is read-only to notice it, the other one computes from begin to
 * end. Luck has no part in it, as it would if both just ran.
 */
#include "cmd/check/check.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#define ASLEEP 3        /* seconds without work after which the other one waits for a lock */
#define GLANCE 10000000 /* nanoseconds from one look at it to the next */

/* How often the rank is stopped at an instruction in a call, at an instruction, and in all; how
 * many instructions are told apart; how many writes of a call are noticed. */
enum { IN_CALL = 4, AT_ONE = 16, IN_ALL = 60, INSTRUCTIONS = 30, WRITES = 2000 };

static struct {
	char *begin, *end;      /* static memory of the plugin */
	struct sigaction crash; /* what else handles SIGSEGV */
	struct zr_check *other;
	zr_compute_fn *compute;
	sem_t go, done;
	pid_t first, second;               /* threads: the one that is stopped, the other one */
	int waits;                         /* 1: the other one waits for `go` */
	int ends;                          /* 1: it need not compute any more */
	volatile int calls, writes, stops; /* so far; writes of this call */
	struct instruction {
		uintptr_t at;
		int stops, in_call;
		int call; /* in which it was stopped last */
	} instruction[INSTRUCTIONS];
} at;

/* ---- static memory --------------------------------------------------------------- */

/* The part of the plugin's object that it can write to, page by page, without what the linker
 * makes read-only. */
static int find_static(struct dl_phdr_info *info, size_t size, void *entry)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t begin = 0, end = 0, sealed = 0;
	int ours = 0;

	(void)size;
	for (int i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *p = &info->dlpi_phdr[i];
		const uint64_t from = info->dlpi_addr + p->p_vaddr, to = from + p->p_memsz;
		ours |= p->p_type == PT_LOAD && (uintptr_t)entry >= from && (uintptr_t)entry < to;
		if (p->p_type == PT_GNU_RELRO)
			sealed = to;
		if (p->p_type == PT_LOAD && p->p_flags & PF_W) {
			begin = from;
			end = to;
		}
	}

	if (!ours)
		return 0;
	if (sealed > begin)
		begin = sealed + page - 1; /* the linker seals whole pages */
	at.begin = (char *)(begin / page * page);
	at.end = (char *)((end + page - 1) / page * page);
	return 1;
}

static void set_access(int access)
{
	if (at.end > at.begin)
		mprotect(at.begin, (size_t)(at.end - at.begin), access);
}

/* ---- the other rank -------------------------------------------------------------- */

static void *compute_when_asked(void *unused)
{
	(void)unused;
	at.second = gettid();
	zr_check_catch(at.other);
	while (!sem_wait(&at.go) && !at.ends) {
		struct zr_results r = { 0 };
		at.compute(at.other, &r);
		free(r.of);
		sem_post(&at.done);
	}

	return NULL;
}

/* Whether it computes, or would if others left it a processor. Called by a signal's handler. */
static int is_busy(void)
{
	char path[64], line[256];

	snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)at.second);
	const int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	const ssize_t n = read(fd, line, sizeof line - 1);
	close(fd);
	if (n <= 0)
		return 0;

	line[n] = 0;
	const char *state = strrchr(line, ')'); /* of "12 (name) R ..." */
	return state && (!strncmp(state, ") R", 3) || !strncmp(state, ") D", 3));
}

/* Whether it is done within one look at it. */
static int ends_soon(void)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += GLANCE;
	until.tv_sec += until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return !sem_timedwait(&at.done, &until);
}

/* It computes now, however long that takes. If it waits for a lock that the first one has, it goes
 * on when it gets it. */
static void let_other_compute(void)
{
	int64_t asleep = 0;

	if (!at.waits) {
		at.waits = ends_soon();
		return;
	}

	sem_post(&at.go);
	while (!(at.waits = ends_soon()) && asleep < ASLEEP * INT64_C(1000000000))
		if (!is_busy())
			asleep += GLANCE;
}

/* ---- the rank that is stopped ---------------------------------------------------- */

/* The instruction at `place` has written. */
static void stop(uintptr_t place)
{
	struct instruction *it = at.instruction;

	while (it < &at.instruction[INSTRUCTIONS - 1] && it->at && it->at != place)
		it++;
	if (it->call != at.calls)
		it->in_call = 0;
	it->at = place;
	it->call = at.calls;
	if (gettid() == at.first && it->in_call < IN_CALL && it->stops < AT_ONE &&
	    at.stops < IN_ALL) {
		it->in_call++;
		it->stops++;
		at.stops++;
		let_other_compute();
	}

	if (++at.writes < WRITES)
		set_access(PROT_READ);
}

#ifdef __x86_64__
#define ONE_STEP 0x100 /* the flag of the processor by which SIGTRAP follows an instruction */

static void step_over(ucontext_t *u)
{
	u->uc_mcontext.gregs[REG_EFL] |= ONE_STEP;
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	ucontext_t *u = context;
	(void)sig, (void)info;
	u->uc_mcontext.gregs[REG_EFL] &= ~ONE_STEP;
	stop((uintptr_t)u->uc_mcontext.gregs[REG_RIP]);
}
#else
/* Before it writes, which shows only what stays from call to call; once a call. */
static void step_over(ucontext_t *u)
{
	(void)u;
	at.writes = WRITES;
	stop(1);
}

static void on_step(int sig, siginfo_t *info, void *context)
{
	(void)sig, (void)info, (void)context;
}
#endif

static void on_write(int sig, siginfo_t *info, void *context)
{
	const char *to = info->si_addr;

	if (to < at.begin || to >= at.end) {
		at.crash.sa_sigaction(sig, info, context);
		return;
	}

	set_access(PROT_READ | PROT_WRITE);
	step_over(context);
}

static void begin_call(void)
{
	at.calls++;
	at.writes = 0;
	set_access(PROT_READ);
}

void zr_at_once(struct zr_check *c, struct zr_check *other, zr_compute_fn *compute,
		struct zr_results *r)
{
	struct sigaction act = { .sa_sigaction = on_write,
				 .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER };
	pthread_t thread;

	dl_iterate_phdr(find_static, (void *)(uintptr_t)c->plugin->entry);
	at.other = other;
	at.compute = compute;
	at.waits = 1;
	at.first = gettid();
	sem_init(&at.go, 0, 0);
	sem_init(&at.done, 0, 0);
	errno = pthread_create(&thread, NULL, compute_when_asked, NULL);
	if (errno)
		zr_check_lacks(c, "threads");

	zr_check_catch(c);
	c->entering = begin_call;
	sigaction(SIGSEGV, &act, &at.crash);
	act.sa_sigaction = on_step;
	sigaction(SIGTRAP, &act, NULL);
	begin_call();
	compute(c, r);
	set_access(PROT_READ | PROT_WRITE);

	while (!at.waits)
		let_other_compute();
	at.ends = 1;
	sem_post(&at.go);
	pthread_join(thread, NULL);
	c->entering = NULL;
}
