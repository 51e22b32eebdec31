/* SPDX-License-Identifier: Apache-2.0
 *
 * agent.c - see agent.h.
 *
 * The process that talks to the launcher has one child, which supervises the ranks and dies with
 * it. How the ranks ended is in memory that both share.
 */
#include "train/run/agent.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/child.h"
#include "core/session.h"
#include "train/beat.h"
#include "train/run/frames.h"
#include "train/run/outlet.h"

#define BEAT 0.5 /* seconds between two */
#define LOOK 200 /* milliseconds until the child is looked for */

#define MOST_RANKS (1 << 18)

struct agent {
	struct zr_frames in;
	pid_t child; /* 0: no job yet */
	int out, err;
	int is_alone; /* the launcher has gone */
	double beat_at;
	int has_dir;   /* the launcher knows the run directory */
	int64_t saved; /* what it knows of beat->saved */
	struct zr_beat *beat;
	struct zr_crew_end *end; /* shared with the child */
};

static volatile sig_atomic_t asked; /* a signal that asks this process to end */

static void note_signal(int sig)
{
	asked = sig;
}

/* ---- the port -------------------------------------------------------------------- */

/* A port that nobody listens on at this moment, or -errno. */
static int32_t free_port(void)
{
	struct sockaddr_in at = { .sin_family = AF_INET };
	socklen_t size = sizeof at;
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int failed = fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof at) ||
		     getsockname(fd, (struct sockaddr *)&at, &size);
	int why = errno;

	if (fd >= 0)
		close(fd);
	return failed ? -why : ntohs(at.sin_port);
}

static void answer_port(void)
{
	const int32_t port = free_port();
	zr_frame_write(STDOUT_FILENO, ZR_FRAME_PORT, &port, sizeof port);
}

/* ---- the job --------------------------------------------------------------------- */

/* The texts behind the head of a job. NULL: there are fewer than it says, or no memory. */
static char **split_texts(const char *from, size_t bytes, const struct zr_frame_job *job)
{
	const size_t most = ZR_FRAMES_MOST;
	if (job->n_variables < 0 || job->n_words < 1 || (size_t)job->n_variables > most ||
	    (size_t)job->n_words > most)
		return NULL;

	const size_t n = 1 + (size_t)job->n_variables + (size_t)job->n_words;
	char **text = calloc(n + 1, sizeof *text);
	char *copy = malloc(bytes + 1);
	if (!text || !copy) {
		free(text);
		free(copy);
		return NULL;
	}

	memcpy(copy, from, bytes);
	copy[bytes] = 0;
	char *next = copy, *behind = copy + bytes;
	for (size_t i = 0; i < n; i++) {
		if (next >= behind) {
			free(text);
			free(copy);
			return NULL;
		}

		text[i] = next;
		next += strlen(next) + 1;
	}

	return text;
}

/* Whether these can be ranks of a training. */
static int has_ranks(const struct zr_frame_job *job)
{
	return job->first >= 0 && job->n > 0 && job->world <= MOST_RANKS &&
	       job->first <= job->world - job->n;
}

/* The job of a frame, and its texts, as split_texts; NULL: it is none. */
static char **take_job(const struct zr_frame_head *head, struct zr_frame_job *job)
{
	if (head->bytes < sizeof *job)
		return NULL;

	memcpy(job, head + 1, sizeof *job);
	if (!has_ranks(job))
		return NULL;
	return split_texts((const char *)(head + 1) + sizeof *job, head->bytes - sizeof *job, job);
}

/* In the child: its directory and environment. 0, or 4 after a line. */
static int enter(const struct zr_frame_job *job, char **text)
{
	if (chdir(text[0])) {
		fprintf(stderr,
			"zeroth: %s: %s: the directory in which zeroth launch runs must be there "
			"on each machine\n",
			text[0], strerror(errno));
		return 4;
	}

	for (int i = 0; i < job->n_variables; i++)
		if (putenv(text[1 + i])) {
			fprintf(stderr, "zeroth: out of memory\n");
			return 4;
		}
	return 0;
}

static void be_child(struct agent *a, const struct zr_frame_job *job, char **text, int out, int err,
		     zr_agent_run *run)
{
	struct zr_agent_place place = { job->first, job->n, job->world };
	int null = open("/dev/null", O_RDWR);

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	zr_child_signals();
	dup2(null, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(err, STDERR_FILENO);
	close(null);
	close(out);
	close(err);
	zr_outlets_begin();

	int code = enter(job, text);
	if (!code)
		code = run(job->n_words, text + 1 + job->n_variables, &place, a->end);
	zr_outlet_push();
	_exit(code);
}

static int no_job(const char *why)
{
	fprintf(stderr, "zeroth: cannot start ranks: %s\n", why);
	return -1;
}

static int start_job(struct agent *a, const struct zr_frame_head *head, zr_agent_run *run)
{
	struct zr_frame_job job;
	int out[2], err[2];

	char **text = a->child ? NULL : take_job(head, &job);
	if (!text)
		return no_job("the launcher's job is none, or there is no memory for it");
	if (pipe2(out, O_CLOEXEC) || pipe2(err, O_CLOEXEC))
		return no_job(strerror(errno));

	fflush(NULL);
	a->child = fork();
	if (a->child == 0)
		be_child(a, &job, text, out[1], err[1], run);
	close(out[1]);
	close(err[1]);
	a->out = out[0];
	a->err = err[0];
	free(text[0]);
	free(text);
	return a->child < 0 ? no_job(strerror(errno)) : 0;
}

/* ---- talking --------------------------------------------------------------------- */

static void take_signal(struct agent *a, const struct zr_frame_head *head)
{
	int32_t sig;
	if (!a->child || head->bytes != sizeof sig)
		return;

	memcpy(&sig, head + 1, sizeof sig);
	kill(a->child, sig);
}

/* What the launcher has sent. -1: this agent cannot go on. */
static int listen_to_launcher(struct agent *a, zr_agent_run *run)
{
	const struct zr_frame_head *head;
	int broken, rc = 0;

	if (zr_frames_fill(&a->in) < 0) {
		a->is_alone = 1;
		if (a->child)
			kill(a->child, SIGTERM);
	}

	while (!rc && (head = zr_frames_first(&a->in, &broken))) {
		if (head->kind == ZR_FRAME_PORT)
			answer_port();
		else if (head->kind == ZR_FRAME_SIGNAL)
			take_signal(a, head);
		else if (head->kind == ZR_FRAME_JOB)
			rc = start_job(a, head, run);
		zr_frames_drop(&a->in, sizeof *head + head->bytes);
	}

	return broken ? no_job("what came is not from a launcher") : rc;
}

/* Passes on what the child's ranks print. Whether there was something. */
static int pass_on(int *from, int kind)
{
	char text[1 << 14];
	if (*from < 0)
		return 0;

	ssize_t n = read(*from, text, sizeof text);
	if (n < 0 && errno == EINTR)
		return 1;
	if (n > 0) {
		zr_frame_write(STDOUT_FILENO, kind, text, (size_t)n);
		return 1;
	}

	close(*from);
	*from = -1;
	return 0;
}

/* What is left in a pipe that something else may hold open. */
static void drain(int *from, int kind)
{
	struct pollfd p = { *from, POLLIN, 0 };
	while (p.fd >= 0 && poll(&p, 1, 0) > 0 && pass_on(from, kind))
		p.fd = *from;
}

/* What a restart needs is told at once, before what the ranks print afterwards: this machine may
 * be gone a moment later. */
static void send_beat(struct agent *a)
{
	struct zr_frame_beat beat;
	const int is_news = (*a->beat->dir && !a->has_dir) ||
			    atomic_load(&a->beat->saved) != a->saved;
	if (!is_news && zr_now() - a->beat_at < BEAT)
		return;

	a->beat_at = zr_now();
	a->has_dir = *a->beat->dir != 0;
	a->saved = atomic_load(&a->beat->saved);
	zr_beat_look(a->beat);
	zr_frame_from_beat(a->beat, &beat);
	zr_frame_write(STDOUT_FILENO, ZR_FRAME_BEAT, &beat, sizeof beat);
}

/* The exit code of the child, or -1 if a signal killed it before its ranks had ended. */
static int code_of(const struct agent *a, int status)
{
	return WIFEXITED(status) ? WEXITSTATUS(status) : a->end->code;
}

/* The child ended with this status. Returns its exit code. */
static int send_end(struct agent *a, int status)
{
	struct zr_frame_end *f = calloc(1, sizeof *f);
	int code = 4;

	drain(&a->out, ZR_FRAME_OUT);
	drain(&a->err, ZR_FRAME_ERR);
	if (!f)
		return code;

	zr_beat_look(a->beat);
	zr_frame_from_beat(a->beat, &f->beat);
	f->end = *a->end;
	f->code = code_of(a, status);
	if (f->code < 0) {
		f->code = 4;
		f->end.died = 1;
		snprintf(f->end.text, sizeof f->end.text,
			 "the supervisor of its ranks was killed by signal %d", WTERMSIG(status));
	}

	code = f->code;
	zr_frame_write(STDOUT_FILENO, ZR_FRAME_END, f, sizeof *f);
	free(f);
	return code;
}

/* ---- life ------------------------------------------------------------------------ */

static int serve(struct agent *a, zr_agent_run *run)
{
	int status;

	while (!a->is_alone || a->child) {
		struct pollfd p[3] = { { a->is_alone ? -1 : a->in.fd, POLLIN, 0 },
				       { a->out, POLLIN, 0 },
				       { a->err, POLLIN, 0 } };
		if (poll(p, 3, a->child ? LOOK : -1) < 0 && errno != EINTR)
			return 4;
		if (asked && !a->child)
			return 130;

		if (asked)
			kill(a->child, asked);
		asked = 0;
		if (p[0].revents && listen_to_launcher(a, run))
			return 4;
		if (a->child)
			send_beat(a);
		if (p[1].revents)
			pass_on(&a->out, ZR_FRAME_OUT);
		if (p[2].revents)
			pass_on(&a->err, ZR_FRAME_ERR);
		if (a->child && zr_child_ended(a->child, &status))
			return send_end(a, status);
	}

	return 0;
}

int zr_agent_main(zr_agent_run *run, const char *version)
{
	const int end[] = { SIGINT, SIGTERM, SIGHUP };
	struct sigaction note = { .sa_handler = note_signal };
	struct agent a = { .in.fd = STDIN_FILENO, .out = -1, .err = -1, .beat = zr_beat_new() };
	void *shared = mmap(NULL, sizeof *a.end, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);

	if (!a.beat || shared == MAP_FAILED) {
		no_job("out of memory");
		return 4;
	}

	a.end = shared;
	a.end->code = -1;
	a.beat->latest = -1;
	signal(SIGPIPE, SIG_IGN);
	for (size_t i = 0; i < sizeof end / sizeof *end; i++)
		sigaction(end[i], &note, NULL);
	fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
	printf("%s%s\n", ZR_FRAMES_HELLO, version);
	fflush(stdout);

	int code = serve(&a, run);
	zr_frames_free(&a.in);
	munmap(shared, sizeof *a.end);
	zr_beat_free();
	return code;
}
