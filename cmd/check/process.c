/* SPDX-License-Identifier: Apache-2.0
 *
 * process.c - what of the process a plugin must leave as it is.
 */
#define _GNU_SOURCE
#include "cmd/check/check.h"

#include <dirent.h>
#include <locale.h>
#include <signal.h>
#include <string.h>
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

void zr_process_look(struct zr_process_state *s)
{
	memset(s, 0, sizeof *s);
	if (!getcwd(s->cwd, sizeof s->cwd))
		s->cwd[0] = 0;
	const char *locale = setlocale(LC_ALL, NULL);
	strncpy(s->locale, locale ? locale : "", sizeof s->locale - 1);
	s->environment = 0xcbf29ce484222325u;
	for (char **e = environ; e && *e; e++)
		s->environment = mix(s->environment, *e, strlen(*e) + 1);
	s->handlers = 0xcbf29ce484222325u;
	for (int sig = 1; sig < NSIG; sig++) {
		struct sigaction act;
		if (!sigaction(sig, NULL, &act))
			s->handlers = mix(s->handlers, &act.sa_handler, sizeof act.sa_handler);
	}
	s->files = entries_of("/proc/self/fd");
	s->threads = entries_of("/proc/self/task");
}

const char *zr_process_differs(const struct zr_process_state *a, const struct zr_process_state *b,
			       int all)
{
	return strcmp(a->cwd, b->cwd)		? "the working directory" :
	       strcmp(a->locale, b->locale)	? "the locale" :
	       a->environment != b->environment ? "the environment" :
	       a->handlers != b->handlers	? "the handler of a signal" :
	       all && a->files != b->files	? "which files are open" :
	       all && a->threads != b->threads	? "the number of threads" :
						  NULL;
}
