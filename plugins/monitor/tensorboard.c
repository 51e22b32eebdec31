/* SPDX-License-Identifier: Apache-2.0
 *
 * tensorboard.c - event files of TensorBoard: records of a length, its CRC, a protobuf message
 * Event and its CRC (tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto), a
 * record per step. A resumed run begins a file of its own with the event at which TensorBoard
 * forgets what older files have of the steps that are trained again.
 */
#include <zeroth/monitor.h>

#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "message.h"
#include "output.h"
#include "tag.h"
#include "plugins/descriptor.h"

#define RECORD_ROOM 16384 /* bytes of the longest record */
#define PREFIX      "events.out.tfevents."

/* Numbers of fields. */
enum { EVENT_TIME = 1, EVENT_STEP = 2, EVENT_VERSION = 3, EVENT_SUMMARY = 5, EVENT_SESSION = 7 };
enum { SUMMARY_VALUE = 1, VALUE_TAG = 1, VALUE_SIMPLE = 2, SESSION_STATUS = 1 };
#define SESSION_START 1

struct tb_opts {
	const char *path;
};

static const struct zr_opt options[] = {
	ZR_OPT(struct tb_opts, path, ZR_T_STR, 0, "tensorboard", 0, 0, "",
	       "Directory of the event files, relative to the run directory."),
};

struct zr_inst {
	const struct zr_host *h;
	struct output out;
	struct crc crc;
	int64_t resumed; /* the step after which the run goes on; -1: a new run */
	uint8_t record[RECORD_ROOM];
};

static uint32_t masked(const struct zr_inst *inst, const void *p, size_t n)
{
	uint32_t c = crc_of(&inst->crc, 0, p, n);
	return (c >> 15 | c << 17) + 0xa282ead8u;
}

static void begin_event(struct zr_inst *inst, struct message *m, double wall, int64_t step)
{
	*m = (struct message){ inst->record + 12, 0, RECORD_ROOM - 16, 0 };
	message_double(m, EVENT_TIME, wall);
	if (step)
		message_varint(m, EVENT_STEP, (uint64_t)step);
}

static int end_event(struct zr_inst *inst, const struct message *m)
{
	uint8_t *r = inst->record;

	if (m->full)
		return zr_fail(inst->h, ZR_EINVAL, "%s: a record is longer than %d bytes",
			       inst->out.name, RECORD_ROOM);
	put_low_first(r, m->used, 8);
	put_low_first(r + 8, masked(inst, r, 8), 4);
	put_low_first(r + 12 + m->used, masked(inst, r + 12, m->used), 4);
	return output_write(&inst->out, r, m->used + 16);
}

/* What a file begins with. */
static int begin_file(struct zr_inst *inst, double wall)
{
	struct message m;
	size_t session;
	int rc;

	begin_event(inst, &m, wall, 0);
	message_text(&m, EVENT_VERSION, "brain.Event:2");
	rc = end_event(inst, &m);
	if (rc || inst->resumed < 0)
		return rc;

	begin_event(inst, &m, wall, inst->resumed + 1);
	session = message_begin(&m, EVENT_SESSION);
	message_varint(&m, SESSION_STATUS, SESSION_START);
	message_end(&m, session);
	return end_event(inst, &m);
}

/* Unix seconds: what the run says, so that all its monitors say the same. */
static double wall_time(const struct zr_metric *metric, uint32_t n)
{
	struct timespec now;

	for (uint32_t i = 0; i < n; i++)
		if (!strcmp(metric[i].name, "time"))
			return metric[i].value;

	clock_gettime(CLOCK_REALTIME, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int tb_metrics(struct zr_inst *inst, int64_t step, const struct zr_metric *metric,
		      uint32_t n)
{
	const double wall = wall_time(metric, n);
	const int64_t start = inst->out.size;
	struct message m;
	size_t summary, value;
	char tag[TAG_ROOM];
	int rc = ZR_OK;

	if (!start)
		rc = begin_file(inst, wall);
	if (rc)
		return output_undo(&inst->out, start, rc);

	begin_event(inst, &m, wall, step);
	summary = message_begin(&m, EVENT_SUMMARY);
	for (uint32_t i = 0; i < n; i++) {
		if (!strcmp(metric[i].name, "time"))
			continue;

		tag_of(metric[i].name, tag);
		value = message_begin(&m, SUMMARY_VALUE);
		message_text(&m, VALUE_TAG, tag);
		message_float(&m, VALUE_SIMPLE, (float)metric[i].value);
		message_end(&m, value);
	}

	message_end(&m, summary);
	return output_undo(&inst->out, start, end_event(inst, &m));
}

static int tb_flush(struct zr_inst *inst)
{
	return output_flush(&inst->out);
}

static int tb_resume(struct zr_inst *inst, int64_t step)
{
	inst->resumed = step;
	return ZR_OK;
}

/* Seconds for the name of a new file, which TensorBoard reads behind all that sort before it. */
static int64_t time_of_name(int dir)
{
	int64_t at = (int64_t)time(NULL);
	const int copy = dup(dir);
	DIR *d = NULL;

	if (copy >= 0)
		d = fdopendir(copy);
	struct dirent *e;
	if (!d)
		return at;

	while ((e = readdir(d)))
		if (!strncmp(e->d_name, PREFIX, sizeof PREFIX - 1)) {
			long long other = atoll(e->d_name + sizeof PREFIX - 1);
			if (other >= at && other < INT64_MAX)
				at = other + 1;
		}
	closedir(d);
	return at;
}

static int make_file(struct zr_inst *inst)
{
	char host[64] = "", name[160];
	if (gethostname(host, sizeof host - 1) || !*host || strchr(host, '/'))
		strcpy(host, "localhost");
	snprintf(name, sizeof name, PREFIX "%010lld.%s.%ld.0",
		 (long long)time_of_name(inst->out.dir), host, (long)getpid());

	return output_file(&inst->out, name, 1);
}

static int tb_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	const struct tb_opts *o = opts;
	struct zr_inst *inst = calloc(1, sizeof *inst);
	int rc;

	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");

	inst->h = h;
	inst->resumed = -1;
	crc_init(&inst->crc, CRC32C);
	rc = output_dir(&inst->out, h, o->path);
	if (!rc && (rc = make_file(inst)))
		output_close(&inst->out);
	rc = rc == ZR_EAGAIN ? ZR_EIO : rc; /* a run does not begin without its file */
	if (rc)
		free(inst);
	else
		*out = inst;

	return rc;
}

static void tb_destroy(struct zr_inst *inst)
{
	output_close(&inst->out);
	free(inst);
}

static const struct zr_monitor_v1 vtbl = {
	.size = sizeof vtbl,
	.metrics = tb_metrics,
	.flush = tb_flush,
	.resume = tb_resume,
};

PLUGIN(monitor, "tensorboard", &vtbl, .version = "1",
       .summary = "Metrics as event files of TensorBoard.", PLUGIN_OPTIONS(struct tb_opts, options),
       .create = tb_create, .destroy = tb_destroy);
