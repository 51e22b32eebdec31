/* SPDX-License-Identifier: Apache-2.0
 *
 * declare.c - see declare.h.
 */
#include "train/weights/declare.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/file.h"
#include "train/weights/former.h"

static int start(struct zr_setup *s, struct zr_instance *it, const char *section, const char *iface,
		 struct zr_error *err)
{
	const struct zr_facts facts = { .size = sizeof facts, .world = 1, .workers = 1, .lr = NAN };
	const struct zr_section *sec = zr_config_find(s->cfg, section);

	int rc;
	if (sec)
		rc = zr_config_resolve(s->cfg, section, &facts, err);
	else
		rc = zr_err(err, ZR_EINVAL, "there is no section [%s]", section);
	if (rc)
		return rc;
	return zr_instance_create(it, &s->facts.process, sec, iface, err);
}

static int declare(struct zr_setup *s, struct zr_error *err)
{
	int rc = start(s, &s->roles.model, "model", "zr.model/1", err);

	s->facts.process.model = &s->roles.model;
	if (!rc && zr_config_find(s->cfg, "adapter"))
		rc = start(s, &s->roles.adapter, "adapter", "zr.model/1", err);
	if (!rc)
		rc = ZR_ASK(zr_model_of(&s->roles), model, declare, err, &s->facts.decl);
	if (!rc)
		rc = zr_layout_make(&s->facts.decl, &s->facts.layout, err);
	if (!rc)
		rc = zr_frozen_find(s, err);
	if (!rc && s->facts.stored) {
		rc = start(s, &s->roles.host_device, "device.host", "zr.device/1", err);
		const struct zr_device_v1 *v = s->roles.host_device.vtbl;
		s->roles.host_ops = rc ? NULL : v->ops(s->roles.host_device.inst);
	}

	if (!rc)
		rc = start(s, &s->roles.precision, "precision", "zr.precision/1", err);
	if (rc)
		return rc;
	return ZR_ASK(&s->roles.precision, precision, info, err, &s->facts.types);
}

int zr_declare(struct zr_config *cfg, struct zr_setup **out, struct zr_error *err)
{
	struct zr_setup *s = calloc(1, sizeof *s);
	if (!s)
		return zr_no_memory(err);

	s->cfg = cfg;
	s->facts.train = zr_config_find(cfg, "train")->opts;
	s->facts.process = (struct zr_process){
		.world = 1, .local_world = 1, .account = &s->account, .cfg = cfg
	};
	s->facts.decl.size = sizeof s->facts.decl;
	s->facts.types.size = sizeof s->facts.types;
	s->facts.types.master = ZR_MASTER_FP32;
	int rc = declare(s, err);
	if (rc)
		zr_setup_close(s);
	else
		*out = s;
	return rc;
}

/* Where nothing is computed, any memory will do. */
int zr_declare_optimizers(struct zr_setup *s, struct zr_error *err)
{
	struct zr_setup_facts *f = &s->facts;

	f->ranks.machine_ranks = 1;
	f->device_info.host_access = 1;
	f->batch.train = (int64_t)f->train->train_batch_size;
	f->batch.length = (int64_t)f->train->sequence_length;
	int rc = zr_optimizers_start(s, err);
	if (rc)
		return rc;
	return zr_setup_start(s, &s->roles.scheduler, "scheduler", "zr.scheduler/1", err);
}

static int load_text(const char *text, const char *const *overrides, int n, struct zr_config **out,
		     struct zr_error *err)
{
	char name[64];
	int fd = memfd_create("config.ini", MFD_CLOEXEC);
	int no = fd < 0 ? errno : zr_write_all_at(fd, text, strlen(text), 0);

	snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
	int rc;
	if (no)
		rc = zr_err(err, ZR_EIO, "%s", strerror(no));
	else
		rc = zr_config_load(name, overrides, n, out, err);
	if (fd >= 0)
		close(fd);
	return rc;
}

/* What was refused, with the names that its keys have now; 0: that is it. */
static int load_former(const char *text, const char *const *overrides, int n,
		       struct zr_config **out)
{
	struct zr_error why = { 0 };
	char *now = zr_former_text(text);
	int rc = ZR_EINVAL;
	if (now)
		rc = load_text(now, overrides, n, out, &why);
	free(now);
	return rc;
}

int zr_declare_config(const char *text, const char *path, const char *const *overrides, int n,
		      struct zr_config **out, struct zr_error *err)
{
	struct zr_error why = { 0 };
	int rc = load_text(text, overrides, n, out, &why);
	if (!rc || !load_former(text, overrides, n, out))
		return 0;
	return zr_err(err, rc, "%s: the configuration in it: %s", path, why.text);
}

int zr_run_config(const char *ini, const char *const *overrides, int n, struct zr_config **out,
		  struct zr_error *err)
{
	char *text = NULL;
	size_t bytes;

	int rc = zr_config_load(ini, overrides, n, out, err);
	if (rc && !zr_file_text(AT_FDCWD, ini, 1, 1 << 20, &text, &bytes) &&
	    !load_former(text, overrides, n, out))
		rc = 0;
	free(text);
	return rc;
}

int32_t zr_declared_own(const struct zr_layout *l)
{
	int32_t n = 0;
	while (n < l->n_tensors && !(l->tensor[n].flags & ZR_TENSOR_ADDED))
		n++;
	return n;
}

const char *zr_declared_store(const struct zr_setup *s)
{
	const struct zr_opt *o = zr_model_table.table.opts;
	while (strcmp(o->name, "store"))
		o++;
	return s->facts.stored ? o->choices[s->roles.model.section->store] : NULL;
}
