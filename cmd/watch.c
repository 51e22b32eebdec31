/* SPDX-License-Identifier: Apache-2.0
 *
 * watch.c - zeroth watch RUN: a run in the terminal while it trains, also one that was started
 * elsewhere: only its files are read.
 */
#include <langinfo.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/report/screen.h"
#include "train/run/outlet.h"
#include "train/run/signals.h"

struct watch_args {
	double interval;
};

static const struct zr_cmd_option options[] = {
	{ 'i', "interval", "SECONDS", "looks again after so long (default 1)",
	  .kind = ZR_CMD_NUMBER, .at = offsetof(struct watch_args, interval), .least = 0.05,
	  .most = 3600, .counts = "seconds" },
	{ 0 },
};

const struct zr_cmd_usage zr_watch_usage = {
	.command = "watch",
	.form = { { NULL, "RUN", NULL } },
	.about =
		"Shows the run of a run directory in the terminal while it trains: loss, speed and "
		"other\n"
		"curves, when no step came for a while, how it ended. Where standard output is no "
		"terminal,\n"
		"it is printed once.\n",
	.option = options,
	.more = "q or Ctrl-C ends it; the run goes on.\n",
};

static volatile sig_atomic_t ended, stopped;

static void note_end(int sig)
{
	ended = sig;
}

static void note_stop(int sig)
{
	(void)sig;
	stopped = 1;
}

static void note_size(int sig)
{
	(void)sig; /* poll returns */
}

static struct termios before;
static int keys; /* standard input is a terminal that gives single keys */

static void enter(void)
{
	struct termios now;

	keys = isatty(STDIN_FILENO) && !tcgetattr(STDIN_FILENO, &before);
	if (keys) {
		now = before;
		now.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
		now.c_cc[VMIN] = 0;
		now.c_cc[VTIME] = 0;
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &now);
	}

	fputs("\033[?1049h\033[?25l", stdout); /* another screen, without a cursor */
	fflush(stdout);
}

static void leave(void)
{
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	if (keys)
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &before);
}

static void handle_signals(void)
{
	static const int end[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };
	struct sigaction a = { .sa_handler = note_end };

	for (int i = 0; i < 4; i++)
		zr_signals_handle(end[i], &a);
	a.sa_handler = note_stop;
	zr_signals_handle(SIGTSTP, &a);
	a.sa_handler = note_size;
	sigaction(SIGWINCH, &a, NULL);
}

static int within(int n, int least, int most)
{
	if (n < least)
		return least;
	return n > most ? most : n;
}

static void size_of_terminal(struct zr_screen *s)
{
	struct winsize w;
	const char *columns = getenv("COLUMNS"), *rows = getenv("LINES");

	s->columns = columns ? atoi(columns) : 80;
	s->rows = rows ? atoi(rows) : 24;
	if (!ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) && w.ws_col && w.ws_row) {
		s->columns = w.ws_col;
		s->rows = w.ws_row;
	}

	s->columns = within(s->columns, 24, 400);
	s->rows = within(s->rows, 5, 200);
}

static int show(const struct zr_screen *s, const struct zr_run_files *run, struct zr_error *err)
{
	char *text = NULL;
	size_t n;
	FILE *f = open_memstream(&text, &n);
	int rc = !f || zr_screen_write(s, run, f);

	rc |= f && fclose(f);
	if (!rc) {
		fputs(s->marks ? "\033[H" : "", stdout);
		fwrite(text, 1, n, stdout);
		fputs(s->marks ? "\033[2mq ends\033[0m\033[K\033[J" : "", stdout);
		zr_outlet_push();
	}

	free(text);
	return rc ? zr_no_memory(err) : 0;
}

/* Waits for a key, a signal or the end of the interval; whether to go on. */
static int wait_for_more(double seconds)
{
	struct pollfd in = { STDIN_FILENO, POLLIN, 0 };
	char key;

	int n = poll(&in, keys, (int)(seconds * 1000));
	if (n > 0 && (in.revents & (POLLHUP | POLLERR)))
		return 0;
	if (n > 0)
		while (read(STDIN_FILENO, &key, 1) == 1)
			if (key == 'q' || key == 'Q')
				return 0;
	if (stopped && !ended) {
		stopped = 0;
		leave();
		raise(SIGSTOP);
		enter();
	}

	return !ended;
}

static int watch(struct zr_run_files *run, double interval, struct zr_error *err)
{
	struct zr_screen s = { .end = "\n" };

	setlocale(LC_CTYPE, "");
	s.with = strcmp(nl_langinfo(CODESET), "UTF-8") ? ZR_PLOT_ASCII : ZR_PLOT_BRAILLE;
	s.marks = isatty(STDOUT_FILENO);
	size_of_terminal(&s);
	int rc = zr_screen_read(run, err);
	if (rc || !s.marks)
		return rc ? rc : show(&s, run, err);

	s.end = "\033[K\n";
	handle_signals();
	enter();
	do {
		size_of_terminal(&s);
		rc = zr_screen_read(run, err);
		if (!rc)
			rc = show(&s, run, err);
	} while (!rc && wait_for_more(interval));
	leave();
	return rc;
}

int zr_cmd_watch(int argc, char **argv)
{
	struct watch_args a = { .interval = 1 };
	struct zr_cmd_operands operands;
	struct zr_run_files run;
	struct zr_error err = { 0 };

	int rc = zr_cmd_parse(argc, argv, &zr_watch_usage, NULL, &a, &operands);
	if (rc >= 0)
		return rc;

	rc = zr_run_files_open(&run, operands.at[0], &err);
	if (!rc) {
		rc = watch(&run, a.interval, &err);
		zr_run_files_close(&run);
	}

	return rc ? zr_cmd_failed(&err) : 0;
}
