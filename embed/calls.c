/* SPDX-License-Identifier: Apache-2.0
 *
 * calls.c - see zeroth.h: the calls of an engine as commands to its ranks.
 */
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "core/base/file.h"
#include "core/base/pool.h"
#include "core/memory/account.h"
#include "core/persistent.h"
#include "embed/engine.h"

#define MOST_SUMS 65536
#define STACK     (8 << 20) /* bytes, as the main thread's */

/* ---- commands -------------------------------------------------------------------- */

/* The first failure that is not about another rank, else the first. */
static const struct zr_error *first_failure(const struct zeroth *e)
{
	const struct zr_error *found = NULL;

	for (int i = 0; i < e->n; i++) {
		const struct zr_error *err = &e->rank[i].err;
		if (err->code && (!found || (found->code == ZR_EPEER && err->code != ZR_EPEER)))
			found = err;
	}

	return found;
}

/* Ends the engine with the failure that zeroth_error() has now, which later calls return. */
static int end_with(struct zeroth *e, int code)
{
	e->broken = code;
	memcpy(e->cause, e->error, sizeof e->cause);
	return code;
}

/* Returns why no call can come now, or the failure that ended the engine, whatever failed since; 0:
 * neither. */
static int failed_before(struct zeroth *e, const char *what)
{
	int rc = engine_enter(e, what);
	if (rc)
		return rc;
	if (e->broken)
		return engine_fail(e, e->broken, "%s", e->cause);
	return 0;
}

/* Has all ranks do it, and waits for them. */
static int ask(struct zeroth *e, enum command c)
{
	int harmless = 1;

	if (atomic_exchange(&e->running, 1)) /* two threads were let in at once */
		return engine_enter(e, "this call");

	pthread_mutex_lock(&e->lock);
	for (int i = 0; i < e->n; i++) {
		e->rank[i].harmless = 0;
		e->rank[i].asked = c;
		e->rank[i].busy = 1;
	}

	pthread_cond_broadcast(&e->asked);
	for (int i = 0; i < e->n; i++)
		while (e->rank[i].busy)
			pthread_cond_wait(&e->answered, &e->lock);
	for (int i = 0; i < e->n; i++)
		harmless &= e->rank[i].harmless || !e->rank[i].err.code;
	const struct zr_error *err = first_failure(e);
	pthread_mutex_unlock(&e->lock);
	e->running = 0;
	if (!err)
		return 0;

	engine_fail(e, err->code, "%s", err->text);
	return harmless ? err->code : end_with(e, err->code);
}

/* Of a model that threads of the program compute: whether no rank is in a step. */
static int none_within(struct zeroth *e, const char *what)
{
	for (int i = 0; i < e->n; i++)
		if (e->rank[i].within)
			return engine_fail(e, ZR_ESTATE,
					   "%s comes between steps: rank %d is within a "
					   "micro-batch",
					   what, i);

	if (!e->rank->micros)
		return 0;
	return engine_fail(e, ZR_ESTATE, "%s comes between steps: zeroth_step is missing", what);
}

/* Whether a call may come now: the engine is open and well, and no step is in parts. */
static int ready(struct zeroth *e, const char *what)
{
	int rc = failed_before(e, what);
	if (rc)
		return rc;

	*e->error = 0;
	if (!e->open)
		return engine_fail(e, ZR_ESTATE, "%s comes after zeroth_open", what);
	if (engine_is_outside(e))
		return none_within(e, what);
	if (e->at != BETWEEN)
		return engine_fail(e, ZR_ESTATE, "%s comes between steps: %s is missing", what,
				   e->at == FORWARDED ? "zeroth_backward" : "zeroth_step");
	return 0;
}

static int start_threads(struct zeroth *e)
{
	pthread_attr_t attr;
	sigset_t old; /* signals are the program's, but for those of a crash */
	int no = 0;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK);
	zr_pool_mask(&old);
	for (int i = 0; i < e->n && !no; i++) {
		e->rank[i].engine = e;
		e->rank[i].number = i;
		no = pthread_create(&e->rank[i].thread, &attr, rank_main, &e->rank[i]);
		e->started += !no;
	}

	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	if (no)
		return end_with(e, engine_fail(e, ZR_ENOMEM, "cannot start %d threads: %s", e->n,
					       strerror(no)));
	return 0;
}

/* A file without a name holds the text. */
static int keep_text(struct zeroth *e)
{
	if (!e->text)
		return 0;

	e->text_fd = memfd_create("zeroth.ini", MFD_CLOEXEC);
	int no = e->text_fd < 0 ? errno : zr_write_all_at(e->text_fd, e->text, strlen(e->text), 0);
	if (no)
		return engine_fail(e, ZR_EIO, "cannot keep the text of the configuration: %s",
				   strerror(no));
	return 0;
}

int zeroth_open(struct zeroth *e)
{
	int rc = engine_is_new(e, "a second zeroth_open");
	if (!rc)
		rc = keep_text(e);
	if (rc)
		return rc;

	e->rank = calloc((size_t)e->n, sizeof *e->rank);
	e->meeting = e->n > 1 ? meeting_new(e->n) : NULL;
	if (!e->rank || (e->n > 1 && !e->meeting))
		return end_with(e, engine_fail(e, ZR_ENOMEM, "out of memory"));

	e->memory = zr_memory_available();
	rc = start_threads(e);
	if (!rc)
		rc = ask(e, CMD_OPEN);
	e->open = !rc;
	return rc;
}

int zeroth_resume(struct zeroth *e, const char *path, int64_t *step)
{
	int rc = ready(e, "zeroth_resume");
	if (!rc)
		rc = engine_given(e, path != NULL, "zeroth_resume: path");
	if (rc)
		return rc;
	if (e->rank->t.begun)
		return engine_fail(e, ZR_ESTATE, "zeroth_resume comes before all but zeroth_open");

	e->name = path;
	e->resumed = -1;
	rc = ask(e, CMD_RESUME);
	if (!rc && step)
		*step = e->resumed;
	return rc;
}

/* ---- steps ----------------------------------------------------------------------- */

/* Copies to a struct of the caller's, which may be shorter or longer; engine_sized() knows it. */
static void hand_over(void *to, const void *from, uint32_t size)
{
	uint32_t theirs = *(uint32_t *)to, n = theirs < size ? theirs : size;
	memcpy((char *)to + sizeof n, (const char *)from + sizeof n, n > 4 ? n - sizeof n : 0);
}

static void report(const struct zeroth *e, int pending, struct zeroth_result *out)
{
	const struct rank *r = e->rank;
	const struct zr_step_result *s = &r->t.result;
	struct zeroth_result v = { .outcome = ZEROTH_PENDING, .step = r->t.session->step };

	if (!pending)
		v = (struct zeroth_result){ .outcome = s->action == ZR_STEP_APPLY ? ZEROTH_APPLIED :
										    ZEROTH_SKIPPED,
					    .step = r->t.session->step,
					    .loss = (double)s->loss,
					    .grad_norm = s->grad_norm,
					    .lr = s->lr,
					    .loss_scale = s->scale,
					    .seconds = r->t.pace.seconds };
	if (out)
		hand_over(out, &v, sizeof v);
}

/* A step that cannot begin, before any rank is asked: it ends nothing. */
static int more_steps(struct zeroth *e)
{
	const struct rank *r = e->rank;
	const int64_t all = (int64_t)r->t.setup->facts.train->steps;

	if (r->t.session->step < all)
		return 0;
	return engine_fail(e, ZR_ESTATE, "all %lld steps of [train] steps are done",
			   (long long)all);
}

/* What begins and ends a step whose parts are those of [train]. */
static int whole_step(struct zeroth *e)
{
	int rc = ready(e, "zeroth_step");
	if (!rc)
		rc = more_steps(e);
	if (rc)
		return rc;
	if (engine_is_outside(e))
		return engine_fail(e, ZR_ESTATE, "zeroth_step: zeroth_begin comes first");
	if (e->model.size && !e->model.load)
		return engine_fail(e, ZR_ESTATE,
				   "zeroth_step: the model has no function load: "
				   "zeroth_forward and zeroth_backward come first");
	return ask(e, CMD_STEP);
}

/* Micro-batches that threads of the program computed are those of a step in parts. */
static int meet(struct zeroth *e)
{
	const int64_t micros = e->rank->micros;

	for (int i = 0; i < e->n; i++)
		if (e->rank[i].within)
			return engine_fail(e, ZR_ESTATE,
					   "zeroth_step: rank %d is within a micro-batch", i);

	for (int i = 1; i < e->n; i++)
		if (e->rank[i].micros != micros)
			return engine_fail(e, ZR_ESTATE,
					   "zeroth_step: rank %d has done %lld micro-batches of "
					   "the step, and rank 0 %lld",
					   i, (long long)e->rank[i].micros, (long long)micros);

	e->micro = micros;
	e->at = micros ? BACKWARDED : BETWEEN;
	return 0;
}

/* After a step in parts. */
static void begin_anew(struct zeroth *e)
{
	e->at = BETWEEN;
	e->micro = 0;
	for (int i = 0; i < e->n; i++)
		e->rank[i].micros = 0;
}

int zeroth_step(struct zeroth *e, struct zeroth_result *out)
{
	int rc = failed_before(e, "zeroth_step");
	if (!rc)
		rc = ENGINE_SIZED(e, out, struct zeroth_result, seconds, "zeroth_step: r");
	if (rc)
		return rc;

	if (engine_is_outside(e))
		rc = meet(e);
	if (rc)
		return rc;

	const int parts = e->at == BACKWARDED;
	const int pending = parts && e->micro < e->rank->t.setup->facts.batch.accumulation;
	*e->error = 0;
	if (!parts)
		rc = whole_step(e);
	else if (!pending)
		rc = ask(e, CMD_STEP);
	if (parts && !pending)
		begin_anew(e);

	if (!rc)
		report(e, pending, out);
	return rc;
}

/* Whether it has a model of zeroth_set_model() whose layers it calls. */
static int are_functions(struct zeroth *e, const char *what)
{
	if (e->model.size && !engine_is_outside(e))
		return 0;
	return engine_fail(e, ZR_ESTATE,
			   "%s is for a model of zeroth_set_model whose layers are functions",
			   what);
}

/* The batches of the ranks; afterwards the mean of their losses. */
static int run_batches(struct zeroth *e, enum command c, const void *const *batch, double *loss)
{
	double sum = 0;

	for (int i = 0; i < e->n; i++) {
		e->rank[i].given = batch ? batch[i] : NULL;
		e->rank[i].fresh = 1;
	}

	int rc = ask(e, c);
	for (int i = 0; i < e->n; i++)
		sum += e->rank[i].loss / e->n;
	if (!rc && loss)
		*loss = sum;
	return rc;
}

int zeroth_forward(struct zeroth *e, const void *const *batch, double *loss)
{
	int rc = failed_before(e, "zeroth_forward");
	const int goes_on = !rc && e->at == BACKWARDED;

	if (!rc && goes_on && e->micro == e->rank->t.setup->facts.batch.accumulation)
		rc = ready(e, "zeroth_forward");
	else if (!rc && !goes_on)
		rc = ready(e, "zeroth_forward");
	if (!rc)
		rc = are_functions(e, "zeroth_forward");
	rc = rc || goes_on ? rc : more_steps(e);
	if (!rc)
		rc = run_batches(e, CMD_FORWARD, batch, loss);
	if (!rc)
		e->at = FORWARDED;
	return rc;
}

int zeroth_backward(struct zeroth *e)
{
	int rc = failed_before(e, "zeroth_backward");
	if (rc)
		return rc;

	*e->error = 0;
	if (e->at != FORWARDED)
		return engine_fail(e, ZR_ESTATE, "zeroth_backward comes after zeroth_forward");

	rc = ask(e, CMD_BACKWARD);
	if (!rc)
		e->at = BACKWARDED;
	e->micro += !rc;
	return rc;
}

int zeroth_infer(struct zeroth *e, const void *const *batch, double *loss)
{
	int rc = ready(e, "zeroth_infer");
	if (!rc)
		rc = are_functions(e, "zeroth_infer");
	if (rc)
		return rc;
	return run_batches(e, CMD_INFER, batch, loss);
}

/* Whether [data] or [eval.NAME] is there to be evaluated on. */
static int check_set(struct zeroth *e, const char *name)
{
	const struct zr_eval_sets *evals = &e->rank->t.evals;

	for (int i = 0; i < evals->n; i++)
		if (!strcmp(evals->set[i].name, name))
			return 0;
	return engine_fail(e, ZR_EINVAL,
			   *name ? "there is no [eval.%s]" : "nothing is held out to evaluate on%s",
			   name);
}

int zeroth_evaluate(struct zeroth *e, const char *name, struct zeroth_evaluation *out)
{
	int rc = ready(e, "zeroth_evaluate");
	if (!rc)
		rc = ENGINE_SIZED(e, out, struct zeroth_evaluation, targets,
				  "zeroth_evaluate: out");
	if (rc)
		return rc;

	e->name = name ? name : "";
	rc = check_set(e, e->name);
	if (!rc)
		rc = ask(e, CMD_EVALUATE);
	const struct zeroth_evaluation v = { .loss = e->eval.loss,
					     .accuracy = e->eval.accuracy,
					     .targets = e->eval.targets };
	if (!rc && out)
		hand_over(out, &v, sizeof v);
	return rc;
}

/* ---- what comes out -------------------------------------------------------------- */

int zeroth_save(struct zeroth *e)
{
	int rc = ready(e, "zeroth_save");
	if (rc)
		return rc;
	return ask(e, CMD_SAVE);
}

int zeroth_save_weights(struct zeroth *e, const char *file)
{
	int rc = ready(e, "zeroth_save_weights");
	if (!rc)
		rc = engine_given(e, file != NULL, "zeroth_save_weights: file");
	if (rc)
		return rc;

	e->name = file;
	return ask(e, CMD_WEIGHTS);
}

int zeroth_tensor(struct zeroth *e, int64_t i, struct zeroth_tensor_info *out)
{
	if (!e || !e->open)
		return engine_fail(e, ZR_ESTATE, "zeroth_tensor comes after zeroth_open");

	int rc = engine_given(e, out != NULL, "zeroth_tensor: out");
	if (!rc)
		rc = ENGINE_SIZED(e, out, struct zeroth_tensor_info, elements,
				  "zeroth_tensor: out");
	if (rc)
		return rc;

	const struct zr_layout *l = &e->rank->t.setup->facts.layout;
	if (i < 0 || i >= l->n_tensors)
		return engine_fail(e, ZR_EINVAL, "there are %d tensors", l->n_tensors);

	const struct zr_place *t = &l->tensor[i];
	const int is_frozen = e->rank->t.setup->facts.frozen[i] != 0;
	struct zeroth_tensor_info v = { .ndim = t->decl->ndim,
					.name = t->decl->name,
					.elements = t->elements,
					.flags = is_frozen ? ZEROTH_TENSOR_FROZEN : 0,
					.dtype = e->rank->t.setup->facts.types.dtype };
	memcpy(v.dims, t->decl->dims, sizeof v.dims);
	hand_over(out, &v, sizeof v);
	return 0;
}

int zeroth_get(struct zeroth *e, zeroth_get_fn *fn, void *arg)
{
	int rc = ready(e, "zeroth_get");
	if (!rc)
		rc = engine_given(e, fn != NULL, "zeroth_get: fn");
	if (rc)
		return rc;

	e->get = fn;
	e->arg = arg;
	return ask(e, CMD_GET);
}

int zeroth_put(struct zeroth *e, zeroth_put_fn *fn, void *arg)
{
	int rc = ready(e, "zeroth_put");
	if (!rc)
		rc = engine_given(e, fn != NULL, "zeroth_put: fn");
	if (rc)
		return rc;

	e->put = fn;
	e->arg = arg;
	return ask(e, CMD_PUT);
}

int zeroth_change(struct zeroth *e, zeroth_put_fn *fn, void *arg)
{
	int rc = ready(e, "zeroth_change");
	if (!rc)
		rc = engine_given(e, fn != NULL, "zeroth_change: fn");
	if (rc)
		return rc;

	e->put = fn;
	e->arg = arg;
	return ask(e, CMD_CHANGE);
}

int zeroth_numbers(struct zeroth *e, int rank, float **x)
{
	int rc = engine_enter(e, "zeroth_numbers");
	if (!rc)
		rc = engine_given(e, x != NULL, "zeroth_numbers: x");
	if (rc)
		return rc;
	if (!e->open)
		return engine_fail(e, ZR_ESTATE, "zeroth_numbers comes after zeroth_open");
	if (rank < 0 || rank >= e->n)
		return engine_fail(e, ZR_EINVAL,
				   "zeroth_numbers: rank is %d; this process has %d, from 0", rank,
				   e->n);

	const struct rank *r = &e->rank[rank];
	const int n = (int)r->t.setup->facts.layout.persistent;
	*x = n ? zr_persistent_at(r->t.session) : NULL;
	return n;
}

/* The text that the caller frees; NULL: there is no memory. */
static char *write_config(const struct zr_config *cfg)
{
	char *text = NULL;
	size_t n;

	FILE *out = open_memstream(&text, &n);
	if (!out)
		return NULL;

	int failed = zr_config_write_ini(cfg, out, 0);
	failed |= fclose(out);
	if (!failed)
		return text;

	free(text);
	return NULL;
}

int zeroth_config(struct zeroth *e, const char **text)
{
	int rc = engine_enter(e, "zeroth_config");
	if (!rc)
		rc = engine_given(e, text != NULL, "zeroth_config: text");
	if (rc)
		return rc;
	if (!e->open)
		return engine_fail(e, ZR_ESTATE, "zeroth_config comes after zeroth_open");

	if (!e->whole)
		e->whole = write_config(e->rank->t.cfg);
	if (!e->whole)
		return engine_fail(e, ZR_ENOMEM, "out of memory");

	*text = e->whole;
	return 0;
}

int zeroth_sum(struct zeroth *e, double *const *x, int64_t n)
{
	int rc = ready(e, "zeroth_sum");
	if (!rc)
		rc = engine_given(e, x != NULL, "zeroth_sum: x");
	if (rc)
		return rc;
	if (n < 1 || n > MOST_SUMS)
		return engine_fail(e, ZR_EINVAL, "zeroth_sum: n is %lld; expected 1 to %d",
				   (long long)n, MOST_SUMS);

	e->sums = x;
	e->n_sums = n;
	return ask(e, CMD_SUM);
}

int zeroth_metrics(struct zeroth *e, const struct zr_metric **m)
{
	int rc = engine_enter(e, "zeroth_metrics");
	if (!rc)
		rc = engine_given(e, m != NULL, "zeroth_metrics: m");
	if (rc)
		return rc;

	e->n_metrics = 0;
	if (e->open && e->rank->t.session->step)
		e->n_metrics = (int)zr_trainer_numbers(&e->rank->t, NULL, e->metric);
	*m = e->metric;
	return e->n_metrics;
}

int zeroth_metric(struct zeroth *e, const char *name, double *value)
{
	const struct zr_metric *m = NULL;

	int n = zeroth_metrics(e, &m);
	if (n < 0)
		return n;
	if (!name || !value)
		return engine_given(e, 0, name ? "zeroth_metric: value" : "zeroth_metric: name");

	for (int i = 0; i < n; i++)
		if (!strcmp(m[i].name, name)) {
			*value = m[i].value;
			return 0;
		}
	return engine_fail(e, ZR_EINVAL, "there is no metric %s now", name);
}

static uint64_t bytes_taken(const struct zr_account *a)
{
	uint64_t sum = 0;
	for (const struct zr_account_line *l = a->line; l < a->line + a->n; l++)
		sum += l->tier == ZR_TIER_HOST || l->tier == ZR_TIER_DEVICE ? l->peak : 0;
	return sum;
}

int zeroth_facts(struct zeroth *e, struct zeroth_facts *out)
{
	if (!e || !e->open)
		return engine_fail(e, ZR_ESTATE, "zeroth_facts comes after zeroth_open");

	int rc = engine_given(e, out != NULL, "zeroth_facts: out");
	if (!rc)
		rc = ENGINE_SIZED(e, out, struct zeroth_facts, bytes, "zeroth_facts: out");
	if (rc)
		return rc;

	const struct zr_setup *s = e->rank->t.setup;
	const struct zeroth_facts v = {
		.ranks = s->facts.process.world,
		.rank = s->facts.process.rank,
		.accumulation = (int32_t)s->facts.batch.accumulation,
		.micro_batch = s->facts.batch.micro,
		.parameters = s->facts.layout.parameters,
		.step = e->rank->t.session->step,
		.steps = (int64_t)s->facts.train->steps,
		.bytes = bytes_taken(&s->account),
	};
	hand_over(out, &v, sizeof v);
	return 0;
}

int zeroth_digest(struct zeroth *e, uint64_t *losses, uint64_t *parameters)
{
	int rc = ready(e, "zeroth_digest");
	if (!rc)
		rc = ask(e, CMD_DIGEST);
	const struct rank *r = rc ? NULL : e->rank;
	if (!rc && losses)
		*losses = zr_trainer_losses_digest(&r->t);
	if (!rc && parameters)
		*parameters = e->digest;
	return rc;
}
