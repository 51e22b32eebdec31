/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c - what of the process a plugin must leave as it is.
 */
#include "cmd/check/check.h"

#include <dirent.h>
#include <locale.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

extern char **environ;

/* FNV-1a */
static uint64_t mix(uint64_t h, const void *data, size_t n)
{
	for (const unsigned char *p = data; n--; p++)
		h = (h ^ *p) * 0x100000001b3u;
	return h;
}

static int entries_of(const char *dir)
{
	DIR *d = opendir(dir);
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* Timers that will send a signal: those of setitimer and alarm as bits, and how many there are of
 * timer_create, where the system tells. */
static uint64_t timers(void)
{
	static const int of[] = { ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF };
	char line[128];
	uint64_t armed = 0;

	for (int i = 0; i < 3; i++) {
		struct itimerval v;
		if (!getitimer(of[i], &v) && (v.it_value.tv_sec || v.it_value.tv_usec))
			armed |= 1u << i;
	}

	FILE *f = fopen("/proc/self/timers", "re");
	while (f && fgets(line, sizeof line, f))
		armed += !strncmp(line, "ID:", 3) ? 8 : 0;
	if (f)
		fclose(f);
	return armed;
}

/* Signals that this thread does not take, as bits. */
static uint64_t blocked(void)
{
	sigset_t set;
	uint64_t bits = 0;

	pthread_sigmask(SIG_SETMASK, NULL, &set);
	for (int sig = 1; sig <= 64; sig++)
		if (sigismember(&set, sig) == 1)
			bits |= (uint64_t)1 << (sig - 1);
	return bits;
}

static uint64_t limits(uint64_t h)
{
	for (int i = 0; i < RLIMIT_NLIMITS; i++) {
		struct rlimit l;
		if (!getrlimit(i, &l))
			h = mix(mix(h, &l.rlim_cur, sizeof l.rlim_cur), &l.rlim_max,
				sizeof l.rlim_max);
	}

	return h;
}

void zr_process_look(struct zr_process_state *s)
{
	const uint64_t begin = 0xcbf29ce484222325u;
	cpu_set_t processors;

	memset(s, 0, sizeof *s);
	if (!getcwd(s->cwd, sizeof s->cwd))
		s->cwd[0] = 0;
	const char *locale = setlocale(LC_ALL, NULL);
	strncpy(s->locale, locale ? locale : "", sizeof s->locale - 1);
	s->environment = begin;
	for (char **e = environ; e && *e; e++)
		s->environment = mix(s->environment, *e, strlen(*e) + 1);
	s->handlers = begin;
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction act;
		if (!sigaction(sig, NULL, &act))
			s->handlers = mix(s->handlers, &act.sa_handler, sizeof act.sa_handler);
	}

	s->timers = timers();
	s->blocked = blocked();
	if (!sched_getaffinity(0, sizeof processors, &processors))
		s->processors = mix(begin, &processors, sizeof processors);
	s->limits = limits(begin);
	s->files = entries_of("/proc/self/fd");
	s->threads = entries_of("/proc/self/task");
}

#define MEMBER(m, from, what)                                                                      \
	{                                                                                          \
		offsetof(struct zr_process_state, m), sizeof(((struct zr_process_state *)0)->m),   \
			from, what                                                                 \
	}
static const struct {
	size_t at, bytes;
	int strictness; /* from which on it is compared */
	const char *what;
} members[] = {
	MEMBER(cwd, ZR_ANY_CALL, "the working directory"),
	MEMBER(locale, ZR_ANY_CALL, "the locale"),
	MEMBER(environment, ZR_ANY_CALL, "the environment"),
	MEMBER(handlers, ZR_ANY_CALL, "the handler of a signal"),
	MEMBER(timers, ZR_ANY_CALL,
	       "which timers will send a signal (alarm, setitimer, timer_create)"),
	MEMBER(blocked, ZR_ANY_CALL, "which signals the calling thread blocks"),
	MEMBER(processors, ZR_ANY_CALL, "the processors that the calling thread may use"),
	MEMBER(limits, ZR_ANY_CALL, "a limit of the process (setrlimit)"),
	MEMBER(files, ZR_STEP_CALL, "which files are open"),
	MEMBER(threads, ZR_NO_THREAD, "the number of threads"),
};

const char *zr_process_differs(const struct zr_process_state *a, const struct zr_process_state *b,
			       int strictness)
{
	for (size_t i = 0; i < sizeof members / sizeof *members; i++)
		if (strictness >= members[i].strictness &&
		    memcmp((const char *)a + members[i].at, (const char *)b + members[i].at,
			   members[i].bytes))
			return members[i].what;
	return NULL;
}
