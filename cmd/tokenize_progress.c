/* SPDX-License-Identifier: Apache-2.0
 *
 * tokenize_progress.c - what zeroth tokenize says: how far it is, what a model of its tokens needs;
 * and whether somebody asked it to stop.
 */
#include "cmd/tokenize.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "train/run/progress.h"
#include "train/run/signals.h"

static volatile sig_atomic_t interrupted;

static void on_signal(int sig)
{
	interrupted = sig;
}

int zr_tokenize_stopped(void)
{
	return interrupted;
}

void zr_tokenize_catch(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = (int)SA_RESETHAND };
	zr_signals_handle(SIGINT, &sa);
	zr_signals_handle(SIGTERM, &sa);
}

void zr_tokenize_eta(uint64_t at, uint64_t all, double took, char text[80])
{
	char eta[32];
	*text = 0;
	if (all && at && at <= all)
		snprintf(text, 80, "  %.0f %%  ETA %s", 100.0 * (double)at / (double)all,
			 zr_duration_text(took * (double)(all - at) / (double)at, eta));
}

void zr_tokenize_vocabulary(int64_t tokens)
{
	printf("vocabulary  %lld tokens: [model] vocabulary = %lld, or more\n", (long long)tokens,
	       (long long)tokens);
}

const char *zr_tokenize_name(const char *path)
{
	return strcmp(path, "-") ? path : "standard input";
}

uint64_t zr_tokenize_bytes(char **in, int n)
{
	struct stat st;
	uint64_t all = 0;

	for (int i = 0; i < n; i++) {
		if (!strcmp(in[i], "-") || stat(in[i], &st) || !S_ISREG(st.st_mode))
			return 0;

		all += (uint64_t)st.st_size;
	}

	return all;
}
