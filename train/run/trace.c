/* SPDX-License-Identifier: Apache-2.0
 *
 * trace.c - see trace.h. The file of a rank is text: a line "BEGIN", when its first instruction
 * began, and for each instruction "TID BEGIN DURATION" and the rest of its JSON object. Times are
 * whole nanoseconds since 1970.
 */
#include "train/run/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/text.h"
#include "core/config/options.h"
#include "train/forecast/breakdown.h"
#include "train/share.h"

#define RANGES 64
#define LANES  64        /* instructions of a queue that overlap */
#define MOST   (1 << 20) /* instructions of a step that are kept */
#define ROOM   65536     /* bytes of a buffer, far more than of a line */
#define NAME   64
#define COPIES 8192 /* of a step whose times on the device are kept */

struct event {
	int64_t from, to, waited; /* ns */
	int32_t n;                /* instruction */
	int32_t program;
	/* by which the device's clock says when it was, 0: no such marks; likewise of a copy, -1 */
	uint64_t mark[2];
	int64_t copy;
};

/* A step that is traced, until it is written. */
struct traced {
	int64_t step;
	int due; /* 1: it is not written */
	struct event *event;
	int64_t n, dropped, copies;
};

struct file {
	int fd; /* -1: none */
	int no; /* errno of the first failure */
	size_t at, used;
	char buf[ROOM];
};

struct steps {
	struct {
		int64_t first, last;
	} range[RANGES];
	int n;
};

struct zr_trace {
	struct zr_session *session;
	char dir[PATH_MAX];
	struct steps steps;
	int64_t merged;            /* up to which all steps are merged */
	int64_t since_1970;        /* ns, to add to those of zr_now() */
	struct traced of[2], *now; /* of even and odd steps; the one that runs */
	int64_t room, room_copies;
	const struct zr_clock *clock; /* NULL: an instruction was when the host waited for it */
	/* [instructions] the event of each in the last run of the program */
	int32_t *latest[ZR_LOWERED];
	int failed;
	int at; /* the directory, once there is a trace; -1: none yet */
	struct file out, in;
};

/* ---- which steps ---- */

/* A number at *p, which moves behind it; -1: none. */
static int64_t number(const char **p)
{
	char *end;

	errno = 0;
	int64_t n = **p >= '0' && **p <= '9' ? strtoll(*p, &end, 10) : -1;
	if (n < 0 || errno)
		return -1;

	*p = end;
	return n;
}

static int parse(struct steps *s, const char *text)
{
	const char *word;
	size_t len;

	while ((word = zr_next_word(&text, &len))) {
		const char *p = word;
		int64_t first = number(&p), last = *p == '-' ? (p++, number(&p)) : first;
		if (s->n == RANGES || first < 1 || last < first || p != word + len)
			return -1;

		s->range[s->n].first = first;
		s->range[s->n++].last = last;
	}

	return 0;
}

static int read_steps(const struct zr_config *cfg, struct steps *out, struct zr_error *err)
{
	const struct zr_run_opts *o = zr_config_find(cfg, "run")->opts;

	*out = (struct steps){ 0 };
	if (parse(out, o->trace))
		return zr_config_blame(cfg, "run", ZR_EINVAL, err,
				       "trace = %s: expected at most %d steps and ranges of "
				       "steps, as 10 20-22",
				       o->trace, RANGES);
	return 0;
}

int zr_trace_check(const struct zr_config *cfg, struct zr_error *err)
{
	struct steps unused;
	return read_steps(cfg, &unused, err);
}

int zr_trace_wants(const struct zr_trace *t, int64_t step)
{
	for (int i = 0; i < t->steps.n; i++)
		if (step >= t->steps.range[i].first && step <= t->steps.range[i].last)
			return !t->failed;
	return 0;
}

/* ---- opening ---- */

static int64_t copies_in(const struct zr_lowered *p)
{
	int64_t sum = 0;
	for (int32_t n = 0; n < p->n; n++)
		sum += p->instr[n].queue == ZR_Q_COPY;
	return sum;
}

/* Instructions of a step, or the copies among them. */
static int64_t instructions_of_a_step(const struct zr_setup *s, int copies)
{
	int64_t n = 0, micro = s->facts.batch.accumulation - 2;
	for (int id = 0; id < ZR_LOWERED; id++) {
		const struct zr_lowered *p = &s->programs.lowered[id];
		int64_t times = 1;
		if (id == ZR_S_MICRO)
			times = micro > 0 ? micro : 0;
		n += (copies ? copies_in(p) : p->n) * times;
	}
	return n;
}

static int64_t most_copies(const struct zr_setup *s)
{
	const int64_t n = instructions_of_a_step(s, 1);
	return n < COPIES ? n : COPIES;
}

int64_t zr_trace_copies(const struct zr_session *s)
{
	return 4 * most_copies(s->setup); /* two of each, of two steps */
}

static int take_memory(struct zr_trace *t, struct zr_error *err)
{
	const struct zr_setup *s = t->session->setup;
	int64_t n = instructions_of_a_step(s, 0);
	int ok = 1;

	t->room = n < MOST ? n : MOST;
	t->room_copies = most_copies(s);
	for (int i = 0; i < 2; i++) {
		t->of[i].event = calloc((size_t)t->room + 1, sizeof *t->of[i].event);
		ok &= t->of[i].event != NULL;
	}
	for (int id = 0; id < ZR_LOWERED; id++) {
		t->latest[id] = calloc((size_t)s->programs.lowered[id].n + 1, sizeof **t->latest);
		ok &= t->latest[id] != NULL;
	}

	if (ok)
		return 0;
	return zr_err(err, ZR_ENOMEM,
		      "out of memory for a trace of %lld "
		      "instructions",
		      (long long)t->room);
}

/* All ranks get rank 0's. */
static int share_dir(struct zr_trace *t, const char *dir, struct zr_error *err)
{
	char mine[PATH_MAX] = "";

	char *all = calloc((size_t)t->session->setup->facts.process.world, PATH_MAX);
	if (!all)
		return zr_no_memory(err);
	if (snprintf(mine, sizeof mine, "%s/trace", dir) >= PATH_MAX)
		*mine = 0; /* what fails later, and ends the tracing */
	int rc = zr_gather_bytes(t->session, mine, all, PATH_MAX, err);
	memcpy(t->dir, all, PATH_MAX);
	free(all);
	return rc;
}

/* What ranks of a run that was killed left. */
static void remove_old(const struct zr_trace *t)
{
	struct dirent *e;

	DIR *d = opendir(t->dir);
	while (d && (e = readdir(d)))
		if (!strncmp(e->d_name, "step-", 5) && strstr(e->d_name, ".rank-"))
			unlinkat(dirfd(d), e->d_name, 0);
	if (d)
		closedir(d);
}

int zr_trace_open(struct zr_session *s, const char *dir, struct zr_trace **out,
		  struct zr_error *err)
{
	struct steps steps;
	struct timespec now;
	int rc = read_steps(s->setup->cfg, &steps, err);

	*out = NULL;
	if (rc || !steps.n)
		return rc;

	struct zr_trace *t = calloc(1, sizeof *t);
	if (!t)
		return zr_no_memory(err);

	t->session = s;
	t->steps = steps;
	t->merged = s->step;
	t->out.fd = t->in.fd = t->at = -1;
	clock_gettime(CLOCK_REALTIME, &now);
	t->since_1970 = now.tv_sec * 1000000000ll + now.tv_nsec - (int64_t)(1e9 * zr_now());
	rc = take_memory(t, err);
	if (!rc)
		rc = share_dir(t, dir, err);
	if (!rc && s->setup->facts.process.rank == 0)
		remove_old(t);
	if (rc)
		zr_trace_close(t);
	else
		*out = t;
	return rc;
}

void zr_trace_close(struct zr_trace *t)
{
	if (!t)
		return;

	for (int id = 0; id < ZR_LOWERED; id++)
		free(t->latest[id]);
	free(t->of[0].event);
	free(t->of[1].event);
	if (t->at >= 0)
		close(t->at);
	free(t);
}

void zr_trace_clock(struct zr_trace *t, const struct zr_clock *clock)
{
	t->clock = clock;
}

/* ---- what is seen ---- */

void zr_trace_begin(struct zr_trace *t, int64_t step)
{
	t->now = &t->of[step % 2];
	t->now->step = step;
	t->now->due = 1;
	t->now->n = t->now->dropped = t->now->copies = 0;
	for (int id = 0; id < ZR_LOWERED; id++) /* writes of the step before may go on */
		memset(t->latest[id], 0xff,
		       (size_t)t->session->setup->programs.lowered[id].n * sizeof **t->latest);
}

static int64_t ns_of(const struct zr_trace *t, double seconds)
{
	return (int64_t)(1e9 * seconds) + t->since_1970;
}

/* NULL: it began in a step before, or there was no room. */
static struct event *latest(const struct zr_trace *t, const struct zr_lowered *p, int32_t n)
{
	const int32_t k = t->latest[p->id][n];
	return k < 0 ? NULL : &t->now->event[k];
}

void zr_trace_note(struct zr_trace *t, const struct zr_lowered *p, int32_t n, int waited,
		   double from, double to)
{
	const int64_t begin = ns_of(t, from), end = ns_of(t, to);

	if (waited) {
		struct event *e = latest(t, p, n);
		if (!e)
			return;

		e->to = end;
		e->waited += end - begin;
		return;
	}

	struct traced *now = t->now;
	t->latest[p->id][n] = now->n < t->room ? (int32_t)now->n : -1;
	if (now->n < t->room)
		now->event[now->n++] = (struct event){
			.from = begin, .to = end, .n = n, .program = p->id, .copy = -1
		};
	else
		now->dropped++;
}

void zr_trace_marks(struct zr_trace *t, const struct zr_lowered *p, int32_t n, uint64_t from,
		    uint64_t to)
{
	struct event *e = latest(t, p, n);
	if (!e)
		return;

	if (from)
		e->mark[0] = from;
	e->mark[1] = to;
}

int64_t zr_trace_copy(struct zr_trace *t)
{
	if (t->now->copies == t->room_copies)
		return -1;
	return 2 * (t->now->step % 2 * t->room_copies + t->now->copies++);
}

void zr_trace_copied(struct zr_trace *t, const struct zr_lowered *p, int32_t n, int64_t copy)
{
	struct event *e = latest(t, p, n);
	if (e)
		e->copy = copy;
}

void zr_trace_beside(struct zr_trace *t, const struct zr_lowered *p, int32_t n, double from,
		     double to)
{
	struct event *e = latest(t, p, n);
	if (!e)
		return;

	e->from = ns_of(t, from);
	e->to = ns_of(t, to);
}

/* The device's times of what it did, as far as it says any. */
static void take_times(const struct zr_trace *t, struct event *e)
{
	double from, to;

	if (e->copy >= 0) {
		from = zr_clock_copied(t->clock, e->copy);
		to = zr_clock_copied(t->clock, e->copy + 1);
	} else {
		from = zr_clock_passed(t->clock, e->mark[0]);
		to = zr_clock_passed(t->clock, e->mark[1]);
	}
	if (!(from <= to)) /* NaN, too */
		return;

	e->from = ns_of(t, from);
	e->to = ns_of(t, to);
}

/* ---- files ---- */

static int make_file(struct file *f, int dir, const char *name)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;

	f->at = f->used = 0;
	f->fd = openat(dir, name, flags, 0666);
	if (f->fd < 0 && errno == EEXIST && !unlinkat(dir, name, 0))
		f->fd = openat(dir, name, flags, 0666);
	return f->no = f->fd < 0 ? errno : 0;
}

static void write_out(struct file *f)
{
	const char *p = f->buf;

	while (!f->no && f->used) {
		ssize_t n = write(f->fd, p, f->used);
		if (n < 0 && errno != EINTR)
			f->no = errno;
		p += n > 0 ? n : 0;
		f->used -= n > 0 ? (size_t)n : 0;
	}

	f->used = 0;
}

__attribute__((format(printf, 2, 3))) static void put(struct file *f, const char *form, ...)
{
	va_list args;

	if (f->used > ROOM - 2048)
		write_out(f);
	va_start(args, form);
	int n = vsnprintf(f->buf + f->used, ROOM - f->used, form, args);
	va_end(args);
	f->used += n > 0 ? (size_t)n : 0;
}

/* errno, or 0. */
static int close_file(struct file *f)
{
	if (f->fd >= 0 && (write_out(f), close(f->fd)) && !f->no)
		f->no = errno;
	f->fd = -1;
	return f->no;
}

/* The next line without its end; NULL: there is none. */
static char *next_line(struct file *f)
{
	for (;;) {
		char *line = f->buf + f->at, *end = memchr(line, '\n', f->used - f->at);
		if (end) {
			*end = 0;
			f->at += (size_t)(end - line) + 1;
			return line;
		}

		memmove(f->buf, line, f->used - f->at);
		f->used -= f->at;
		f->at = 0;
		ssize_t n = f->used < ROOM ? read(f->fd, f->buf + f->used, ROOM - f->used) : 0;
		if (n <= 0)
			return NULL;

		f->used += (size_t)n;
	}
}

static void give_up(struct zr_trace *t, const char *name, int no)
{
	t->failed = 1;
	zr_logf(ZR_LOG_WARN, "trace", "%s/%s: %s: no more steps are traced", t->dir, name,
		strerror(no));
}

/* ---- what a rank writes ---- */

/* Of at most 256 bytes, for which put() keeps room. */
static void put_text(struct file *f, const char *text)
{
	for (const char *p = text; *p && p < text + 256; p++) {
		if (*p == '"' || *p == '\\')
			f->buf[f->used++] = '\\';
		if ((unsigned char)*p >= ' ')
			f->buf[f->used++] = *p;
	}
}

/* Of a move what arrives, else what an instruction reads and writes. */
static uint64_t bytes_of(const struct zr_lowered *p, const struct zr_instr *i)
{
	const struct zr_operand *o = p->operand + i->first;
	uint64_t sum = 0;
	int pairs = i->kind == ZR_I_COLLECTIVE;

	if (i->kind == ZR_I_COPY || i->kind == ZR_I_READ || i->kind == ZR_I_WRITE)
		return (uint64_t)(i->block * i->blocks);

	for (int32_t k = pairs; k < i->n; k += 1 + pairs)
		sum += o[k].region < 0 ? 0 : o[k].bytes;
	return sum;
}

/* The first free lane of the instruction's queue, -1: none. */
static int lane_of(int64_t free_at[LANES], const struct event *e)
{
	for (int i = 0; i < LANES; i++)
		if (free_at[i] <= e->from) {
			free_at[i] = e->to;
			return i;
		}
	return -1;
}

static void put_event(struct zr_trace *t, const struct event *e, int tid)
{
	const struct zr_setup *s = t->session->setup;
	const struct zr_lowered *p = &s->programs.lowered[e->program];
	const struct zr_instr *i = &p->instr[e->n];
	char text[256];

	put(&t->out, "%d %lld %lld \"cat\":\"%s\",\"name\":\"", tid, (long long)e->from,
	    (long long)(e->to - e->from), zr_part_name[zr_part_of(&s->programs, p, e->n)]);
	put_text(&t->out, zr_instr_text(s, p, e->n, text, sizeof text));
	put(&t->out, "\",\"args\":{\"program\":\"%s\",\"instruction\":%d,\"kind\":\"%s\"",
	    zr_lowered_name[p->id], e->n, zr_instr_name[i->kind]);
	if (i->unit >= 0) {
		put(&t->out, ",\"unit\":\"");
		put_text(&t->out, s->facts.layout.unit[i->unit].name);
		put(&t->out, "\"");
	}

	put(&t->out, ",\"bytes\":%llu,\"waited_us\":%lld.%03lld}}\n",
	    (unsigned long long)bytes_of(p, i), (long long)e->waited / 1000,
	    (long long)e->waited % 1000);
}

static int64_t first_of(const struct traced *s)
{
	int64_t first = s->n ? s->event[0].from : 0;

	for (int64_t k = 1; k < s->n; k++)
		if (s->event[k].from < first)
			first = s->event[k].from;
	return first;
}

static void put_events(struct zr_trace *t, struct traced *s)
{
	int64_t free_at[ZR_QUEUES][LANES] = { 0 };

	for (int64_t k = 0; t->clock && k < s->n; k++)
		take_times(t, &s->event[k]);
	put(&t->out, "%lld\n", (long long)first_of(s));
	for (int64_t k = 0; k < s->n; k++) {
		const struct event *e = &s->event[k];
		int queue = t->session->setup->programs.lowered[e->program].instr[e->n].queue;
		int lane = lane_of(free_at[queue], e);
		if (lane < 0)
			s->dropped++;
		else
			put_event(t, e, queue + ZR_QUEUES * lane);
	}
}

static void rank_name(int64_t step, int rank, char name[NAME])
{
	snprintf(name, NAME, "step-%06lld.rank-%d", (long long)step, rank);
}

static int open_dir(struct zr_trace *t)
{
	if (t->at < 0 && mkdir(t->dir, 0777) && errno != EEXIST)
		return errno;
	if (t->at < 0)
		t->at = zr_dir_open(AT_FDCWD, t->dir, 0);
	return t->at < 0 ? errno : 0;
}

static void write_step(struct zr_trace *t, struct traced *s)
{
	char name[NAME];

	rank_name(s->step, t->session->setup->facts.process.rank, name);
	int no = open_dir(t);
	if (!no)
		no = make_file(&t->out, t->at, name);
	if (!no) {
		put_events(t, s);
		no = close_file(&t->out);
	}

	if (no)
		give_up(t, name, no);
	else if (s->dropped)
		zr_logf(ZR_LOG_WARN, "trace",
			"step %lld: %lld instructions are left out, more "
			"than %d, or more than %d at once",
			(long long)s->step, (long long)s->dropped, MOST, LANES);
}

void zr_trace_write(struct zr_trace *t, int64_t step)
{
	for (int64_t k = 0; k < 2; k++) {
		struct traced *s = &t->of[(step + 1 + k) % 2]; /* the earlier one is the first */
		if (!s->due || s->step > step)
			continue;

		s->due = 0;
		if (!t->failed)
			write_step(t, s);
	}
}

/* ---- what rank 0 merges ---- */

static void put_time(struct file *f, const char *key, int64_t ns)
{
	put(f, "\"%s\":%lld.%03lld,", key, (long long)ns / 1000, (long long)ns % 1000);
}

static void put_thread(struct file *f, int rank, int tid)
{
	int lane = tid / ZR_QUEUES;

	put(f,
	    "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_sort_index\","
	    "\"args\":{\"sort_index\":%d}},\n",
	    rank, tid, tid % ZR_QUEUES * LANES + lane);
	put(f,
	    "{\"ph\":\"M\",\"pid\":%d,\"tid\":%d,\"name\":\"thread_name\",\"args\":{\"name\":\"%s",
	    rank, tid, zr_queue_name[tid % ZR_QUEUES]);
	if (lane)
		put(f, " %d", lane + 1);
	put(f, "\"}},\n");
}

static int open_rank(struct zr_trace *t, int64_t step, int rank)
{
	char name[NAME];
	rank_name(step, rank, name);
	t->in.at = t->in.used = 0;
	t->in.fd = openat(t->at, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return t->in.fd < 0 ? errno : 0;
}

static void close_rank(struct zr_trace *t)
{
	close(t->in.fd);
	t->in.fd = -1;
}

/* When the first rank began. *ranks: how many have written something. */
static int64_t begin_of(struct zr_trace *t, int64_t step, int *ranks)
{
	int64_t begin = INT64_MAX;

	*ranks = 0;
	for (int r = 0; r < t->session->setup->facts.process.world; r++) {
		if (open_rank(t, step, r))
			continue;

		char *line = next_line(&t->in);
		int64_t ns = line ? strtoll(line, NULL, 10) : 0;
		begin = ns && ns < begin ? ns : begin;
		*ranks += line != NULL;
		close_rank(t);
	}

	return begin;
}

static void merge_rank(struct zr_trace *t, int rank, int64_t begin)
{
	uint8_t named[ZR_QUEUES * LANES] = { 0 };
	char *line = next_line(&t->in), *p;

	put(&t->out,
	    "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_sort_index\",\"args\":"
	    "{\"sort_index\":%d}},\n",
	    rank, rank);
	while (line && (line = next_line(&t->in))) {
		int tid = (int)strtol(line, &p, 10);
		int64_t from = strtoll(p, &p, 10), took = strtoll(p, &p, 10);
		if (tid < 0 || tid >= ZR_QUEUES * LANES)
			continue;
		if (!named[tid]++)
			put_thread(&t->out, rank, tid);
		put(&t->out, "{\"ph\":\"X\",\"pid\":%d,\"tid\":%d,", rank, tid);
		put_time(&t->out, "ts", from - begin);
		put_time(&t->out, "dur", took);
		put(&t->out, "%s,\n", p + 1);
	}

	put(&t->out,
	    "{\"ph\":\"M\",\"pid\":%d,\"name\":\"process_name\",\"args\":{\"name\":"
	    "\"rank %d\"}}",
	    rank, rank);
}

static int merge(struct zr_trace *t, int64_t step, char name[NAME])
{
	const int world = t->session->setup->facts.process.world;
	char tmp[NAME + 8], of_rank[NAME];
	int ranks, n = 0;
	int64_t begin = begin_of(t, step, &ranks);

	snprintf(name, NAME, "step-%06lld.json", (long long)step);
	snprintf(tmp, sizeof tmp, "%s.tmp", name);
	int no = make_file(&t->out, t->at, tmp);
	put(&t->out,
	    "{\"displayTimeUnit\":\"ms\",\"otherData\":{\"step\":%lld},\"traceEvents\":[\n",
	    (long long)step);
	for (int r = 0; !no && r < world; r++) {
		if (open_rank(t, step, r))
			continue;

		merge_rank(t, r, begin);
		put(&t->out, "%s\n", ++n < ranks ? "," : "");
		close_rank(t);
	}

	put(&t->out, "]}\n");
	if (!no)
		no = close_file(&t->out);
	if (!no && renameat(t->at, tmp, t->at, name))
		no = errno;
	for (int r = 0; !no && r < world; r++) {
		rank_name(step, r, of_rank);
		unlinkat(t->at, of_rank, 0);
	}

	if (!no && ranks < world)
		zr_logf(ZR_LOG_WARN, "trace",
			"%s/%s: %d of %d ranks: the others write no files "
			"there",
			t->dir, name, ranks, world);
	return no;
}

void zr_trace_merge(struct zr_trace *t, int64_t step)
{
	char name[NAME] = "";

	if (t->session->setup->facts.process.rank)
		return;

	for (t->merged++; t->merged <= step; t->merged++) {
		if (!zr_trace_wants(t, t->merged))
			continue;

		int no = merge(t, t->merged, name);
		if (no)
			give_up(t, name, no);
	}

	t->merged--;
}
