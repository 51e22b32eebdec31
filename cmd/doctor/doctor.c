/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor.c - zeroth doctor: what this machine has for training, and each problem with what mends
 * it.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "cmd/plugin.h"
#include "core/base/child.h"
#include "core/base/json.h"
#include "core/base/json_text.h"
#include "core/base/log.h"
#include "doctor.h"
#include "train/fit.h"
#include "train/run/crash.h"
#include "train/run/outlet.h"

static const struct zr_cmd_option options[] = {
	ZR_CMD_OPTION_RANKS(struct zr_cmd_args, "whether CONF can run with so many ranks", 4096),
	ZR_CMD_OPTION_JSON(struct zr_cmd_args, "machine-readable"),
	ZR_CMD_OPTION_SET(struct zr_cmd_args, "sets an option over CONF; the last of several wins"),
	{ 0 },
};

const struct zr_cmd_usage zr_doctor_usage = {
	.command = "doctor",
	.form = { { NULL, "[CONF]", NULL } },
	.about = "Shows what this machine has for training, and each problem with the command that "
		 "mends\n"
		 "it. With CONF also whether that can run here. Exit code 0: nothing hinders a "
		 "run.\n",
	.option = options,
};

/* ---- a configuration ------------------------------------------------------------- */

struct place {
	char what[64], path[PATH_MAX];
};

/* What a process that loads plugins finds. */
struct trial {
	char device[64], variant[64];
	struct zr_error err;
	int n;
	struct place place[ZR_DISKS];
};

static void add_place(struct trial *t, const char *what, const char *path)
{
	if (t->n == ZR_DISKS)
		return;

	snprintf(t->place[t->n].what, sizeof t->place->what, "%s", what);
	snprintf(t->place[t->n++].path, sizeof t->place->path, "%s", path);
}

/* The directories that a run of the configuration writes to. */
static void find_places(const struct zr_config *cfg, struct trial *t)
{
	const struct zr_run_opts *run = zr_config_find(cfg, "run")->opts;
	const struct zr_checkpoint_opts *save = zr_config_find(cfg, "checkpoint")->opts;

	add_place(t, "run.dir", strcmp(run->dir, "auto") ? run->dir : "runs");
	if (strcmp(save->dir, "auto"))
		add_place(t, "checkpoint.dir", save->dir);
	for (int i = 0; i < zr_config_count(cfg); i++) {
		const struct zr_section *s = zr_config_at(cfg, i);
		const struct zr_opt *o = zr_table_find(&s->table, "path");
		char what[64];
		if (!s->role || strcmp(s->role, "offload") || !o || o->type != ZR_T_PATH)
			continue;

		snprintf(what, sizeof what, "%s.path", s->name);
		add_place(t, what, zr_value_text(o, s->opts));
	}
}

static int try_setup(struct zr_config *cfg, int ranks, struct trial *t)
{
	struct zr_setup *s = NULL;

	int rc = zr_setup_open(cfg, ZR_MODE_TRAIN, ZR_SETUP_ALONE, ranks, &s, &t->err);
	if (!rc) {
		memcpy(t->device, s->facts.device_info.name, sizeof t->device);
		memcpy(t->variant, s->facts.device_info.variant, sizeof t->variant);
		rc = zr_plan_check(s, 0, &t->err);
	}

	zr_setup_close(s);
	return rc;
}

static int try_device(struct zr_config *cfg, struct trial *t)
{
	struct zr_process process = { .world = 1, .local_world = 1, .cfg = cfg };
	struct zr_facts facts = { .size = sizeof facts, .world = 1, .workers = 1 };
	struct zr_device_info info = { .size = sizeof info };
	struct zr_instance it = { 0 };

	int rc = zr_config_resolve(cfg, "device", &facts, &t->err);
	if (!rc)
		rc = zr_instance_create(&it, &process, zr_config_find(cfg, "device"), "zr.device/1",
					&t->err);
	if (!rc)
		rc = ZR_ASK(&it, device, info, &t->err, &info);
	if (!rc) {
		memcpy(t->device, info.name, sizeof t->device);
		memcpy(t->variant, info.variant, sizeof t->variant);
	}

	zr_instance_destroy(&it);
	return rc;
}

/* Without a configuration only its device is tried: core wants the names of a model and of data. */
static void try_here(const struct zr_cmd_args *a, struct trial *t)
{
	const char *overrides[ZR_CMD_OVERRIDES + 3];
	struct zr_config *cfg = NULL;
	int n = 0;

	if (!a->operand) {
		overrides[n++] = "model.plugin=gpt2";
		overrides[n++] = "data.plugin=text";
		overrides[n++] = "data.path=/dev/null";
	}

	for (int i = 0; i < a->n_overrides; i++)
		overrides[n++] = a->overrides[i];
	zr_log_level(ZR_LOG_ERROR);
	if (zr_config_load(a->operand, overrides, n, &cfg, &t->err))
		return;

	find_places(cfg, t);
	if (a->operand)
		try_setup(cfg, a->ranks ? a->ranks : 1, t);
	else
		try_device(cfg, t);
	zr_config_free(cfg);
}

/* In a process of its own, which a plugin may end. */
static int try_apart(const struct zr_cmd_args *a, struct trial *t)
{
	int status = 0;

	zr_outlet_push();
	pid_t pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		zr_crash_watch(&t->err);
		try_here(a, t);
		zr_crash_unwatch();
		_exit(0);
	}

	if (pid < 0)
		return -1;

	zr_child_wait(pid, &status);
	if (WIFSIGNALED(status) && !*t->err.text)
		snprintf(t->err.text, sizeof t->err.text, "killed by signal %d", WTERMSIG(status));
	return 0;
}

/* ---- what is shown --------------------------------------------------------------- */

static const char *limit_text(uint64_t bytes, char buf[32])
{
	if (bytes != ZR_UNLIMITED)
		return zr_bytes_text(bytes, buf);

	snprintf(buf, 32, "unlimited");
	return buf;
}

static void print_disk(const struct zr_disk *d)
{
	char a[32];

	printf("disk        %s: %s, %s, %s free", d->what, d->path, *d->system ? d->system : "?",
	       limit_text(d->free, a));
	if (!d->no)
		printf("%s", d->direct ? ", O_DIRECT" : ", no O_DIRECT");
	if (d->write > 0)
		printf(", writes %.0f MB/s, reads %.0f MB/s", d->write / 1e6, d->read / 1e6);
	putchar('\n');
}

static void print_plugins(const struct zr_machine *m)
{
	size_t i, usable = 0;
	json_t *j;

	json_array_foreach(m->plugins, i, j)
		usable += !json_object_get(j, "error") && !json_object_get(j, "missing");
	printf("plugins     %zu of %zu can be used\n", usable, json_array_size(m->plugins));
	json_array_foreach(m->plugins, i, j) if (json_object_get(j, "missing"))
		printf("            not %s/%s: %s\n", json_string_value(json_object_get(j, "role")),
		       json_string_value(json_object_get(j, "id")),
		       json_string_value(json_object_get(j, "missing")));
}

static void print_machine(const struct zr_machine *m)
{
	char a[32], b[32];

	printf("processor   %s; %d can be used", *m->cpu ? m->cpu : "?", m->processors);
	if (m->quota > 0)
		printf(", %.2g by the control group", m->quota);
	printf("; %s\n", *m->sets ? m->sets : "no instruction sets that matter here");
	if (*m->device)
		printf("device      %s, %s\n", m->device, m->variant);
	printf("memory      %s, %s available; overcommit %d, huge pages %s\n",
	       zr_bytes_text(m->memory, a), zr_bytes_text(m->available, b), m->overcommit,
	       *m->huge_pages ? m->huge_pages : "?");
	printf("limits      locked memory %s%s, open files %llu", limit_text(m->locked, a),
	       m->may_lock ? " (this process may lock more)" : "", (unsigned long long)m->files);
	printf(", /dev/shm %s, io_uring %s\n", zr_bytes_text(m->shm, a),
	       m->io_uring ? "not allowed" : "allowed");
	for (int i = 0; i < m->n_disks; i++)
		print_disk(&m->disk[i]);
	printf("mpi         %s\n", *m->mpi ? m->mpi : m->mpi_missing);
	printf("cuda        %s\n", *m->cuda ? m->cuda : m->cuda_missing);
	printf("nccl        %s\n", *m->nccl ? m->nccl : m->nccl_missing);
	print_plugins(m);
}

static const char *weight_text(int weight)
{
	if (weight == ZR_HINDERS)
		return "hinders";
	return weight == ZR_SLOWS ? "slows" : "note";
}

static int hinders(const struct zr_findings *f)
{
	int n = 0;
	for (int i = 0; i < f->n; i++)
		n += f->at[i].weight == ZR_HINDERS;
	return n;
}

static void print_findings(const struct zr_findings *f)
{
	if (f->n)
		putchar('\n');
	for (int i = 0; i < f->n; i++) {
		printf("%-11s %s\n", weight_text(f->at[i].weight), f->at[i].text);
		if (*f->at[i].mend)
			printf("            -> %s\n", f->at[i].mend);
	}

	printf("\n%s\n", hinders(f) ? "a run is hindered" : "nothing hinders a run");
}

static json_t *text(const char *s)
{
	if (*s)
		return zr_json_string(s, "(not UTF-8)");
	return json_null();
}

static json_t *limit(uint64_t v)
{
	if (v == ZR_UNLIMITED)
		return json_null();
	return json_integer((json_int_t)v);
}

static json_t *disk_json(const struct zr_disk *d)
{
	json_t *j = json_object();

	zr_json_put(&j, "for", text(d->what));
	zr_json_put(&j, "path", text(d->path));
	zr_json_put(&j, "file_system", text(d->system));
	zr_json_put(&j, "writable", json_boolean(!d->no));
	zr_json_put(&j, "direct", json_boolean(d->direct));
	zr_json_put(&j, "free", limit(d->free));
	zr_json_put(&j, "write", json_integer((json_int_t)d->write));
	zr_json_put(&j, "read", json_integer((json_int_t)d->read));
	return j;
}

static json_t *machine_json(const struct zr_machine *m)
{
	json_t *j = json_object(), *disks = json_array();

	zr_json_put(&j, "cpu", text(m->cpu));
	zr_json_put(&j, "instruction_sets", text(m->sets));
	zr_json_put(&j, "device", text(m->device));
	zr_json_put(&j, "variant", text(m->variant));
	zr_json_put(&j, "processors", json_integer(m->processors));
	zr_json_put(&j, "processor_quota", m->quota > 0 ? json_real(m->quota) : json_null());
	zr_json_put(&j, "memory", limit(m->memory));
	zr_json_put(&j, "available", limit(m->available));
	zr_json_put(&j, "locked_memory", limit(m->locked));
	zr_json_put(&j, "may_lock", json_boolean(m->may_lock));
	zr_json_put(&j, "open_files", limit(m->files));
	zr_json_put(&j, "file_size", limit(m->file_size));
	zr_json_put(&j, "addresses", limit(m->addresses));
	zr_json_put(&j, "shm", limit(m->shm));
	zr_json_put(&j, "shm_free", limit(m->shm_free));
	zr_json_put(&j, "overcommit", json_integer(m->overcommit));
	zr_json_put(&j, "huge_pages", text(m->huge_pages));
	zr_json_put(&j, "io_uring", json_boolean(!m->io_uring));
	for (int i = 0; i < m->n_disks; i++)
		zr_json_add(&disks, disk_json(&m->disk[i]));
	zr_json_put(&j, "disks", disks);
	zr_json_put(&j, "mpi", text(m->mpi));
	zr_json_put(&j, "cuda", text(m->cuda));
	zr_json_put(&j, "nccl", text(m->nccl));
	zr_json_put(&j, "plugins", json_incref(m->plugins));
	return j;
}

static int print_json(const struct zr_machine *m, const struct zr_findings *f, struct zr_error *err)
{
	json_t *j = json_object(), *list = json_array();

	for (int i = 0; i < f->n; i++) {
		json_t *one = json_object();
		zr_json_put(&one, "weight", text(weight_text(f->at[i].weight)));
		zr_json_put(&one, "text", text(f->at[i].text));
		zr_json_put(&one, "mend", text(f->at[i].mend));
		zr_json_add(&list, one);
	}

	zr_json_put(&j, "machine", machine_json(m));
	zr_json_put(&j, "findings", list);
	zr_json_put(&j, "hindered", json_boolean(hinders(f)));
	return zr_json_print(j, JSON_INDENT(2), "what the machine has", err);
}

/* ---- the command ----------------------------------------------------------------- */

static int look(const struct zr_cmd_args *a, struct trial *t, struct zr_machine *m,
		struct zr_error *err)
{
	int rc = zr_plugins_list(&m->plugins, err);
	if (!rc && try_apart(a, t))
		rc = zr_err(err, ZR_ENOMEM, "cannot start a process: %s", strerror(errno));
	if (rc)
		return rc;

	memcpy(m->device, t->device, sizeof m->device);
	memcpy(m->variant, t->variant, sizeof m->variant);
	snprintf(m->refused, sizeof m->refused, "%s", t->err.text);
	zr_look_processor(m);
	zr_look_limits(m);
	if (!t->n)
		add_place(t, "run.dir", "runs");
	for (int i = 0; i < t->n; i++)
		zr_look_disk(m, t->place[i].what, t->place[i].path, 1);
	zr_look_libraries(m);
	return 0;
}

int zr_cmd_doctor(int argc, char **argv)
{
	static struct zr_findings findings;
	struct zr_machine m = { 0 };
	struct zr_cmd_args a = { 0 };
	struct zr_cmd_operands operands;
	struct zr_error err = { 0 };

	int rc = zr_cmd_parse(argc, argv, &zr_doctor_usage, NULL, &a, &operands);
	if (rc >= 0)
		return rc;

	a.operand = operands.at[0];
	rc = 0;

	struct trial *t =
		mmap(NULL, sizeof *t, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (t == MAP_FAILED)
		rc = zr_no_memory(&err);
	if (!rc)
		rc = look(&a, t, &m, &err);
	if (!rc) {
		zr_judge(&m, &findings);
		if (a.json) {
			rc = print_json(&m, &findings, &err);
		} else {
			print_machine(&m);
			print_findings(&findings);
		}
	}

	zr_machine_free(&m);
	if (rc)
		return zr_cmd_failed(&err);
	return hinders(&findings) > 0;
}
