/* SPDX-License-Identifier: Apache-2.0
 *
 * rank.c - what the thread of a rank does for each command.
 */
#include <string.h>

#include "embed/engine.h"

/* The name of a text is that of a descriptor, which no message should have. */
static void name_text(const struct zeroth *e, struct zr_error *err)
{
	char path[64], *at = err->text;
	size_t n = (size_t)snprintf(path, sizeof path, ENGINE_TEXT_PATH, e->text_fd);

	while (e->text_fd >= 0 && (at = strstr(at, path))) {
		memcpy(at, "text", 4);
		memmove(at + 4, at + n, strlen(at + n) + 1);
	}
}

static int resume(struct rank *r, struct zr_error *err)
{
	const char *name = r->engine->name;

	if (r->begun)
		return zr_err(err, ZR_ESTATE, "zeroth_resume: the training has begun");

	int rc = zr_trainer_find(&r->t, name, err);
	if (!rc)
		rc = zr_trainer_resume(&r->t, name, 0, err);
	if (!r->number)
		r->engine->resumed = r->t.resumed;
	if (rc)
		return rc;
	return rank_begin(r, err);
}

/* ---- steps ----------------------------------------------------------------------- */

/* All micro-batches are done: what backward did ends here, and the rest is the step's. */
static void at_boundary(void *arg, const struct zr_lowered *p, int32_t n, int waited)
{
	static const struct zr_error none = { 0 };
	struct rank *r = arg;

	if (p->id != ZR_S_BOUNDARY || n || waited || !r->parts || r->ending)
		return;

	rank_answer(r, &none);
	r->ending = rank_next(r) == CMD_END;
	if (r->ending && r->t.setup->facts.process.world > 1)
		zr_setup_abort(r->t.setup, "the engine is closed within a step");
}

static int step(struct rank *r, int parts, struct zr_error *err)
{
	const int64_t all = (int64_t)r->t.setup->facts.train->steps;

	int rc = rank_begin(r, err);
	if (!rc && r->t.session->step >= all)
		return zr_err(err, ZR_ESTATE, "all %lld steps of [train] steps are done",
			      (long long)all);
	if (rc)
		return rc;

	r->parts = r->fresh = parts;
	r->t.session->ran = parts ? at_boundary : NULL;
	r->t.session->ran_arg = r;
	rc = zr_trainer_step(&r->t, 0, err);
	if (rc)
		return rc;
	if (r->t.stopped.code)
		return zr_err(err, r->t.stopped.code, "%s", r->t.stopped.text);
	return 0;
}

/* ---- evaluations ----------------------------------------------------------------- */

static int infer(struct rank *r, struct zr_error *err)
{
	struct zr_rows rows = { 0 };
	int rc = rank_begin(r, err);

	r->inferring = 1;
	if (!rc)
		rc = zr_session_eval(r->t.session, r->t.setup->roles.source, 0,
				     r->t.setup->facts.process.rank, &rows, err);
	r->inferring = 0;
	r->loss = 0;
	for (int64_t i = 0; !rc && i < rows.n; i++)
		r->loss += (double)rows.loss[i] / (double)rows.n;
	return rc;
}

static int evaluate(struct rank *r, struct zr_error *err)
{
	const struct zr_eval_how how = { 0 };
	struct zr_run_set *set = NULL;
	int rc = rank_begin(r, err);

	for (int i = 0; i < r->t.evals.n; i++)
		if (!strcmp(r->t.evals.set[i].name, r->engine->name))
			set = &r->t.evals.set[i];
	if (!rc && !set)
		rc = zr_err(err, ZR_EINVAL,
			    *r->engine->name ? "there is no [eval.%s]" :
					       "nothing of [data] is held out%s",
			    r->engine->name);
	if (!rc && r->engine->model.size)
		rc = zr_eval_once(r->t.setup, set->set.from, 0, &set->set, err);
	if (!rc)
		rc = zr_trainer_evaluate(&r->t, set, &how, err);
	if (!rc && !r->number)
		r->engine->eval = set->last;
	return rc;
}

/* ---- the thread ------------------------------------------------------------------ */

static int do_command(struct rank *r, enum command c, struct zr_error *err)
{
	switch (c) {
	case CMD_OPEN:
		return rank_open(r, err);
	case CMD_STEP:
		return step(r, 0, err);
	case CMD_FORWARD:
		return step(r, 1, err);
	case CMD_INFER:
		return infer(r, err);
	case CMD_EVALUATE:
		return evaluate(r, err);
	case CMD_RESUME:
		return resume(r, err);
	case CMD_SAVE:
		return rank_save(r, err);
	case CMD_WEIGHTS:
		return rank_save_weights(r, err);
	case CMD_GET:
	case CMD_PUT:
	case CMD_CHANGE:
		return rank_visit(r, c, err);
	case CMD_SUM:
		return rank_sum(r, err);
	case CMD_DIGEST:
		return rank_digest(r, err);
	default:
		return zr_err(err, ZR_EINTERNAL, "unknown command %d", c);
	}
}

static void close_all(struct rank *r)
{
	zr_trainer_push(&r->t, NULL);
	zr_trainer_leave_dirs(&r->t, 0);
	zr_trainer_close(&r->t);
	zr_config_free(r->t.cfg);
}

void *rank_main(void *arg)
{
	struct rank *r = arg;
	enum command c;

	rank_here = r;
	while (!r->ending && (c = rank_next(r)) != CMD_END) {
		struct zr_error err = { 0 };
		int rc = do_command(r, c, &err);
		if (rc && !err.code)
			zr_err(&err, rc, "failed with code %d", rc);
		name_text(r->engine, &err);
		if (rc && r->t.setup && !r->harmless)
			zr_setup_abort(r->t.setup, err.text);
		if (!r->ending)
			rank_answer(r, &err);
	}

	close_all(r);
	return NULL;
}
