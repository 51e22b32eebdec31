/* SPDX-License-Identifier: Apache-2.0
 *
 * machines.c - see machines.h.
 *
 * One thread, one poll: a signalfd, and per machine the output and the errors of its remote shell.
 * The shells are in process groups of their own, so that Ctrl-C on the terminal comes to the
 * launcher alone, which hands it on to the ranks.
 */
#include "train/run/machines.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/child.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/session.h"
#include "train/beat.h"
#include "train/run/frames.h"
#include "train/run/signals.h"

#define LINE         2048
#define GREETING     60.0 /* seconds in which an agent must say that it is there */
#define SILENCE      60.0 /* seconds after which an agent that says nothing has gone */
#define PORTS        65535
#define PATIENCE     5.0 /* seconds from one way to end ranks to the next */
#define SHELL_MOMENT 2.0 /* seconds in which a shell ends by itself, and when it is asked to */
#define ERASE        "\r\033[K"
#define DAMAGED      "what its agent sends is damaged"

enum state { NOT_USED, STARTING, READY, RUNNING, ENDED };

struct line {
	size_t used;
	char text[LINE];
};

struct machine {
	const struct zr_machine_name *name;
	int has_gone; /* in the last attempt in which it was used */
	enum state state;
	int first, ranks;
	pid_t shell;
	int to, errors; /* -1: closed */
	struct zr_frames from;
	double heard;
	struct line said, complained; /* by the agent before its greeting, and by the shell */
	struct zr_crew_end end;
	int code, order; /* order: 1 for the first one that failed; 0: it did not by itself */
};

struct zr_machines {
	const struct zr_machines_how *how;
	struct machine *machine; /* [how->n] */
	struct pollfd *polled;   /* [2 * how->n + 1] */
	char token[33];
	/* of the attempt that runs */
	char *const *words;
	int n_words, world, used, failed;
	int port; /* 0: not known yet */
	int signals, is_terminal, interrupted;
	double since, stop_at; /* when the first signal came; when machines were asked to end */
	int stops;             /* how often */
};

/* ---- what is printed ------------------------------------------------------------- */

static void print_line(const struct zr_machines *m, const struct machine *one, struct line *l)
{
	fprintf(stderr, "%s%s: %.*s\n", m->is_terminal ? ERASE : "", one->name->host, (int)l->used,
		l->text);
	l->used = 0;
}

/* Text of a shell, a line at a time. A line that is too long becomes two. */
static void add_to_line(const struct zr_machines *m, const struct machine *one, struct line *l,
			const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '\n' || l->used == LINE)
			print_line(m, one, l);
		if (text[i] != '\n' && text[i] != '\r')
			l->text[l->used++] = text[i];
	}
}

/* ---- ends ------------------------------------------------------------------------ */

static void send_signal(const struct zr_machines *m, int sig)
{
	const int32_t number = sig;
	for (int i = 0; i < m->how->n; i++)
		if (m->machine[i].state == RUNNING)
			zr_frame_write(m->machine[i].to, ZR_FRAME_SIGNAL, &number, sizeof number);
}

static void close_end(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* Those that train nothing yet need no signal: their agents end with their input. */
static void leave_waiting(struct zr_machines *m)
{
	for (int i = 0; i < m->how->n; i++)
		if (m->machine[i].state == STARTING || m->machine[i].state == READY)
			close_end(&m->machine[i].to);
}

static int is_busy(const struct machine *one)
{
	return one->state != NOT_USED && one->state != ENDED;
}

static void stop_all(struct zr_machines *m);

static void note_end(struct zr_machines *m, struct machine *one, int code)
{
	const int was_asked = code == 130 && (m->interrupted || m->stop_at > 0);

	one->state = ENDED;
	one->code = code;
	close_end(&one->to);
	if (!code || was_asked)
		return;

	one->order = ++m->failed;
	if (!m->stops)
		stop_all(m);
}

/* It has gone without a word of how its ranks ended. */
static void note_gone(struct zr_machines *m, struct machine *one, const char *text)
{
	snprintf(one->end.text, sizeof one->end.text, "%s", text);
	one->end.died = 1;
	one->has_gone = 1;
	note_end(m, one, 4);
}

/* Waits for the end of its shell, which it has a moment for before it is asked to, and another one
 * before it is killed. Returns the status. */
static int end_shell(struct machine *one)
{
	const double start = zr_now();
	int status = 0, asked = 0;

	while (!zr_child_ended(one->shell, &status)) {
		const double past = zr_now() - start;
		if (past > asked * SHELL_MOMENT + SHELL_MOMENT)
			kill(-one->shell, asked++ ? SIGKILL : SIGTERM);
		poll(NULL, 0, 10);
	}

	one->shell = 0;
	return status;
}

/* Its shell has ended with this status, and its agent has said no end of ranks. */
static void explain_shell(struct zr_machines *m, struct machine *one, int status)
{
	const char *what = one->state == STARTING ? "no agent" : "it has gone";
	char text[160];

	if (WIFSIGNALED(status))
		snprintf(text, sizeof text, "%s: its remote shell was killed by signal %d", what,
			 WTERMSIG(status));
	else
		snprintf(text, sizeof text, "%s: its remote shell ended with code %d", what,
			 WEXITSTATUS(status));
	note_gone(m, one, text);
}

/* Its output has ended, so that its shell ends, too. */
static void lose(struct zr_machines *m, struct machine *one)
{
	close_end(&one->from.fd);
	if (one->state == ENDED)
		return;

	if (m->stops && one->state != RUNNING)
		note_end(m, one, 130);
	else
		explain_shell(m, one, end_shell(one));
}

/* A machine that says nothing any more. */
static void give_up(struct zr_machines *m, struct machine *one, const char *text)
{
	if (one->shell > 0)
		kill(-one->shell, SIGKILL);
	note_gone(m, one, text);
}

/* Asks all to end, more firmly each time. */
static void stop_all(struct zr_machines *m)
{
	m->stop_at = zr_now();
	m->stops++;
	leave_waiting(m);
	if (m->stops == 1)
		send_signal(m, SIGTERM);
	if (m->stops == 2)
		send_signal(m, SIGKILL);
	if (m->stops < 3)
		return;

	for (int i = 0; i < m->how->n; i++)
		if (is_busy(&m->machine[i]))
			give_up(m, &m->machine[i], "it did not end its ranks when it was asked to");
}

/* ---- starting -------------------------------------------------------------------- */

static int is_here(const char *host)
{
	char own[256] = "";
	gethostname(own, sizeof own - 1);
	return !strcmp(host, "localhost") || !strcmp(host, own);
}

/* The word with the name in the place of {host}, owned; *named: whether it had that. */
static char *put_host(const char *word, const char *host, int *named)
{
	static const char place[] = "{host}";
	const char *at = strstr(word, place);
	if (!at)
		return zr_text("%s", word);

	*named = 1;
	return zr_text("%.*s%s%s", (int)(at - word), word, host, at + strlen(place));
}

static int is_ssh(const char *word)
{
	const char *slash = strrchr(word, '/');
	return !strcmp(slash ? slash + 1 : word, "ssh");
}

/* The words of the command that starts an agent, all owned. NULL: no memory. */
static char **agent_words(const struct zr_machines_how *how, const char *host)
{
	const int by_ssh = is_ssh(how->shell[0]);
	const int is_remote = !is_here(host) || !by_ssh;
	char **word = calloc((size_t)how->n_shell + 5, sizeof *word);
	int n = 0, named = 0;
	if (!word)
		return NULL;

	for (int i = 0; is_remote && i < how->n_shell; i++)
		word[n++] = put_host(how->shell[i], host, &named);
	if (is_remote && !named)
		word[n++] = zr_text("%s", host);
	if (is_remote && by_ssh)
		word[n++] = zr_text_quoted(how->program); /* ssh gives it to a shell */
	else
		word[n++] = zr_text("%s", how->program);
	word[n++] = zr_text("launch");
	word[n++] = zr_text("--agent");
	return word;
}

static void free_words(char **word)
{
	for (char **w = word; w && *w; w++)
		free(*w);
	free(word);
}

static void become_shell(char **word, const int ends[3])
{
	setpgid(0, 0);
	zr_child_signals();
	for (int i = 0; i < 3; i++)
		dup2(ends[i], i);
	execvp(word[0], word);
	dprintf(STDERR_FILENO, "%s: %s\n", word[0], strerror(errno));
	_exit(127);
}

/* 0 or -1 with errno. */
static int start_shell(const struct zr_machines *m, struct machine *one)
{
	int in[2], out[2], err[2];
	char **word = agent_words(m->how, one->name->host);

	if (!word || pipe2(in, O_CLOEXEC) || pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC)) {
		free_words(word);
		return -1;
	}

	fflush(NULL);
	one->shell = fork();
	if (one->shell == 0)
		become_shell(word, (const int[3]){ in[0], out[1], err[1] });
	free_words(word);
	close(in[0]);
	close(out[1]);
	close(err[1]);
	one->to = in[1];
	one->from.fd = out[0];
	one->errors = err[0];
	fcntl(one->from.fd, F_SETFL, O_NONBLOCK);
	one->state = STARTING;
	one->heard = zr_now();
	return one->shell < 0 ? -1 : 0;
}

/* Slots of the machines that have not gone. */
static int slots_left(const struct zr_machines *m)
{
	int n = 0;
	for (int i = 0; i < m->how->n; i++)
		if (!m->machine[i].has_gone)
			n += m->machine[i].name->slots;
	return n;
}

/* Which machine has which ranks. */
static void place_ranks(struct zr_machines *m)
{
	const int without_gone = slots_left(m) >= m->world;
	int next = 0;

	m->used = 0;
	for (int i = 0; i < m->how->n; i++) {
		struct machine *one = &m->machine[i];
		const int left = m->world - next;
		const int has_gone = one->has_gone;
		*one = (struct machine){ .name = one->name,
					 .has_gone = has_gone && without_gone,
					 .to = -1,
					 .errors = -1,
					 .from.fd = -1,
					 .first = next };
		if (one->has_gone || !left)
			continue;

		one->ranks = one->name->slots < left ? one->name->slots : left;
		next += one->ranks;
		m->used++;
	}
}

static struct machine *first_used(const struct zr_machines *m)
{
	for (int i = 0; i < m->how->n; i++)
		if (m->machine[i].ranks)
			return &m->machine[i];
	return NULL;
}

/* ---- the job --------------------------------------------------------------------- */

/* The address of the first machine, as others reach it: its name without a user. */
static const char *address_of(const struct machine *one)
{
	const char *at = strchr(one->name->host, '@');
	return at ? at + 1 : one->name->host;
}

static int send_job(const struct zr_machines *m, struct machine *one)
{
	const struct zr_machines_how *how = m->how;
	struct zr_frame_job job = { .first = one->first,
				    .n = one->ranks,
				    .world = m->world,
				    .n_variables = how->n_variables + 3,
				    .n_words = m->n_words };
	char *text = NULL, *directory = getcwd(NULL, 0);
	size_t bytes;
	FILE *f = open_memstream(&text, &bytes);
	int rc = -1;

	if (f && directory) {
		fwrite(&job, sizeof job, 1, f);
		fprintf(f, "%s%c", directory, 0);
		fprintf(f, "MASTER_ADDR=%s%c", address_of(first_used(m)), 0);
		fprintf(f, "MASTER_PORT=%d%c", m->port, 0);
		fprintf(f, "ZEROTH_TOKEN=%s%c", m->token, 0);
		for (int i = 0; i < how->n_variables; i++)
			fprintf(f, "%s%c", how->variable[i], 0);
		for (int i = 0; i < m->n_words; i++)
			fprintf(f, "%s%c", m->words[i], 0);
	}
	if (f && !fclose(f) && directory && bytes <= ZR_FRAMES_MOST)
		rc = zr_frame_write(one->to, ZR_FRAME_JOB, text, bytes);
	free(text);
	free(directory);
	one->state = RUNNING;
	one->heard = zr_now();
	return rc;
}

/* Once all agents are there and the port is known. */
static void send_jobs(struct zr_machines *m)
{
	int ready = 0;
	for (int i = 0; i < m->how->n; i++)
		ready += m->machine[i].state == READY;
	if (ready < m->used || m->stops)
		return;

	if (!m->port) {
		zr_frame_write(first_used(m)->to, ZR_FRAME_PORT, "", 0);
		return;
	}

	for (int i = 0; i < m->how->n; i++)
		if (m->machine[i].state == READY && send_job(m, &m->machine[i]))
			give_up(m, &m->machine[i], "its agent cannot be given a job");
}

/* ---- what agents say ------------------------------------------------------------- */

static void take_greeting(struct zr_machines *m, struct machine *one, const char *version)
{
	const char *wanted = m->how->version;
	if (strcmp(version, wanted)) {
		snprintf(one->end.text, sizeof one->end.text,
			 "it has zeroth %s, and this is %s: install the same on each machine",
			 version, wanted);
		note_end(m, one, 2);
		return;
	}

	one->state = READY;
	send_jobs(m);
}

/* A shell may print lines of its own before the agent's greeting, of any length. */
static void look_for_greeting(struct zr_machines *m, struct machine *one)
{
	const size_t hello = strlen(ZR_FRAMES_HELLO);
	char *end;

	while (one->state == STARTING &&
	       (end = memchr(one->from.data, '\n', one->from.used)) != NULL) {
		const char *line = one->from.data;
		const size_t n = (size_t)(end - line);
		char version[64];

		if (n < hello || memcmp(line, ZR_FRAMES_HELLO, hello)) {
			add_to_line(m, one, &one->said, line, n + 1);
			zr_frames_drop(&one->from, n + 1);
			continue;
		}

		snprintf(version, sizeof version, "%.*s", (int)(n - hello), line + hello);
		zr_one_line(version);
		zr_frames_drop(&one->from, n + 1);
		take_greeting(m, one, version);
	}

	if (one->state == STARTING && one->from.used > LINE) {
		add_to_line(m, one, &one->said, one->from.data, one->from.used);
		zr_frames_drop(&one->from, one->from.used);
	}
}

/* Whether the frame is one of that size; else the machine is given up. */
static int has_size(struct zr_machines *m, struct machine *one, const struct zr_frame_head *head,
		    size_t bytes)
{
	if (head->bytes == bytes)
		return 1;

	give_up(m, one, DAMAGED);
	return 0;
}

static void take_port(struct zr_machines *m, struct machine *one, const struct zr_frame_head *head)
{
	int32_t port;
	if (!has_size(m, one, head, sizeof port))
		return;

	memcpy(&port, head + 1, sizeof port);
	if (port > 0 && port <= PORTS) {
		m->port = port;
		send_jobs(m);
		return;
	}

	snprintf(one->end.text, sizeof one->end.text, "no port is free there: %s",
		 strerror(port < 0 && port >= -PORTS ? -port : EINVAL));
	note_end(m, one, 4);
}

/* Whether it can be used. */
static int take_beat(const struct zr_machines *m, const struct machine *one,
		     const struct zr_frame_beat *beat)
{
	if (!zr_frame_is_beat(beat))
		return 0;
	if (one == first_used(m))
		zr_frame_to_beat(beat, zr_beat_shared());
	return 1;
}

static void hear_beat(struct zr_machines *m, struct machine *one, const struct zr_frame_head *head)
{
	static struct zr_frame_beat beat;
	if (!has_size(m, one, head, sizeof beat))
		return;

	memcpy(&beat, head + 1, sizeof beat);
	if (!take_beat(m, one, &beat))
		give_up(m, one, DAMAGED);
}

static void take_end(struct zr_machines *m, struct machine *one, const struct zr_frame_head *head)
{
	static struct zr_frame_end end;
	if (!has_size(m, one, head, sizeof end))
		return;

	memcpy(&end, head + 1, sizeof end);
	if (!take_beat(m, one, &end.beat) || end.code < 0 || end.code > UINT8_MAX) {
		give_up(m, one, DAMAGED);
		return;
	}

	one->end = end.end;
	one->end.text[sizeof one->end.text - 1] = 0;
	zr_one_line(one->end.text);
	note_end(m, one, end.code);
}

static void take_frame(struct zr_machines *m, struct machine *one, const struct zr_frame_head *head)
{
	const void *data = head + 1;

	switch ((enum zr_frame_kind)head->kind) {
	case ZR_FRAME_PORT:
		take_port(m, one, head);
		return;
	case ZR_FRAME_OUT:
		fwrite(data, 1, head->bytes, stdout);
		fflush(stdout);
		return;
	case ZR_FRAME_ERR:
		fwrite(data, 1, head->bytes, stderr);
		return;
	case ZR_FRAME_BEAT:
		hear_beat(m, one, head);
		return;
	case ZR_FRAME_END:
		take_end(m, one, head);
		return;
	case ZR_FRAME_JOB:
	case ZR_FRAME_SIGNAL:
		return;
	}
}

static int is_heard(const struct machine *one)
{
	return one->state == READY || one->state == RUNNING;
}

static void hear(struct zr_machines *m, struct machine *one)
{
	const struct zr_frame_head *head;
	int broken = 0, there = zr_frames_fill(&one->from);

	if (one->from.data && one->state == STARTING)
		look_for_greeting(m, one);
	if (one->state != STARTING) /* what a shell prints is no word of the agent */
		one->heard = zr_now();
	while (is_heard(one) && (head = zr_frames_first(&one->from, &broken))) {
		take_frame(m, one, head);
		zr_frames_drop(&one->from, sizeof *head + head->bytes);
	}
	if (one->state == ENDED) /* its last word was the one before */
		zr_frames_drop(&one->from, one->from.used);

	if (broken && one->state != ENDED)
		give_up(m, one, DAMAGED);
	if (broken || there < 0)
		lose(m, one);
}

static void hear_errors(struct zr_machines *m, struct machine *one)
{
	char text[4096];
	ssize_t n = read(one->errors, text, sizeof text);
	if (n < 0 && errno == EINTR)
		return;

	if (n > 0) {
		add_to_line(m, one, &one->complained, text, (size_t)n);
		return;
	}

	if (one->complained.used)
		print_line(m, one, &one->complained);
	close_end(&one->errors);
}

/* ---- watching -------------------------------------------------------------------- */

static void take_signals(struct zr_machines *m)
{
	struct signalfd_siginfo in;

	while (read(m->signals, &in, sizeof in) == sizeof in) {
		if (!m->interrupted) {
			m->interrupted = (int)in.ssi_signo;
			m->since = zr_now();
			leave_waiting(m);
			send_signal(m, m->interrupted);
		} else if (in.ssi_signo != SIGHUP && zr_now() - m->since > ZR_SIGNAL_MOMENT) {
			m->stops = m->stops < 1 ? 1 : m->stops;
			stop_all(m);
		}
	}
}

static void check_time(struct zr_machines *m)
{
	const double now = zr_now();
	char text[160];

	for (int i = 0; i < m->how->n; i++) {
		struct machine *one = &m->machine[i];
		const double limit = one->state == STARTING ? GREETING : SILENCE;
		const int waits = one->state == STARTING || one->state == RUNNING;
		if (!waits || now - one->heard < limit)
			continue;

		snprintf(text, sizeof text, "no word of it for %g s", limit);
		give_up(m, one, text);
	}

	if (m->stop_at > 0 && now - m->stop_at > PATIENCE)
		stop_all(m);
}

static int is_anybody_left(const struct zr_machines *m)
{
	for (int i = 0; i < m->how->n; i++)
		if (is_busy(&m->machine[i]))
			return 1;
	return 0;
}

/* Until all machines have ended. */
static void watch(struct zr_machines *m)
{
	const int n = m->how->n;

	while (is_anybody_left(m)) {
		m->polled[2 * n] = (struct pollfd){ m->signals, POLLIN, 0 };
		for (int i = 0; i < n; i++) {
			m->polled[2 * i] = (struct pollfd){ m->machine[i].from.fd, POLLIN, 0 };
			m->polled[2 * i + 1] = (struct pollfd){ m->machine[i].errors, POLLIN, 0 };
		}
		if (poll(m->polled, 2 * (nfds_t)n + 1, 500) < 0)
			continue;

		for (int i = 0; i < n; i++) {
			if (m->polled[2 * i + 1].revents)
				hear_errors(m, &m->machine[i]);
			if (m->polled[2 * i].revents)
				hear(m, &m->machine[i]);
		}
		if (m->polled[2 * n].revents)
			take_signals(m);
		check_time(m);
	}
}

/* Prints what shells have said last, and ends them. */
static void end_shells(struct zr_machines *m)
{
	for (int i = 0; i < m->how->n; i++) {
		struct machine *one = &m->machine[i];
		struct pollfd p = { one->errors, POLLIN, 0 };
		while (p.fd >= 0 && poll(&p, 1, 0) > 0) {
			hear_errors(m, one);
			p.fd = one->errors;
		}

		close_end(&one->to);
		close_end(&one->from.fd);
		close_end(&one->errors);
		zr_frames_free(&one->from);
		if (one->shell > 0)
			end_shell(one);
	}
}

/* ---- why ------------------------------------------------------------------------- */

/* The machine that failed first, but one whose ranks only missed others if there is no better. */
static const struct machine *culprit(const struct zr_machines *m)
{
	const struct machine *best = NULL;

	for (int i = 0; i < m->how->n; i++) {
		const struct machine *one = &m->machine[i];
		const int sooner = !best || one->end.weak < best->end.weak ||
				   (one->end.weak == best->end.weak && one->order < best->order);
		if (one->order && sooner)
			best = one;
	}

	return best;
}

static int explain(const struct zr_machines *m, struct zr_crew_end *end)
{
	const struct machine *one = culprit(m);
	*end = (struct zr_crew_end){ .left = slots_left(m), .interrupted = m->interrupted };
	if (!one)
		return m->interrupted ? 130 : 0;

	end->died = one->end.died;
	end->weak = one->end.weak;
	if (*one->end.text)
		snprintf(end->text, sizeof end->text, "%s: %.1000s", one->name->host,
			 one->end.text);
	else
		snprintf(end->text, sizeof end->text, "%s: its ranks ended with code %d",
			 one->name->host, one->code);
	return one->code;
}

/* ---- life ------------------------------------------------------------------------ */

static int draw_token(char token[33])
{
	unsigned char random[16];
	if (getrandom(random, sizeof random, 0) != sizeof random)
		return -1;

	for (size_t i = 0; i < sizeof random; i++)
		snprintf(token + 2 * i, 3, "%02x", random[i]);
	return 0;
}

struct zr_machines *zr_machines_open(const struct zr_machines_how *how)
{
	struct zr_machines *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;

	m->how = how;
	m->machine = calloc((size_t)how->n, sizeof *m->machine);
	m->polled = calloc(2 * (size_t)how->n + 1, sizeof *m->polled);
	if (!m->machine || !m->polled || draw_token(m->token)) {
		zr_machines_close(m);
		return NULL;
	}

	for (int i = 0; i < how->n; i++)
		m->machine[i].name = &how->name[i];
	return m;
}

void zr_machines_close(struct zr_machines *m)
{
	if (!m)
		return;

	free(m->machine);
	free(m->polled);
	free(m);
}

static int cannot_start(struct zr_crew_end *end, const char *host)
{
	*end = (struct zr_crew_end){ 0 };
	snprintf(end->text, sizeof end->text, "%s: cannot start a remote shell: %s", host,
		 strerror(errno));
	return 4;
}

int zr_machines_train(struct zr_machines *m, int ranks, char *const *words, int n_words,
		      struct zr_crew_end *end)
{
	sigset_t ours, old;
	void (*old_pipe)(int) = signal(SIGPIPE, SIG_IGN);
	const char *lost = NULL;

	m->words = words;
	m->n_words = n_words;
	m->world = ranks;
	m->port = m->how->port;
	m->failed = m->interrupted = m->stops = 0;
	m->stop_at = 0;
	m->is_terminal = isatty(STDERR_FILENO);
	zr_signals_of_end(&ours);
	sigprocmask(SIG_BLOCK, &ours, &old);
	m->signals = signalfd(-1, &ours, SFD_CLOEXEC | SFD_NONBLOCK);

	place_ranks(m);
	for (int i = 0; i < m->how->n && !lost; i++)
		if (m->machine[i].ranks && start_shell(m, &m->machine[i]))
			lost = m->machine[i].name->host;
	int code = lost ? cannot_start(end, lost) : 0;
	if (lost)
		stop_all(m);
	watch(m);
	end_shells(m);
	if (!lost)
		code = explain(m, end);

	close_end(&m->signals);
	sigprocmask(SIG_SETMASK, &old, NULL);
	signal(SIGPIPE, old_pipe);
	return code;
}
