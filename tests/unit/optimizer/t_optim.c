/* SPDX-License-Identifier: Apache-2.0
 *
 * t_optim.c - what optimizers compute, through their plugins on device/cpu: 50 updates of each
 * against golden/optim.txt (torch.optim in float64, or the published algorithm) and golden/muon.txt
 * (the code of others), and what their options do.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "optim_fixture.h"

#define STEP     131 /* of golden/make_optim.py */
#define EXAMPLES "../tests/unit/optimizer/.libs/"

static struct optim o;
static int is_closed; /* of the next trajectory */
/* how far the last one was from what is wanted, at most, and how far it may be */
static double furthest, within = 2e-6;
static const char *const none[] = { NULL };

/* ---- trajectories ---- */

static FILE *golden(const char *name)
{
	char path[4096];
	const char *src = getenv("ZR_SRCDIR");
	FILE *f;
	snprintf(path, sizeof path, "%s/tests/golden/%s.txt", src ? src : ".", name);
	f = fopen(path, "r");
	assert_non_null(f);
	return f;
}

/* The weights that are compared: of NAME-x, those that evaluate. */
static const float *weights_of(const char *name)
{
	size_t n = strlen(name);
	if (n > 2 && !strcmp(name + n - 2, "-x"))
		return o.state_data[2];
	return o.master;
}

/* `line`: what follows the name and the update */
static void compare(const char *name, int t, char *line)
{
	int64_t i, at;
	for (i = 0; (at = optim_place(&o, i)) >= 0; i += STEP) {
		double want = strtod(line, &line), is = weights_of(name)[at];
		if (fabs(is - want) / (1 + fabs(want)) > furthest)
			furthest = fabs(is - want) / (1 + fabs(want));
		if (!(fabs(is - want) <= within * (1 + fabs(want))))
			fail_msg("%s update %d element %d: %.9g, wanted %.9g", name, t, (int)i, is,
				 want);
	}
	assert_true(*line == '\n');
}

static void follows_in(const char *file, const struct optim_shape *shape, const char *name,
		       const char *plugin, const char *const *options)
{
	char line[4096], got[32];
	int t = 0, want, used, seen = 0;
	FILE *f = golden(file);
	optim_open(&o, plugin, options, shape, 1);
	o.closed = is_closed;
	while (fgets(line, sizeof line, f)) {
		if (sscanf(line, "%31s %d%n", got, &want, &used) != 2 || strcmp(got, name))
			continue;
		while (t < want)
			optim_update(&o, ++t, 0);
		compare(name, t, line + used);
		seen++;
	}
	fclose(f);
	optim_close(&o);
	assert_int_equal(seen, 4);
	assert_int_equal(t, 50);
}

static void follows(const char *name, const char *plugin, const char *const *options)
{
	follows_in("optim", optim_golden, name, plugin, options);
}

static void adam_and_adamw_follow_torch(void **state)
{
	static const char *const decoupled[] = { "betas", "0.9,0.95", "weight_decay", "0.1", NULL };
	static const char *const l2[] = { "betas",        "0.8,0.99", "eps", "1e-6",
					  "weight_decay", "0.1",      NULL };
	static const char *const mode[] = { "betas", "0.8,0.99",   "eps", "1e-6", "weight_decay",
					    "0.1",   "adamw_mode", "no",  NULL };
	(void)state;
	follows("adamw", "optimizer/adamw", decoupled);
	follows("adam", "optimizer/adam", l2);
	follows("adamw", "optimizer/cpu_adam", decoupled);
	follows("adam", "optimizer/cpu_adam", mode);
}

static void sgd_follows_torch(void **state)
{
	static const char *const decay[] = { "weight_decay", "0.1", NULL };
	static const char *const momentum[] = { "momentum",     "0.9",  "dampening", "0.25",
						"weight_decay", "0.05", NULL };
	static const char *const nesterov[] = { "momentum", "0.8", "nesterov", "yes", NULL };
	(void)state;
	follows("sgd", "optimizer/sgd", none);
	follows("sgd-decay", "optimizer/sgd", decay);
	follows("sgd-momentum", "optimizer/sgd", momentum);
	follows("sgd-nesterov", "optimizer/sgd", nesterov);
}

static void adagrad_follows_torch(void **state)
{
	static const char *const all[] = { "lr_decay",
					   "0.05",
					   "eps",
					   "1e-6",
					   "weight_decay",
					   "0.1",
					   "initial_accumulator_value",
					   "0.5",
					   NULL };
	(void)state;
	follows("adagrad", "optimizer/adagrad", none);
	follows("adagrad-all", "optimizer/adagrad", all);
}

static void lion_follows_its_paper(void **state)
{
	static const char *const options[] = { "betas", "0.9,0.98", "weight_decay", "0.1", NULL };
	(void)state;
	follows("lion", "optimizer/lion", options);
}

/* Of tests/examples: by an update of one element, and by whole matrices. */
static void examples_follow_others(void **state)
{
	static const char *const lion[] = { "betas", "0.9,0.98", "weight_decay", "0.1", NULL };
	static const char *const mix[] = { "alpha", "2", NULL };
	static const char *const mix_all[] = {
		"betas", "0.8,0.98,0.995", "alpha",        "3",   "warmup", "20",
		"eps",   "1e-6",           "weight_decay", "0.1", NULL
	};
	static const char *const signum[] = { "momentum", "0.8", NULL };
	(void)state;
	follows("lion", EXAMPLES "lion", lion);
	follows("ademamix", EXAMPLES "ademamix", mix);
	follows("ademamix-all", EXAMPLES "ademamix", mix_all);
	follows("signum", EXAMPLES "signum", signum);
	follows_in("optim", optim_larger_matrices, "adafactor", EXAMPLES "adafactor", none);
}

/* By sums over all parameters, and with scalars of the run: the authors' code in float64. */
static void follows_closed(const char *name, const char *plugin, int closed,
			   const char *const *options)
{
	char path[256];
	snprintf(path, sizeof path, EXAMPLES "%s", plugin);
	is_closed = closed;
	within = closed ? 1e-5 : 2e-6; /* the authors' own, in fp32: 6e-6 and 2e-7 */
	furthest = 0;
	follows_in("adaptive", optim_golden, name, path, options);
	print_message("# %s: %.2g from its authors' code\n", name, furthest);
	is_closed = 0;
	within = 2e-6;
}

static void examples_with_scalars_follow_their_authors(void **state)
{
	static const char *const plain[] = { "d0", "1e-2", NULL };
	static const char *const ema[] = { "weight_decay", "0.1", "ema_decay", "0.9", NULL };
	static const char *const prodigy[] = { "betas",
					       "0.8,0.99",
					       "beta3",
					       "0.9",
					       "eps",
					       "1e-6",
					       "weight_decay",
					       "0.1",
					       "d0",
					       "1e-2",
					       "d_coef",
					       "0.5",
					       "growth_rate",
					       "1.5",
					       "use_bias_correction",
					       "yes",
					       "safeguard_warmup",
					       "yes",
					       NULL };
	static const char *const dadapt[] = {
		"betas", "0.8,0.99", "eps",         "1e-6", "weight_decay",        "0.1",
		"d0",    "1e-4",     "growth_rate", "1.5",  "use_bias_correction", "yes",
		NULL
	};
	static const char *const schedulefree[] = { "betas",
						    "0.8,0.99",
						    "eps",
						    "1e-6",
						    "weight_decay",
						    "0.1",
						    "warmup_steps",
						    "20",
						    "r",
						    "1",
						    "weight_lr_power",
						    "1",
						    NULL };
	(void)state;
	follows_closed("prodigy", "prodigy", 1, plain);
	follows_closed("prodigy-all", "prodigy", 1, prodigy);
	follows_closed("dadapt", "dadapt_adam", 1, none);
	follows_closed("dadapt-all", "dadapt_adam", 1, dadapt);
	follows_closed("schedulefree", "schedulefree", 0, none);
	follows_closed("schedulefree-all", "schedulefree", 0, schedulefree);
	follows_closed("schedulefree-x", "schedulefree", 0, none);
	follows_closed("ema", "adamw_ema", 0, ema);
	follows_closed("ema-x", "adamw_ema", 0, ema);
}

/* By states that follow from the shape of a matrix: the authors' code in float64. */
static void soap_follows(const char *name, const struct optim_shape *shape,
			 const char *const *options)
{
	furthest = 0; /* the authors' own, in fp32: 1.1e-6 */
	follows_in("soap", shape, name, EXAMPLES "soap", options);
	print_message("# %s: %.2g from its authors' code\n", name, furthest);
}

static void soap_follows_its_authors(void **state)
{
	static const char *const all[] = {
		"betas",        "0.9,0.99", "shampoo_beta",           "0.8", "eps", "1e-6",
		"weight_decay", "0.1",      "precondition_frequency", "3",   NULL
	};
	static const char *const one[] = { "max_precond_dim", "31", "precondition_frequency", "5",
					   NULL };
	static const char *const neither[] = { "max_precond_dim", "28", NULL };
	(void)state;
	soap_follows("soap", optim_sides, none);
	soap_follows("soap-all", optim_sides, all);
	soap_follows("soap-one", optim_one_side, one);
	soap_follows("soap-none", optim_one_side, neither);
}

static void lamb_follows_its_paper(void **state)
{
	static const char *const all[] = {
		"betas",     "0.8,0.99", "eps",       "1e-6", "weight_decay",    "0.1",
		"min_coeff", "1.25",     "max_coeff", "3",    "bias_correction", "no",
		NULL
	};
	(void)state;
	follows("lamb", "optimizer/lamb", none);
	follows("lamb-all", "optimizer/lamb", all);
}

static void muon_follows(const char *name, const struct optim_shape *shape,
			 const char *const *options)
{
	follows_in("muon", shape, name, "optimizer/muon", options);
}

static void muon_follows_torch(void **state)
{
	static const char *const adamw[] = {
		"momentum", "0.8",      "nesterov", "no",           "weight_decay",
		"0.1",      "ns_steps", "3",        "adjust_lr_fn", "match_rms_adamw",
		NULL
	};
	static const char *const unclamped[] = { "weight_decay", "0.1", "adjust_lr_fn",
						 "spectral_unclamped", NULL };
	(void)state;
	muon_follows("torch", optim_matrices, none);
	muon_follows("torch-adamw", optim_matrices, adamw);
	muon_follows("torch-unclamped", optim_matrices, unclamped);
}

static void muon_follows_deepspeed(void **state)
{
	static const char *const standard[] = { "weight_decay", "0.1", NULL };
	static const char *const gram[] = { "weight_decay", "0.1", "method", "gram", NULL };
	static const char *const heads[] = { "momentum", "0.8", "head_rows", "12", NULL };
	static const char *const gram_heads[] = { "momentum", "0.8",  "head_rows", "12",
						  "method",   "gram", NULL };
	(void)state;
	muon_follows("deepspeed", optim_matrices, standard);
	muon_follows("deepspeed-gram", optim_matrices, gram);
	muon_follows("deepspeed-heads", optim_heads, heads);
	muon_follows("deepspeed-heads-gram", optim_heads, gram_heads);
}

static void muon_follows_polar_express(void **state)
{
	static const char *const five[] = { "coefficients", "polar_express", NULL };
	static const char *const three[] = { "coefficients", "polar_express", "ns_steps", "3",
					     NULL };
	static const char *const gram[] = { "coefficients", "polar_express", "method", "gram",
					    NULL };
	(void)state;
	muon_follows("polar", optim_matrices, five);
	muon_follows("polar-3", optim_matrices, three);
	muon_follows("polar-gram", optim_matrices, gram);
}

static void muon_by_gram_matrices_stays_true_in_many_iterations(void **state)
{
	static const char *const nine[] = { "ns_steps", "9", "method", "gram", NULL };
	(void)state;
	muon_follows("gram-9", optim_matrices, nine);
}

/* ---- sums over parameters, whole parameters ---- */

static void lamb_moves_a_parameter_of_zeros_by_its_direction(void **state)
{
	int i;
	(void)state;
	optim_open(&o, "optimizer/lamb", none, optim_golden, 1);
	memset(o.master + optim_place(&o, optim_elements(&optim_golden[0])), 0,
	       ZR_BLOCK * sizeof *o.master);
	optim_update(&o, 1, 1);
	for (i = 0; i < 37 * 29; i++) {
		int64_t at = optim_place(&o, optim_elements(&optim_golden[0]) + i);
		double sign = o.grad[at] > 0 ? 1 : o.grad[at] < 0 ? -1 : 0;
		/* the first step of Adam */
		assert_true(fabs(o.master[at] + o.step.lr * sign) < 1e-6);
	}
	optim_close(&o);
}

/* Memory that a call must leave alone, or that an earlier cut left behind. */
static void lamb_sums_blocks_and_changes_nothing(void **state)
{
	struct zr_seg seg[3] = { { .n = ZR_BLOCK },
				 { .off = ZR_BLOCK, .n = ZR_BLOCK },
				 { .off = 2 * ZR_BLOCK, .n = 5 } };
	double out[3][2], alone[2], p;
	float *before;
	int i, k;
	(void)state;
	optim_open(&o, "optimizer/lamb", none, optim_golden, 1);
	optim_update(&o, 1, 0);
	before = malloc(3 * ZR_BLOCK * sizeof *before);
	assert_non_null(before);
	memcpy(before, o.master, 3 * ZR_BLOCK * sizeof *before);
	o.step.master.data = o.master;
	o.step.grad.data = o.grad;
	o.step.state =
		(struct zr_buf[]){ { .data = o.state_data[0] }, { .data = o.state_data[1] } };
	o.step.seg = seg;
	o.step.n_seg = 3;
	assert_int_equal(o.v->partial(o.inst, &o.step, &out[0][0]), ZR_OK);
	o.step.n_seg = 1;
	for (i = 0; i < 3; i++) {
		o.step.seg = &seg[i];
		assert_int_equal(o.v->partial(o.inst, &o.step, alone), ZR_OK);
		assert_memory_equal(out[i], alone, sizeof alone);
		for (p = k = 0; k < seg[i].n; k++)
			p += (double)o.master[seg[i].off + k] * o.master[seg[i].off + k];
		assert_true(fabs(out[i][0] - p) <= 1e-12 * p);
	}
	assert_memory_equal(before, o.master, 3 * ZR_BLOCK * sizeof *before);
	seg[0].n++;
	o.step.seg = &seg[0];
	assert_int_equal(o.v->partial(o.inst, &o.step, alone), ZR_EINVAL);
	assert_string_equal(test_error(o.h),
			    "partial: a segment of 2049 elements is longer than a block of 2048");
	o.step.partials = NULL;
	assert_int_equal(o.v->step(o.inst, &o.step), ZR_ESTATE);
	free(before);
	optim_close(&o);
}

static void lamb_refuses_limits_the_wrong_way_round(void **state)
{
	const struct zr_desc *desc = test_plugin("optimizer/lamb");
	void *opts = test_options(desc);
	struct zr_host *host = test_host(1);
	(void)state;
	assert_int_equal(desc->check(host, opts), ZR_OK);
	test_set(desc, opts, "min_coeff", "11");
	assert_int_equal(desc->check(host, opts), ZR_EINVAL);
	assert_string_equal(test_error(host), "min_coeff = 11 is above max_coeff = 10");
	free(opts);
	test_host_free(host);
}

/* Without momentum a step is the gradient's nearest matrix with orthogonal rows or columns, but for
 * singular values that the coefficients leave in 0.68 .. 1.14: so their squares sum to about the
 * lesser side. */
static void a_step_of_muon_is_nearly_orthogonal(void **state)
{
	static const char *const options[] = { "momentum", "0", "ns_steps", "10", NULL };
	float *before;
	int p;
	(void)state;
	optim_open(&o, "optimizer/muon", options, optim_large_matrices, 2);
	before = malloc((size_t)(o.block[OPTIM_PARAMS] * ZR_BLOCK) * sizeof *before);
	assert_non_null(before);
	memcpy(before, o.master, (size_t)(o.block[OPTIM_PARAMS] * ZR_BLOCK) * sizeof *before);
	optim_update(&o, 1, 0);
	for (p = 0; p < OPTIM_PARAMS; p++) {
		double rows = (double)o.shape[p].dims[0], cols = (double)o.shape[p].dims[1],
		       sum = 0;
		double least = rows < cols ? rows : cols, ratio = rows > cols ? rows / cols : 1;
		int64_t i, at = o.block[p] * ZR_BLOCK;
		for (i = at; i < at + optim_elements(&o.shape[p]); i++)
			sum += pow((before[i] - o.master[i]) / o.step.lr, 2) / ratio;
		assert_true(sum > 0.68 * 0.68 * least && sum < 1.14 * 1.14 * least);
	}
	free(before);
	optim_close(&o);
}

/* Rows of each gradient that are multiples of its first one. */
static void draw_rank_one(void)
{
	int p;

	optim_draw(&o, 1);
	for (p = 0; p < OPTIM_PARAMS; p++) {
		int64_t cols = o.shape[p].dims[1], i;
		float *grad = o.grad + o.block[p] * ZR_BLOCK;
		for (i = cols; i < optim_elements(&o.shape[p]); i++)
			grad[i] = grad[i % cols] * (float)(1 + i / cols % 7);
	}
}

/* All singular values but one are rounding, and the eigenvalues of Gram matrices may be below
 * zero: without beginning anew they grow to 1e7. Elements of a step are some 0.03. */
static void gram_matrices_of_one_direction_do_not_grow(void **state)
{
	static const char *const options[][5] = { { "ns_steps", "9", NULL },
						  { "ns_steps", "9", "method", "gram", NULL } };
	static float direct[40 * 20 + 29 * 71 + 64 * 33];
	int k;
	(void)state;
	for (k = 0; k < 2; k++) {
		int64_t i, at;
		optim_open(&o, "optimizer/muon", options[k], optim_larger_matrices, 1);
		draw_rank_one();
		assert_int_equal(optim_apply(&o, 0, 0), ZR_OK);
		for (i = 0; (at = optim_place(&o, i)) >= 0; i++)
			if (k == 0)
				direct[i] = o.master[at];
			else
				assert_true(fabs(o.master[at] - direct[i]) < 5e-3 * o.step.lr);
		optim_close(&o);
	}
}

static void muon_refuses_what_is_no_whole_matrix(void **state)
{
	(void)state;
	optim_open(&o, "optimizer/muon", none, optim_golden, 1);
	assert_true(o.v->whole_work(o.inst, optim_golden[0].dims, 1) == ZR_WORK_REFUSED);
	optim_draw(&o, 1);
	assert_int_equal(optim_apply(&o, 0, 0), ZR_EINVAL);
	assert_string_equal(test_error(o.h),
			    "a is not a whole matrix; give it to another optimizer in a group");
	assert_int_equal(o.v->step(o.inst, &o.step), ZR_ENOTSUP);
	optim_close(&o);
	optim_open(&o, "optimizer/muon", none, optim_matrices, 1);
	optim_draw(&o, 1);
	o.work_bytes = 64;
	assert_int_equal(optim_apply(&o, 0, 0), ZR_EINVAL);
	assert_non_null(strstr(test_error(o.h), "a needs "));
	optim_close(&o);
}

static void muon_refuses_heads_that_do_not_fit(void **state)
{
	static const char *const heads[] = { "head_rows", "7", NULL };
	(void)state;
	optim_open(&o, "optimizer/muon", heads, optim_heads, 1);
	optim_draw(&o, 1);
	assert_int_equal(optim_apply(&o, 0, 0), ZR_EINVAL);
	assert_string_equal(test_error(o.h), "a has 48 rows, which head_rows = 7 does not divide; "
					     "give it to a group without head_rows");
	optim_close(&o);
}

static void muon_refuses_iterations_without_coefficients(void **state)
{
	const struct zr_desc *desc = test_plugin("optimizer/muon");
	void *opts = test_options(desc);
	struct zr_host *host = test_host(1);
	(void)state;
	test_set(desc, opts, "ns_steps", "6");
	assert_int_equal(desc->check(host, opts), ZR_OK);
	test_set(desc, opts, "coefficients", "polar_express");
	assert_int_equal(desc->check(host, opts), ZR_EINVAL);
	assert_string_equal(test_error(host), "ns_steps = 6 is above the 5 iterations that "
					      "polar_express has coefficients for");
	free(opts);
	test_host_free(host);
}

/* ---- options ---- */

static void without_bias_correction_the_first_step_is_as_the_formula_says(void **state)
{
	static const char *const plugins[] = { "optimizer/adamw", "optimizer/cpu_adam" };
	static const char *const options[] = { "bias_correction", "no", NULL };
	double g, before;
	int i;
	(void)state;
	for (i = 0; i < 2; i++) {
		optim_open(&o, plugins[i], options, optim_golden, 1);
		before = o.master[7];
		optim_update(&o, 1, 0);
		g = o.grad[7] / 8;
		assert_true(fabs(o.master[7] -
				 (before - o.step.lr * (0.1 * g) / (sqrt(0.001 * g * g) + 1e-8))) <
			    1e-6);
		optim_close(&o);
	}
}

static void moments_in_bf16_follow_those_in_fp32(void **state)
{
	static const char *const options[] = { "betas", "0.9,0.95", "states", "bf16", NULL };
	static struct optim wide;
	double moved = 0, apart = 0;
	int64_t i, at;
	int t;
	(void)state;
	optim_open(&o, "optimizer/adamw", options, optim_golden, 1);
	optim_open(&wide, "optimizer/adamw", (const char *const[]){ "betas", "0.9,0.95", NULL },
		   optim_golden, 1);
	assert_int_equal(o.state[0].dtype, ZR_BF16);
	assert_int_equal(o.state[1].dtype, ZR_BF16);
	for (t = 1; t <= 50; t++) {
		optim_update(&o, t, 0);
		optim_update(&wide, t, 0);
	}
	for (i = 0; (at = optim_place(&o, i)) >= 0; i++) {
		apart += fabs(o.master[at] - wide.master[at]);
		moved += wide.step.lr;
	}
	assert_true(apart > 0 && apart < 0.05 * moved);
	optim_close(&wide);
	optim_close(&o);
}

/* What a checkpoint has, in each type from each. From 8 bits to more and back nothing changes. What
 * plugins that are built outside of this tree have from zeroth/states.h gives the codes of ours. */
static void states_are_converted(void **state)
{
	enum { BLOCKS = 2, N = BLOCKS * ZR_BLOCK, BYTES = BLOCKS * ZR_MOMENT8_BYTES };
	static float wide[2][N], back[N];
	static uint16_t narrow[N], ours[2][N];
	static uint8_t codes[BYTES] __attribute__((aligned(2))),
		again[BYTES] __attribute__((aligned(2)));
	static uint8_t first[2][BYTES];
	static const struct {
		const char *plugin;
		uint32_t root;
	} of[] = {
		{ "optimizer/adamw", 1 }, { "optimizer/adam", 1 }, { "optimizer/cpu_adam", 1 },
		{ "optimizer/lion", 9 },  { EXAMPLES "lion", 9 },  { EXAMPLES "ademamix", 2 },
	};
	(void)state;
	for (int i = 0; i < N; i++) { /* also groups of zeros, of tiny, huge numbers */
		float scale = i / 32 == 8 ? 1e9f : i / 32 == 9 ? 3e-6f : i / 32 == 10 ? 0 : 1;
		wide[0][i] = (float)((i * 37 % 101 - 50) * (i % 7)) / 64 * scale;
		wide[1][i] = wide[0][i] * wide[0][i] / 16;
	}
	for (size_t p = 0; p < sizeof of / sizeof *of; p++) {
		optim_open(&o, of[p].plugin, none, optim_golden, 1);
		assert_non_null(o.v->upgrade);
		for (uint32_t s = 0; s < o.n_state; s++) {
			struct zr_buf a[3] = { { 0 } }, b[3] = { { 0 } }, c[3] = { { 0 } },
				      d[3] = { { 0 } }, e[3] = { { 0 } };
			const int root = s == of[p].root;
			double most = 0, off = 0;
			a[s] = (struct zr_buf){ wide[root], N, ZR_F32, ZR_MEM_HOST };
			b[s] = (struct zr_buf){ codes, N, 0, ZR_MEM_HOST };
			c[s] = (struct zr_buf){ back, N, ZR_F32, ZR_MEM_HOST };
			d[s] = (struct zr_buf){ again, N, 0, ZR_MEM_HOST };
			e[s] = (struct zr_buf){ narrow, N, ZR_BF16, ZR_MEM_HOST };
			assert_int_equal(o.v->upgrade(o.inst, 1, a, o.n_state, b), ZR_OK);
			assert_int_equal(o.v->upgrade(o.inst, 1, b, o.n_state, c), ZR_OK);
			assert_int_equal(o.v->upgrade(o.inst, 1, c, o.n_state, d), ZR_OK);
			assert_int_equal(o.v->upgrade(o.inst, 1, b, o.n_state, e), ZR_OK);
			assert_memory_equal(codes, again, BYTES);
			if (p == 0) {
				memcpy(first[root], codes, BYTES);
				memcpy(ours[root], narrow, sizeof narrow);
			}
			assert_memory_equal(codes, first[root], BYTES);
			assert_memory_equal(narrow, ours[root], sizeof narrow);
			for (int i = 11 * 32; i < N; i++) {
				double x = root ? sqrt(wide[1][i]) : wide[0][i],
				       y = root ? sqrt(back[i]) : back[i];
				most = fmax(most, fabs(x));
				off = fmax(off, fabs(x - y));
			}
			assert_true(off > 0 && off < most / (root ? 250 : 120));
		}
		assert_int_equal(o.v->upgrade(o.inst, 2, NULL, 0, NULL), ZR_ENOTSUP);
		assert_string_equal(test_error(o.h), "states of version 2 are not known");
		optim_close(&o);
	}
}

static void a_group_brings_its_own_options(void **state)
{
	static const char *const plugins[] = { "adamw", "adam",    "cpu_adam", "sgd",
					       "lion",  "adagrad", "lamb" };
	static const char *const decay[] = { "weight_decay", "0.5", NULL };
	size_t i;
	(void)state;
	for (i = 0; i < sizeof plugins / sizeof *plugins; i++) {
		char name[64];
		float before;
		void *group;
		snprintf(name, sizeof name, "optimizer/%s", plugins[i]);
		optim_open(&o, name, decay, optim_golden, 1);
		group = test_options(o.desc); /* weight_decay = 0 */
		optim_draw(&o, 1);
		memset(o.grad, 0, ZR_BLOCK * sizeof *o.grad);
		before = o.master[3];
		o.step.opts = group;
		assert_int_equal(optim_apply(&o, 0, 0), ZR_OK);
		assert_true(o.master[3] == before);
		o.step.opts = o.opts;
		assert_int_equal(optim_apply(&o, 0, 0), ZR_OK);
		assert_true(fabsf(o.master[3]) < fabsf(before));
		free(group);
		optim_close(&o);
	}
}

static void state_is_what_the_options_need(void **state)
{
	static const char *const momentum[] = { "momentum", "0.5", NULL };
	static const char *const sum[] = { "initial_accumulator_value", "0.25", NULL };
	(void)state;
	optim_open(&o, "optimizer/sgd", none, optim_golden, 1);
	assert_int_equal(o.n_state, 0);
	optim_close(&o);
	optim_open(&o, "optimizer/sgd", momentum, optim_golden, 1);
	assert_int_equal(o.n_state, 1);
	optim_close(&o);
	optim_open(&o, "optimizer/adagrad", sum, optim_golden, 1);
	assert_string_equal(o.state[0].name, "sum");
	assert_true(o.state[0].init == 0.25);
	optim_close(&o);
}

static void a_device_without_the_operation_is_refused_by_name(void **state)
{
	static const char *const plugins[] = { "adamw",   "adam", "sgd", "lion",
					       "adagrad", "lamb", "muon" };
	static const char *const ops[] = { "adamw operation",   "adamw operation",
					   "sgd operation",     "lion operation",
					   "adagrad operation", "lamb operations",
					   "muon operations" };
	const struct zr_ops bare = { .size = sizeof bare },
			    old = { .size = offsetof(struct zr_ops, adamw) };
	const struct zr_ops *given[] = { &bare, &old, NULL };
	size_t i, k;
	(void)state;
	for (i = 0; i < sizeof plugins / sizeof *plugins; i++) {
		char name[64], text[64];
		snprintf(name, sizeof name, "optimizer/%s", plugins[i]);
		snprintf(text, sizeof text, "this device has no %s", ops[i]);
		optim_open(&o, name, none, optim_golden, 1);
		optim_draw(&o, 1);
		for (k = 0; k < 3; k++) {
			test_clear(o.h);
			o.step.ops = given[k];
			assert_int_equal(optim_apply(&o, 0, 0), ZR_ENOTSUP);
			assert_string_equal(test_error(o.h), text);
		}
		optim_close(&o);
	}
}

static void cpu_adam_needs_host_memory_and_no_device(void **state)
{
	(void)state;
	optim_open(&o, "optimizer/cpu_adam", none, optim_golden, 1);
	assert_int_equal(o.v->mem_ok, ZR_MEM_HOST | ZR_MEM_PINNED);
	optim_draw(&o, 1);
	o.step.ops = NULL;
	o.step.scalars = NULL;
	assert_int_equal(optim_apply(&o, 0, 0), ZR_OK);
	optim_close(&o);
}

static void refused(const char *plugin, const char *name, const char *text)
{
	const struct zr_desc *desc = test_plugin(plugin);
	void *opts = test_options(desc);
	if (!test_set(desc, opts, name, text))
		fail_msg("%s: %s = %s was taken", plugin, name, text);
	free(opts);
}

static void options_out_of_range_are_refused(void **state)
{
	(void)state;
	refused("optimizer/adamw", "betas", "2,0.9");
	refused("optimizer/adam", "betas", "0.9,1");
	refused("optimizer/cpu_adam", "betas", "0.9");
	refused("optimizer/adamw", "lr", "-1");
	refused("optimizer/adamw", "eps", "nan");
	refused("optimizer/adamw", "states", "fp16");
	refused("optimizer/sgd", "momentum", "1");
	refused("optimizer/sgd", "dampening", "1.5");
	refused("optimizer/lion", "betas", "0.9,1");
	refused("optimizer/adagrad", "initial_accumulator_value", "-1");
	refused("optimizer/adagrad", "lr_decay", "-1");
	refused("optimizer/muon", "ns_steps", "0");
	refused("optimizer/muon", "momentum", "1");
}

static void sgd_refuses_options_that_cannot_act_together_I7(void **state)
{
	const struct zr_desc *desc = test_plugin("optimizer/sgd");
	void *opts = test_options(desc);
	struct zr_host *host = test_host(1);
	(void)state;
	test_set(desc, opts, "nesterov", "yes");
	assert_int_equal(desc->check(host, opts), ZR_EINVAL);
	assert_string_equal(test_error(host),
			    "nesterov = yes needs momentum > 0 and dampening = 0, got 0 and 0");
	test_set(desc, opts, "momentum", "0.9");
	assert_int_equal(desc->check(host, opts), ZR_OK);
	test_set(desc, opts, "dampening", "0.5");
	assert_int_equal(desc->check(host, opts), ZR_EINVAL);
	test_set(desc, opts, "nesterov", "no");
	assert_int_equal(desc->check(host, opts), ZR_OK);
	test_set(desc, opts, "momentum", "0");
	assert_int_equal(desc->check(host, opts), ZR_EINVAL);
	assert_string_equal(test_error(host), "dampening = 0.5 does nothing without momentum");
	free(opts);
	test_host_free(host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(adam_and_adamw_follow_torch),
		cmocka_unit_test(sgd_follows_torch),
		cmocka_unit_test(adagrad_follows_torch),
		cmocka_unit_test(lion_follows_its_paper),
		cmocka_unit_test(examples_follow_others),
		cmocka_unit_test(examples_with_scalars_follow_their_authors),
		cmocka_unit_test(soap_follows_its_authors),
		cmocka_unit_test(lamb_follows_its_paper),
		cmocka_unit_test(muon_follows_torch),
		cmocka_unit_test(muon_follows_deepspeed),
		cmocka_unit_test(muon_follows_polar_express),
		cmocka_unit_test(muon_by_gram_matrices_stays_true_in_many_iterations),
		cmocka_unit_test(lamb_moves_a_parameter_of_zeros_by_its_direction),
		cmocka_unit_test(lamb_sums_blocks_and_changes_nothing),
		cmocka_unit_test(lamb_refuses_limits_the_wrong_way_round),
		cmocka_unit_test(a_step_of_muon_is_nearly_orthogonal),
		cmocka_unit_test(gram_matrices_of_one_direction_do_not_grow),
		cmocka_unit_test(muon_refuses_what_is_no_whole_matrix),
		cmocka_unit_test(muon_refuses_heads_that_do_not_fit),
		cmocka_unit_test(muon_refuses_iterations_without_coefficients),
		cmocka_unit_test(without_bias_correction_the_first_step_is_as_the_formula_says),
		cmocka_unit_test(moments_in_bf16_follow_those_in_fp32),
		cmocka_unit_test(states_are_converted),
		cmocka_unit_test(a_group_brings_its_own_options),
		cmocka_unit_test(state_is_what_the_options_need),
		cmocka_unit_test(a_device_without_the_operation_is_refused_by_name),
		cmocka_unit_test(cpu_adam_needs_host_memory_and_no_device),
		cmocka_unit_test(options_out_of_range_are_refused),
		cmocka_unit_test(sgd_refuses_options_that_cannot_act_together_I7),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
