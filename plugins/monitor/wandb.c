/* SPDX-License-Identifier: Apache-2.0
 *
 * wandb.c - the directory of an offline run of Weights & Biases, which `wandb sync` sends: a log of
 * protobuf messages Record (wandb/proto/wandb_internal.proto). A resumed run goes on with the same
 * file and run, without what it has of the steps that are trained again.
 */
#include <zeroth/monitor.h>

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tag.h"
#include "wandb_log.h"
#include "files/protobuf.h"
#include "plugins/descriptor.h"

/* Numbers of fields. */
enum { RECORD_NUM = 1, RECORD_HISTORY = 2, RECORD_SUMMARY = 3 };
enum { RECORD_RUN = 17, RECORD_EXIT = 18, RECORD_HEADER = 21 };
enum { HEADER_VERSION = 1, VERSION_PRODUCER = 1, VERSION_MIN_CONSUMER = 2 };
enum { RUN_ID = 1, RUN_ENTITY = 2, RUN_PROJECT = 3, RUN_CONFIG = 4, RUN_NAME = 8, RUN_HOST = 13 };
enum { RUN_START = 17, START_SECONDS = 1, START_NANOS = 2 };
enum {
	UPDATE = 1,
	ITEM_KEY = 1,
	ITEM_NESTED = 2,
	ITEM_JSON = 16
}; /* of history, summary, config */
enum { HISTORY_STEP = 2, STEP_NUM = 1, EXIT_CODE = 1, EXIT_RUNTIME = 2 };

#define LAST_ROOM 128 /* metrics of which the summary has the last value */
#define NAME_ROOM 64
#define ID        8 /* characters of an id */
#define PREFIX    "offline-run-"

struct wandb_opts {
	const char *path, *project, *entity, *name;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct wandb_opts, path, ZR_T_STR, 0, "wandb", 0, 0, "",
	       "Directory of the offline run, relative to the run directory."),
	ZR_OPT(struct wandb_opts, project, ZR_T_STR, 0, "zeroth", 0, 0, "",
	       "Project that `wandb sync` sends the run to."),
	ZR_OPT(struct wandb_opts, entity, ZR_T_STR, 0, "", 0, 0, "",
	       "User or team of the project; without one that of the login."),
	ZR_OPT(struct wandb_opts, name, ZR_T_STR, 0, "", 0, 0, "",
	       "Name of the run; without one that of the run directory."),
};

struct last {
	char name[NAME_ROOM];
	double value;
};

struct zr_inst {
	const struct zr_host *h;
	const struct wandb_opts *opts;
	struct wandb_log log;
	int entered, open; /* the directory of the run is open; its file is there */
	char dir[64];      /* its name, "": not chosen yet */
	int failed;        /* nothing more is written */
	int64_t records, resumed, step;
	double start, now; /* Unix seconds */
	struct last last[LAST_ROOM];
	int n_last;
	char config[32768];
	uint8_t record[WANDB_RECORD_ROOM];
};

/* ---- records ---- */

static void begin_record(struct zr_inst *inst, struct message *m)
{
	*m = (struct message){ inst->record, 0, sizeof inst->record, 0 };
	message_varint(m, RECORD_NUM, (uint64_t)++inst->records);
}

static int end_record(struct zr_inst *inst, const struct message *m)
{
	if (m->full)
		return zr_fail(inst->h, ZR_EINVAL, "%s: a record is longer than %d bytes",
			       inst->log.out.name, WANDB_RECORD_ROOM);
	return wandb_log_append(&inst->log, m->bytes, m->used);
}

/* As Python's json has it: NaN and Infinity are words. */
static const char *json_number(double v, char text[40])
{
	char *comma;

	if (isnan(v))
		return "NaN";
	if (isinf(v))
		return v > 0 ? "Infinity" : "-Infinity";

	for (int digits = 15; digits <= 17; digits++) {
		snprintf(text, 40, "%.*g", digits, v);
		if (strtod(text, NULL) == v)
			break;
	}

	comma = strchr(text, ','); /* the program's locale may have one for a point */
	if (comma)
		*comma = '.';

	return text;
}

static void put_item(struct message *m, const char *key, double v)
{
	char text[40];
	size_t item = message_begin(m, UPDATE);
	message_text(m, ITEM_NESTED, key);
	message_text(m, ITEM_JSON, json_number(v, text));
	message_end(m, item);
}

static int write_header(struct zr_inst *inst)
{
	struct message m;

	begin_record(inst, &m);
	size_t header = message_begin(&m, RECORD_HEADER);
	size_t version = message_begin(&m, HEADER_VERSION);
	message_text(&m, VERSION_PRODUCER, "zeroth");
	message_text(&m, VERSION_MIN_CONSUMER, "0.70.0");
	message_end(&m, version);
	message_end(&m, header);
	return end_record(inst, &m);
}

/* A value of config.ini: a number as one, all else as a string. */
static void put_value(struct message *m, const char *section, const char *key, const char *value)
{
	char name[256], text[1024], *end;
	size_t n = 0, item;
	const double v = strtod(value, &end);

	if (snprintf(name, sizeof name, "%s.%s", section, key) >= (int)sizeof name ||
	    strlen(value) * 6 + 3 > sizeof text)
		return;
	if (*value && !*end && isfinite(v) && !strpbrk(value, "xXpP")) {
		json_number(v, text);
	} else {
		text[n++] = '"';
		for (const char *p = value; *p; p++)
			if (*p == '"' || *p == '\\' || (unsigned char)*p < 0x20)
				n += (size_t)sprintf(text + n, "\\u%04x", (unsigned char)*p);
			else
				text[n++] = *p;
		strcpy(text + n, "\"");
	}

	item = message_begin(m, UPDATE);
	message_text(m, ITEM_KEY, name);
	message_text(m, ITEM_JSON, text);
	message_end(m, item);
}

static char *trim(char *p)
{
	char *end;

	while (isspace((unsigned char)*p))
		p++;
	for (end = p + strlen(p); end > p && isspace((unsigned char)end[-1]);)
		*--end = 0;

	return p;
}

/* The options of the run, as its config.ini has them. */
static void put_config(struct message *m, const char *text)
{
	char line[1024], section[128] = "";

	while (*text) {
		size_t n = strcspn(text, "\n"), kept = n < sizeof line ? n : sizeof line - 1;
		memcpy(line, text, kept);
		line[kept] = 0;
		text += n + (text[n] == '\n');
		char *remark = strstr(line, " ;"), *equal, *p = line;
		if (remark)
			*remark = 0;
		p = trim(p);
		if (*p == '[' && p[strlen(p) - 1] == ']')
			snprintf(section, sizeof section, "%.*s", (int)strlen(p) - 2, p + 1);
		else if (*p != ';' && (equal = strchr(p, '='))) {
			*equal = 0;
			put_value(m, section, trim(p), trim(equal + 1));
		}
	}
}

static const char *base_name(const char *path)
{
	const char *slash = NULL;

	if (path)
		slash = strrchr(path, '/');
	if (slash && slash[1])
		return slash + 1;
	if (path)
		return path;

	return "run";
}

/* Reads the run's config.ini, if there is one. */
static void read_config(struct zr_inst *inst)
{
	char path[4200];
	ssize_t n = 0;
	int fd = -1;

	if (inst->h->run_dir &&
	    snprintf(path, sizeof path, "%s/config.ini", inst->h->run_dir) < (int)sizeof path)
		fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, inst->config, sizeof inst->config - 1);
		close(fd);
	}

	inst->config[n > 0 ? n : 0] = 0;
}

static int write_run(struct zr_inst *inst, const char *id)
{
	const struct wandb_opts *o = inst->opts;
	const char *name = *o->name ? o->name : base_name(inst->h->run_dir);
	struct message m;
	char host[65] = "";
	size_t run, part;

	read_config(inst);
	gethostname(host, sizeof host - 1);
	begin_record(inst, &m);
	run = message_begin(&m, RECORD_RUN);
	message_text(&m, RUN_ID, id);
	if (*o->entity)
		message_text(&m, RUN_ENTITY, o->entity);
	message_text(&m, RUN_PROJECT, o->project);

	part = message_begin(&m, RUN_CONFIG);
	put_config(&m, inst->config);
	message_end(&m, part);

	message_text(&m, RUN_NAME, name);
	message_text(&m, RUN_HOST, host);
	part = message_begin(&m, RUN_START);
	message_varint(&m, START_SECONDS, (uint64_t)inst->start);
	message_varint(&m, START_NANOS, (uint64_t)((inst->start - floor(inst->start)) * 1e9));
	message_end(&m, part);
	message_end(&m, run);
	return end_record(inst, &m);
}

static int write_summary(struct zr_inst *inst)
{
	struct message m;

	begin_record(inst, &m);
	size_t summary = message_begin(&m, RECORD_SUMMARY);
	for (int i = 0; i < inst->n_last; i++)
		put_item(&m, inst->last[i].name, inst->last[i].value);
	put_item(&m, "_step", (double)inst->step);
	put_item(&m, "_timestamp", inst->now);
	put_item(&m, "_runtime", inst->now - inst->start);
	message_end(&m, summary);
	return end_record(inst, &m);
}

static int write_exit(struct zr_inst *inst)
{
	struct message m;

	begin_record(inst, &m);
	size_t part = message_begin(&m, RECORD_EXIT);
	message_varint(&m, EXIT_CODE, 0);
	message_varint(&m, EXIT_RUNTIME, (uint64_t)(inst->now - inst->start));
	message_end(&m, part);
	return end_record(inst, &m);
}

/* ---- the file ---- */

/* Into the directory of the run, offline-run-DATE-ID, and its file. */
static int open_run(struct zr_inst *inst, const char *dir, int make)
{
	char name[64];
	const char *id = strrchr(dir, '-') + 1;
	int rc = ZR_OK;

	if (!inst->entered)
		rc = output_enter(&inst->log.out, dir, make);
	inst->entered = !rc;
	snprintf(name, sizeof name, "run-%s.wandb", id);
	if (!rc)
		rc = output_file(&inst->log.out, name, make);
	inst->open = !rc;
	return rc;
}

static void make_id(char id[ID + 1])
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789";
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	/* splitmix64's finaliser (Steele et al. 2014) */
	uint64_t z = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
	z += (uint64_t)getpid() * 0x9e3779b97f4a7c15u;
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	z ^= z >> 31;
	for (int i = 0; i < ID; i++, z /= 36)
		id[i] = letters[z % 36];
	id[ID] = 0;
}

/* offline-run-DATE-ID, chosen once: what failed for want of room is tried again. */
static void choose_dir(struct zr_inst *inst)
{
	char id[ID + 1];
	struct tm date;
	const time_t start = (time_t)inst->start;

	if (*inst->dir)
		return;

	make_id(id);
	gmtime_r(&start, &date);
	strftime(inst->dir, sizeof inst->dir, PREFIX "%Y%m%d_%H%M%S-", &date);
	strcat(inst->dir, id);
}

static int begin_run(struct zr_inst *inst)
{
	int rc = wandb_log_begin(&inst->log);
	if (!rc)
		rc = write_header(inst);
	if (rc)
		return rc;

	return write_run(inst, strrchr(inst->dir, '-') + 1);
}

static double now(const struct zr_metric *metric, uint32_t n)
{
	struct timespec t;

	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(metric[i].name, "time"))
			return metric[i].value;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void remember(struct zr_inst *inst, const char *name, double v)
{
	int i = 0;
	while (i < inst->n_last && strcmp(inst->last[i].name, name))
		i++;
	if (i == LAST_ROOM || strlen(name) >= NAME_ROOM)
		return;
	if (i == inst->n_last)
		strcpy(inst->last[inst->n_last++].name, name);
	inst->last[i].value = v;
}

static int write_history(struct zr_inst *inst, int64_t step, const struct zr_metric *metric,
			 uint32_t n)
{
	struct message m;
	char tag[TAG_ROOM];

	begin_record(inst, &m);
	size_t history = message_begin(&m, RECORD_HISTORY), part;
	for (uint32_t i = 0; i < n; i++) {
		if (!strcmp(metric[i].name, "time"))
			continue;

		tag_of(metric[i].name, tag);
		put_item(&m, tag, metric[i].value);
		remember(inst, tag, metric[i].value);
	}

	put_item(&m, "_timestamp", inst->now);
	put_item(&m, "_runtime", inst->now - inst->start);
	put_item(&m, "_step", (double)step);
	part = message_begin(&m, HISTORY_STEP);
	message_varint(&m, STEP_NUM, (uint64_t)step);
	message_end(&m, part);
	message_end(&m, history);
	return end_record(inst, &m);
}

/* All of a step's records, or none of them. */
static int write_step(struct zr_inst *inst, int64_t step, const struct zr_metric *metric,
		      uint32_t n)
{
	int rc = ZR_OK;

	inst->now = now(metric, n);
	inst->step = step;
	if (inst->start == 0)
		inst->start = inst->now;
	if (!inst->open) {
		choose_dir(inst);
		rc = open_run(inst, inst->dir, 1);
	}

	if (rc)
		return rc;

	const int64_t start = inst->log.out.size, records = inst->records;
	if (!start)
		rc = begin_run(inst);
	if (!rc)
		rc = write_history(inst, step, metric, n);
	if (rc)
		inst->records = records;

	return output_undo(&inst->log.out, start, rc);
}

static int wandb_metrics(struct zr_inst *inst, int64_t step, const struct zr_metric *metric,
			 uint32_t n)
{
	int rc = write_step(inst, step, metric, n);
	inst->failed = rc != ZR_OK && rc != ZR_EAGAIN;
	return rc;
}

static int wandb_flush(struct zr_inst *inst)
{
	if (inst->open)
		return output_flush(&inst->log.out);

	return ZR_OK;
}

/* ---- resuming ---- */

/* A field of the message that another field is. */
static int find_in(const struct zr_pb_field *message, uint64_t number, struct zr_pb_field *f)
{
	return zr_pb_find(message->data, message->bytes, number, f);
}

/* Whether a record stays in a run that goes on after inst->resumed. */
static int stays(void *arg, const uint8_t *record, size_t bytes)
{
	struct zr_inst *inst = arg;
	struct zr_pb_field part, in, number;

	if (zr_pb_find(record, bytes, RECORD_EXIT, &part))
		return 0;
	if (zr_pb_find(record, bytes, RECORD_HISTORY, &part) && find_in(&part, HISTORY_STEP, &in) &&
	    find_in(&in, STEP_NUM, &number) && (int64_t)number.value > inst->resumed)
		return 0;
	if (zr_pb_find(record, bytes, RECORD_RUN, &part) && find_in(&part, RUN_START, &in) &&
	    find_in(&in, START_SECONDS, &number))
		inst->start = (double)number.value;
	inst->records++;
	return 1;
}

static int wandb_resume(struct zr_inst *inst, int64_t step)
{
	char newest[64] = "";
	int copy = dup(inst->log.out.dir);
	DIR *d = NULL;

	if (copy >= 0)
		d = fdopendir(copy);
	if (!d)
		return output_failed(&inst->log.out, "read");

	for (struct dirent *e; (e = readdir(d));)
		if (!strncmp(e->d_name, PREFIX, sizeof PREFIX - 1) &&
		    strlen(e->d_name) < sizeof newest && strrchr(e->d_name, '-')[1] &&
		    strcmp(e->d_name, newest) > 0)
			strcpy(newest, e->d_name);
	closedir(d);
	if (!*newest)
		return ZR_OK;

	inst->resumed = step;
	int rc = open_run(inst, newest, 0);
	if (rc)
		return rc == ZR_EAGAIN ? ZR_EIO : rc;

	return wandb_log_cut(&inst->log, inst->record, stays, inst);
}

static int wandb_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = calloc(1, sizeof *inst);
	int rc;

	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->opts = opts;
	crc_init(&inst->log.crc, CRC32);
	rc = output_dir(&inst->log.out, h, inst->opts->path);
	if (rc)
		free(inst);
	else
		*out = inst;

	return rc;
}

static int write_end(struct zr_inst *inst)
{
	int rc = write_summary(inst);
	if (rc)
		return rc;
	return write_exit(inst);
}

static void wandb_destroy(struct zr_inst *inst)
{
	const int64_t start = inst->log.out.size;
	if (inst->open && start && inst->step && !inst->failed)
		output_undo(&inst->log.out, start, write_end(inst));
	output_close(&inst->log.out);
	free(inst);
}

static const struct zr_monitor_v1 vtbl = {
	.size = sizeof vtbl,
	.metrics = wandb_metrics,
	.flush = wandb_flush,
	.resume = wandb_resume,
};

PLUGIN(monitor, "wandb", &vtbl, .version = "1",
       .summary = "Metrics as an offline run of Weights & Biases, for `wandb sync`.",
       PLUGIN_OPTIONS(struct wandb_opts, options), .create = wandb_create,
       .destroy = wandb_destroy);
