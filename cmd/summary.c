/* SPDX-License-Identifier: Apache-2.0
 *
 * summary.c - summary.json: what the run did, and the ledger of memory, planned beside held.
 */
#include <errno.h>
#include <jansson.h>
#include <limits.h>
#include <string.h>

#include "cmd/run.h"
#include "cmd/rundir.h"
#include "core/setup.h"

static json_t *hex(uint64_t v)
{
	return json_sprintf("%016llx", (unsigned long long)v);
}

static json_t *ledger(const struct zr_account *a)
{
	static const char *const tier[] = { "device", "host", "disk" };
	json_t *out = json_object();
	for (int i = 0; i < a->n; i++) {
		const struct zr_account_line *l = &a->line[i];
		json_t *t = json_object_get(out, tier[l->tier]);
		if (!t) {
			json_object_set_new(out, tier[l->tier], json_object());
			t = json_object_get(out, tier[l->tier]);
		}
		json_object_set_new(t, l->what, json_pack("{s:I, s:I}", "planned", (json_int_t)l->planned, "peak", (json_int_t)l->peak));
	}
	return out;
}

static json_t *checkpoints(const struct zr_saver_stats *s)
{
	return json_pack("{s:I, s:I, s:I, s:f, s:f}", "saved", (json_int_t)s->saved, "failed", (json_int_t)s->failed, "bytes",
			 (json_int_t)s->bytes, "seconds", s->seconds, "stall_seconds", s->stall);
}

int zr_summary_write(const struct zr_setup *s, const struct zr_run_report *r, struct zr_error *err)
{
	char path[PATH_MAX];
	json_t *j = json_pack("{s:I, s:I, s:I, s:f, s:f, s:f, s:f, s:I, s:o}", "steps", (json_int_t)r->steps, "skipped",
			      (json_int_t)r->skipped, "tokens", (json_int_t)r->tokens, "seconds", r->seconds, "tokens_per_s",
			      r->tokens_per_s, "first_loss", (double)r->first_loss, "last_loss", (double)r->last_loss,
			      "parameters", (json_int_t)r->parameters, "memory", ledger(&s->account));
	if (!j)
		j = json_object(); /* a non-finite loss has no JSON form: the rest still has */
	if (r->evals) {
		json_object_set_new(j, "first_val_loss", json_real(r->first_val));
		json_object_set_new(j, "last_val_loss", json_real(r->last_val));
	}
	if (r->updates)
		json_object_set_new(j, "update_seconds", json_real(r->update_seconds / (double)r->updates));
	if (r->resumed >= 0) {
		json_object_set_new(j, "resumed_after_step", json_integer((json_int_t)r->resumed));
		json_object_set_new(j, "resume_seconds", json_real(r->resume_seconds));
	}
	if (r->checkpoints.saved || r->checkpoints.failed)
		json_object_set_new(j, "checkpoints", checkpoints(&r->checkpoints));
	json_object_set_new(j, "world", json_integer(r->world));
	if (r->world > 1)
		json_object_set_new(j, "received_bytes_per_step",
				    json_pack("{s:I, s:I}", "planned", (json_int_t)r->received_plan, "measured", (json_int_t)r->received));
	if (s->plan.sums)
		json_object_set_new(j, "sums_over_ranks", json_string(s->plan.sums));
	json_object_set_new(j, "process_peak_bytes", json_integer((json_int_t)r->process_peak));
	json_object_set_new(j, "device", json_string(r->device));
	json_object_set_new(j, "device_variant", json_string(r->variant));
	json_object_set_new(j, "losses_digest", hex(r->losses_digest));
	json_object_set_new(j, "params_digest", hex(r->params_digest));
	json_object_set_new(j, "interrupted", json_boolean(r->interrupted));
	if (r->stopped)
		json_object_set_new(j, "stopped", json_string(r->stopped_text));
	int rc = json_dump_file(j, zr_rundir_file(s->cfg, "summary.json", path, sizeof path), JSON_INDENT(2));
	json_decref(j);
	return rc ? zr_err(err, ZR_EIO, "%s: cannot write: %s", path, strerror(errno)) : 0;
}
