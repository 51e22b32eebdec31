/* SPDX-License-Identifier: Apache-2.0
 *
 * log.c - lines on stderr and the live line of a terminal, under one lock, so that they never mix.
 */
#include "core/base/error.h"
#include "core/base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/ioctl.h>

#define ERASE "\r\033[K"

int (*zr_log_taker)(int level, const char *topic, const char *text);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int max_level = ZR_LOG_INFO;
static FILE *live_out;      /* under lock, as live_text */
static char live_text[512]; /* "" if none */

void zr_log_level(int level)
{
	max_level = level;
}

static void draw(const char *text)
{
	struct winsize w;
	int columns = sizeof live_text;
	/* a wrapped line could not be erased */
	if (!ioctl(fileno(live_out), TIOCGWINSZ, &w) && w.ws_col > 1)
		columns = w.ws_col - 1;
	fprintf(live_out, ERASE "%.*s", columns, text);
	fflush(live_out);
}

static const char *level_text(int level)
{
	static const char *const names[] = { "error: ", "warning: ", "", "debug: " };
	if (level < ZR_LOG_ERROR)
		level = ZR_LOG_ERROR;
	if (level > ZR_LOG_DEBUG)
		level = ZR_LOG_DEBUG;
	return names[level];
}

void zr_logf(int level, const char *topic, const char *fmt, ...)
{
	char text[2048];
	va_list ap;
	if (level > max_level && !zr_log_taker)
		return;

	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	zr_one_line(text);
	if ((zr_log_taker && zr_log_taker(level, topic, text)) || level > max_level)
		return;

	pthread_mutex_lock(&lock);
	if (live_text[0])
		draw("");
	fprintf(stderr, "zeroth: %s%s%s%s\n", level_text(level), topic ? topic : "",
		topic && *topic ? ": " : "", text);
	if (live_text[0])
		draw(live_text);
	pthread_mutex_unlock(&lock);
}

void zr_log_live(FILE *out, const char *line)
{
	pthread_mutex_lock(&lock);
	live_out = out;
	snprintf(live_text, sizeof live_text, "%s", line ? line : "");
	draw(live_text);
	pthread_mutex_unlock(&lock);
}
