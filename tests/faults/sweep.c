/* SPDX-License-Identifier: Apache-2.0
 *
 * sweep.c - runs a command once for each call that it can be made to see fail, and judges how each
 * run ends.
 *
 *   sweep OPTION... -- COMMAND... -- GO-ON...
 *
 * COMMAND runs in WORK, a fresh copy of BASE each time. Without a fault it must succeed; what it
 * prints last and the files that it leaves are what every run with a fault is compared with. A run
 * ends right if it succeeds with the same last line and files; it stops clean if it fails in time,
 * its last line names the cause, and GO-ON, without a fault, goes on from what is left to END, from
 * no earlier a step than what was saved. Anything else is listed. GO-ON runs once for each state
 * that is left.
 *
 * Each run gives a line as it ends: "point", name, call, "right", "clean" or "else", and for the
 * last what it was: the fault, where it struck, what is wrong. So what was tried is known also of a
 * sweep that is cut.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/faults/faults.h"
#include "tests/faults/job.h"
#include "tests/faults/tree.h"

#define LIMIT 20.0 /* seconds */

static const char *const call_name[] = FAULT_NAMES;

/* How calls fail. `later`: so do all that follow. */
static const struct {
	enum fault_call call;
	const char *kind;
	int later;
} ways[] = {
	{ FAULT_ALLOC, "ENOMEM", 0 }, { FAULT_ALLOC, "ENOMEM", 1 }, { FAULT_MMAP, "ENOMEM", 0 },
	{ FAULT_OPEN, "EIO", 0 },     { FAULT_OPEN, "EMFILE", 0 },  { FAULT_READ, "EIO", 0 },
	{ FAULT_READ, "EINTR", 0 },   { FAULT_READ, "short", 0 },   { FAULT_WRITE, "EIO", 0 },
	{ FAULT_WRITE, "ENOSPC", 0 }, { FAULT_WRITE, "ENOSPC", 1 }, { FAULT_WRITE, "EINTR", 0 },
	{ FAULT_WRITE, "short", 0 },  { FAULT_SYNC, "EIO", 0 },     { FAULT_SYNC, "slow", 0 },
	{ FAULT_RANGE, "EIO", 0 },    { FAULT_RENAME, "EIO", 0 },   { FAULT_MKDIR, "ENOSPC", 0 },
	{ FAULT_SPACE, "ENOSPC", 0 }, { FAULT_SPACE, "EINTR", 0 },  { FAULT_TRUNCATE, "EIO", 0 },
	{ FAULT_CLOSE, "EIO", 0 },    { FAULT_UNLINK, "EIO", 0 },   { FAULT_LIST, "EIO", 0 },
	{ FAULT_STAT, "EIO", 0 },     { FAULT_LOCK, "EIO", 0 },     { FAULT_THREAD, "EAGAIN", 0 },
	{ FAULT_FORK, "EAGAIN", 0 },  { FAULT_SETUP, "ENOSYS", 0 }, { FAULT_SETUP, "ENOMEM", 0 },
	{ FAULT_RING, "EIO", 0 },     { FAULT_RING, "EINTR", 0 },   { FAULT_RING, "EAGAIN", 0 },
	{ FAULT_RING, "short", 0 },   { FAULT_RING, "slow", 0 },    { FAULT_READ, "flip", 0 },
	{ FAULT_WRITE, "flip", 0 },   { FAULT_RING, "flip", 0 },
};
#define WAYS (sizeof ways / sizeof *ways)

enum verdict { RIGHT, CLEAN, ELSE };
static const char *const verdict_name[] = { "right", "clean", "else" };

struct state {
	uint64_t hash;
	char why[300]; /* "": GO-ON goes on */
};

static struct {
	const char *library, *name, *base, *work, *end, *calls, *flips;
	long budget;
	long from; /* step of the last checkpoint in BASE, -1: none */
	char **command, **go;
	char *line, *tree; /* of the run without a fault */
	char out[PATH_MAX], err[PATH_MAX], counts[PATH_MAX], go_out[PATH_MAX], go_err[PATH_MAX];
	struct state *state;
	size_t states;
} s;

/* ---- running ---- */

static int run(char **argv, const char *out, const char *errors, const char *fault, int preload)
{
	struct job j = { s.work,
			 argv,
			 out,
			 errors,
			 preload ? s.library : NULL,
			 fault,
			 preload ? s.counts : NULL,
			 LIMIT };
	return job_run(&j);
}

static int run_fresh(const char *fault)
{
	tree_remove(s.work);
	tree_copy(s.base, s.work);
	unlink(s.counts);
	return run(s.command, s.out, s.err, fault, 1);
}

/* The last line that is not empty, of a file; owned. */
static char *last_line(const char *path)
{
	char *text = tree_text(path), *line;
	size_t n = strlen(text);
	while (n && text[n - 1] == '\n')
		text[--n] = 0;
	line = strrchr(text, '\n');
	line = strdup(line ? line + 1 : text);
	free(text);
	return line;
}

static struct fault_counts counts_of(void)
{
	struct fault_counts c = { 0 };
	int fd = open(s.counts, O_RDONLY);
	if (fd >= 0 && read(fd, &c, sizeof c) != sizeof c)
		memset(&c, 0, sizeof c);
	if (fd >= 0)
		close(fd);
	return c;
}

/* ---- what is left ---- */

/* The last step that the log of a run says is saved. */
static long saved(const char *log)
{
	char *text = tree_text(log);
	long last = -1;
	for (char *at = text; (at = strstr(at, ": step "));) {
		long step = strtol(at + strlen(": step "), &at, 10);
		if (!strncmp(at, " saved in ", strlen(" saved in ")) && step > last)
			last = step;
	}
	free(text);
	return last;
}

static long resumed_after(const char *out)
{
	char *text = tree_text(out), *at = strstr(text, "resumed after step ");
	long step = at ? atol(at + strlen("resumed after step ")) : -1;
	free(text);
	return step;
}

static void go_on(long from, char *why, size_t size)
{
	int code = run(s.go, s.go_out, s.go_err, NULL, 0);
	char *line = last_line(s.go_out), *last = last_line(s.go_err);
	*why = 0;
	if (code)
		snprintf(why, size, "going on ends with %d: %.200s", code, last);
	else if (s.end && strcmp(line, s.end))
		snprintf(why, size, "going on gives %.100s", line);
	else if (from >= 0 && resumed_after(s.go_out) < from)
		snprintf(why, size, "going on begins after step %ld, and %ld was saved",
			 resumed_after(s.go_out), from);
	free(line);
	free(last);
}

/* "" or what is wrong with going on from here. */
static const char *gone_on(void)
{
	char *tree = tree_list(s.work);
	long logged = saved(s.err), from = logged > s.from ? logged : s.from;
	uint64_t hash = tree_hash(tree) * 31 + (uint64_t)from;
	free(tree);
	for (size_t i = 0; i < s.states; i++)
		if (s.state[i].hash == hash)
			return s.state[i].why;
	s.state = reallocarray(s.state, s.states + 1, sizeof *s.state);
	struct state *new = &s.state[s.states++];
	new->hash = hash;
	go_on(from, new->why, sizeof new->why);
	return new->why;
}

/* ---- judging ---- */

/* What a message says of this kind of fault, or NULL. */
static const char *cause_text(size_t way)
{
	static const struct {
		const char *kind, *text;
	} texts[] = { { "ENOMEM", "emory" },          { "EIO", "Input/output error" },
		      { "ENOSPC", "No space left" },  { "EMFILE", "Too many open files" },
		      { "EINTR", "Interrupted" },     { "EAGAIN", "temporarily unavailable" },
		      { "ENOSYS", "not implemented" } };
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		if (!strcmp(texts[i].kind, ways[way].kind))
			return texts[i].text;
	return NULL;
}

static int names_cause(const char *line, size_t way, const char *where)
{
	const char *text = cause_text(way), *file = strrchr(where, '/');
	if (strncmp(line, "zeroth", strlen("zeroth")))
		return 0;
	return text ? strstr(line, text) != NULL :
		      strstr(line, "damaged") || strstr(line, "checksum") ||
			       (file && strstr(line, file + 1));
}

/* The log has a warning with the cause that begins with this text. */
static int is_warned(size_t way, const char *begin)
{
	char *log = tree_text(s.err), *line, *rest;
	const char *text = cause_text(way);
	int warned = 0;
	for (line = strtok_r(log, "\n", &rest); line && !warned;
	     line = strtok_r(NULL, "\n", &rest)) {
		char *at = strstr(line, begin);
		warned = at && (text ? strstr(at, text) != NULL :
				       strstr(at, "damaged") || strstr(at, "checksum"));
	}
	free(log);
	return warned;
}

/* Every checkpoint is what its hashes say. */
static int is_whole(void)
{
	char *verify[] = { s.go[0], "checkpoint", "verify", "run", NULL };
	return !run(verify, s.go_out, s.go_err, NULL, 0);
}

/* Text of a difference that is not accounted for. If what is left is whole and can be gone on from,
 * there may be what the next save removes, X.tmp, a .lock, and what a warning names may differ: a
 * monitor that stopped, a checkpoint that was passed over or kept, what a tier could not remove. */
static void differs(size_t way, char *path, size_t size)
{
	char *tree = tree_list(s.work), other[200];
	static const char *const left[] = { ".tmp ", ".tmp/", ".lock ", NULL };
	static const char *const monitors[] = { ".tmp ", ".tmp/", ".lock ", "metrics.jsonl", NULL };
	static const char *const passed[] = { ".lock ", "metrics.jsonl", "/checkpoints/",
					      "zeroth-offload", NULL };
	tree_difference(tree, s.tree, NULL, path, size);
	if (*path) {
		tree_difference(tree, s.tree, is_warned(way, "warning: monitor.") ? monitors : left,
				other, sizeof other);
		if (*other && is_warned(way, "warning: "))
			tree_difference(tree, s.tree, passed, other, sizeof other);
		if (!*other && is_whole() && !*gone_on())
			*path = 0;
	}
	free(tree);
}

/* Numbers in what is not a digest are times. */
static int is_same_line(const char *a, const char *b)
{
	if (!strncmp(a, "digest:", strlen("digest:")))
		return !strcmp(a, b);
	while (*a && *b) {
		size_t x = strspn(a, "0123456789."), y = strspn(b, "0123456789.");
		if (!x != !y || (!x && *a != *b))
			return 0;
		a += x ? x : 1;
		b += y ? y : 1;
	}
	return *a == *b;
}

/* A command that only looks may say what it could not see, and succeed. */
static enum verdict judge_success(size_t way, char *why, size_t size)
{
	char *line = last_line(s.out), path[200];
	enum verdict v = is_same_line(line, s.line)                       ? RIGHT :
			 cause_text(way) && strstr(line, cause_text(way)) ? CLEAN :
									    ELSE;
	differs(way, path, sizeof path);
	if (v == ELSE)
		snprintf(why, size, "succeeds with another last line: %.200s", line);
	else if (*path)
		snprintf(why, size, "succeeds with other files: %s", path);
	free(line);
	return *why ? ELSE : v;
}

static enum verdict judge_failure(size_t way, const char *where, char *why, size_t size)
{
	char *line = last_line(s.err);
	const char *going = gone_on();
	if (*going)
		snprintf(why, size, "%s [after: %.300s]", going, line);
	else if (!names_cause(line, way, where))
		snprintf(why, size, "the last line does not name the cause: %.300s", line);
	free(line);
	return *why ? ELSE : CLEAN;
}

static enum verdict judge(int code, size_t way, const char *where, char *why, size_t size)
{
	*why = 0;
	if (code == 0)
		return judge_success(way, why, size);
	if (code == -1000)
		snprintf(why, size, "does not end in %g seconds", LIMIT);
	else if (code < 0)
		snprintf(why, size, "killed by signal %d", -code);
	else
		return judge_failure(way, where, why, size);
	return ELSE;
}

static void fault_text(char *out, size_t size, size_t way, int process, long n)
{
	int at = snprintf(out, size, "call=%s n=%ld kind=%s%s process=", call_name[ways[way].call],
			  n, ways[way].kind, ways[way].later ? " and=later" : "");
	at += process < 0 ? snprintf(out + at, size - (size_t)at, "main") :
			    snprintf(out + at, size - (size_t)at, "%d", process);
	if (!strcmp(ways[way].kind, "flip"))
		snprintf(out + at, size - (size_t)at, " path=%s", s.flips);
}

static void try_point(size_t way, int process, long n)
{
	char fault[200], why[700];
	fault_text(fault, sizeof fault, way, process, n);
	int code = run_fresh(fault);
	struct fault_counts c = counts_of();
	if (!c.fired)
		return;
	enum verdict v = judge(code, way, c.where, why, sizeof why);
	printf("point\t%s\t%s\t%s", s.name, call_name[ways[way].call], verdict_name[v]);
	if (v == ELSE)
		printf("\t%s\t%s\t%s", fault, c.where, why);
	printf("\n");
}

/* ---- points ---- */

static int is_wanted(size_t way)
{
	char name[32];
	snprintf(name, sizeof name, " %s ", call_name[ways[way].call]);
	return (!s.calls || strstr(s.calls, name)) && (strcmp(ways[way].kind, "flip") || s.flips);
}

static long points[WAYS][FAULT_PROCESSES];

/* How often each call is reached; those with a flip count what their path has. */
static void count_points(void)
{
	struct fault_counts all = counts_of();
	for (size_t w = 0; w < WAYS; w++) {
		struct fault_counts c = all;
		if (!is_wanted(w))
			continue;
		if (!strcmp(ways[w].kind, "flip")) {
			char fault[200];
			fault_text(fault, sizeof fault, w, -1, LONG_MAX);
			if (run_fresh(fault))
				errx(99, "%s fails while its calls are counted", s.name);
			c = counts_of();
		}
		for (int p = 0; p < FAULT_PROCESSES; p++)
			points[w][p] = c.calls[p][ways[w].call];
	}
}

/* Allocations outnumber all else, so what is tried is half of each where not all is. */
static void try_all(int allocations)
{
	long total = 0, budget = s.budget ? s.budget / 2 : LONG_MAX, at = 0;
	for (size_t w = 0; w < WAYS; w++)
		for (int p = 0; p < FAULT_PROCESSES; p++)
			total += (ways[w].call == FAULT_ALLOC) == allocations ? points[w][p] : 0;
	double share = budget < total ? (double)budget / (double)total : 1;
	for (size_t w = 0; w < WAYS; w++)
		for (int p = 0; (ways[w].call == FAULT_ALLOC) == allocations && p < FAULT_PROCESSES;
		     p++)
			for (long n = 1; n <= points[w][p]; n++, at++)
				if ((long)((double)(at + 1) * share) > (long)((double)at * share))
					try_point(w, p - 1, n);
}

static void learn(void)
{
	char path[200];
	int code = run_fresh(NULL);
	s.line = last_line(s.out);
	s.tree = tree_list(s.work);
	if (code)
		errx(99, "%s fails without a fault, code %d: %s", s.name, code, last_line(s.err));
	code = run_fresh(NULL);
	char *again = tree_list(s.work), *line = last_line(s.out);
	tree_difference(again, s.tree, NULL, path, sizeof path);
	if (code || !is_same_line(line, s.line) || *path)
		errx(99, "%s is not the same when it runs again: %s %s", s.name, path, line);
	free(again);
	free(line);
	if (*gone_on())
		errx(99, "%s: %s", s.name, gone_on());
	run_fresh(NULL);
}

/* ---- the command line ---- */

static void take_options(int argc, char **argv)
{
	static const struct option options[] = { { "library", 1, 0, 'l' }, { "name", 1, 0, 'n' },
						 { "base", 1, 0, 'b' },    { "work", 1, 0, 'w' },
						 { "end", 1, 0, 'e' },     { "calls", 1, 0, 'c' },
						 { "flips", 1, 0, 'f' },   { "budget", 1, 0, 'm' },
						 { "from", 1, 0, 's' },    { 0, 0, 0, 0 } };
	s.from = -1;
	for (int c; (c = getopt_long(argc, argv, "+", options, NULL)) >= 0;)
		switch (c) {
		case 'l':
			s.library = optarg;
			break;
		case 'n':
			s.name = optarg;
			break;
		case 'b':
			s.base = optarg;
			break;
		case 'w':
			s.work = optarg;
			break;
		case 'e':
			s.end = optarg;
			break;
		case 'c':
			s.calls = optarg;
			break;
		case 'f':
			s.flips = optarg;
			break;
		case 'm':
			s.budget = atol(optarg);
			break;
		case 's':
			s.from = atol(optarg);
			break;
		default:
			exit(99);
		}
	s.command = argv + optind;
	for (int i = optind; i < argc && !s.go; i++)
		if (!strcmp(argv[i], "--")) {
			argv[i] = NULL;
			s.go = argv + i + 1;
		}
	if (!s.library || !s.name || !s.base || !s.work || !*s.command || !s.go || !*s.go)
		errx(99,
		     "--library, --name, --base, --work, a command and one to go on are needed");
}

int main(int argc, char **argv)
{
	take_options(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(s.out, sizeof s.out, "%s.out", s.work);
	snprintf(s.err, sizeof s.err, "%s.err", s.work);
	snprintf(s.go_out, sizeof s.go_out, "%s.go.out", s.work);
	snprintf(s.go_err, sizeof s.go_err, "%s.go.err", s.work);
	snprintf(s.counts, sizeof s.counts, "%s.counts", s.work);
	learn();
	count_points();
	try_all(0);
	try_all(1);
	return 0;
}
