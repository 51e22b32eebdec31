/* SPDX-License-Identifier: Apache-2.0
 *
 * t_right.c - which targets are the likeliest token, as an evaluation of the head says: against
 * PyTorch's argmax, and with as many equal logits as there can be, over all positions of a vector.
 */
#include "tests/lib/testdevice.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

enum { ROWS = 40 };

struct job {
	struct zr_op_head_loss op;
	struct buf x, w, loss, work, right;
	int32_t targets[ROWS];
	float weights[ROWS];
	double sum;
};

static void job_new(struct job *j, const struct dev *d, int64_t width, int64_t vocabulary,
		    int32_t dtype)
{
	*j = (struct job){ .x = buf_new(ROWS * width, dtype, 0),
			   .w = buf_new(vocabulary * width, dtype, 0),
			   .loss = buf_new(ROWS, ZR_F32, 0),
			   .right = buf_new(ROWS, ZR_F32, 1) };
	j->op = (struct zr_op_head_loss){ .size = sizeof j->op,
					  .dtype = dtype,
					  .scale = 1,
					  .rows = ROWS,
					  .width = width,
					  .vocabulary = vocabulary,
					  .x = j->x.p,
					  .w = j->w.p,
					  .targets = j->targets,
					  .loss = (float *)(void *)j->loss.p,
					  .weights = j->weights,
					  .right = (float *)(void *)j->right.p };
	j->work = buf_new((int64_t)(d->ops->head_loss_work(d->ops, &j->op) / 4), ZR_F32, 0);
	j->op.work = j->work.p;
	for (int r = 0; r < ROWS; r++) {
		j->targets[r] = 0;
		j->weights[r] = (float)(r % 4) / 2;
	}
	memset(j->x.p, 0, zr_bytes_of(dtype, ROWS * width));
	memset(j->w.p, 0, zr_bytes_of(dtype, vocabulary * width));
}

static void job_run(struct job *j, const struct dev *d)
{
	j->op.loss_sum = &j->sum;
	assert_int_equal(d->ops->head_loss(d->ops, NULL, &j->op), ZR_OK);
	assert_true(buf_guarded(&j->right) && buf_guarded(&j->loss) && buf_guarded(&j->work));
}

static void job_free(struct job *j)
{
	buf_free(&j->x);
	buf_free(&j->w);
	buf_free(&j->loss);
	buf_free(&j->work);
	buf_free(&j->right);
}

static double right_of(const struct job *j, int r)
{
	return get(j->right.p, ZR_F32, r);
}

static const int32_t types[] = { ZR_F32, ZR_BF16, ZR_F16 };

static void on_every_variant(void (*fn)(const struct dev *, int32_t))
{
	int ran = 0;
	for (int i = 0; i < DEV_VARIANTS; i++) {
		struct dev d;
		if (!dev_open_variant(&d, 2, i)) {
			for (int t = 0; t < 3; t++)
				fn(&d, types[t]);
			ran++;
		}
		dev_close(&d);
	}
	assert_true(ran >= 1);
}

/* ---- golden values ---- */

static void drawn(const struct buf *b, uint64_t *state)
{
	for (int64_t i = 0; i < b->n; i++) {
		*state = *state * 6364136223846793005u + 1442695040888963407u;
		put(b->p, b->dtype, i, (double)(*state >> 40 & 0xff) / 64 - 2);
	}
}

static void torch(const struct dev *d, int32_t dtype)
{
	const char *src = getenv("ZR_SRCDIR");
	char path[4096];
	double want[ROWS];
	uint64_t state = 7;
	struct job j;
	job_new(&j, d, 6, 29, dtype);
	drawn(&j.x, &state);
	drawn(&j.w, &state);
	for (int i = 0; i < 14 * 6; i++)
		put(j.w.p, dtype, 14 * 6 + i, get(j.w.p, dtype, i));
	snprintf(path, sizeof path, "%s/tests/golden/right.txt", src ? src : ".");
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	for (int r = 0; r < ROWS; r++)
		assert_int_equal(fscanf(f, "%d %lf", &j.targets[r], &want[r]), 2);
	fclose(f);
	job_run(&j, d);
	for (int r = 0; r < ROWS; r++)
		assert_true(right_of(&j, r) == want[r]);
	job_free(&j);
}

static void targets_are_right_where_pytorch_says_so(void **state)
{
	(void)state;
	on_every_variant(torch);
}

/* ---- ties ---- */

/* Logits are 0, 1 or 2. */
static int logit(int64_t row, int64_t token)
{
	uint64_t x = (uint64_t)(row * 1000 + token + 1) * 0x9E3779B97F4A7C15u;
	return (int)((x >> 40) % 97 < 3) + (int)((x >> 20) % 5 == 0);
}

static void ties(const struct dev *d, int32_t dtype)
{
	static const int64_t sizes[] = { 1, 2, 15, 16, 17, 64, 97, 129, 300 };
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		int64_t n = sizes[k], first[ROWS] = { 0 };
		struct job j;
		job_new(&j, d, ROWS, n, dtype);
		for (int64_t r = 0; r < ROWS; r++) {
			put(j.x.p, dtype, r * ROWS + r, 1);
			for (int64_t t = 0; t < n; t++) {
				put(j.w.p, dtype, t * ROWS + r, logit(r, t));
				first[r] = logit(r, t) > logit(r, first[r]) ? t : first[r];
			}
		}
		for (int64_t t = 0; t < n; t++) {
			for (int64_t r = 0; r < ROWS; r++)
				j.targets[r] = (int32_t)((t + r) % n);
			job_run(&j, d);
			for (int r = 0; r < ROWS; r++)
				assert_true(right_of(&j, r) ==
					    (j.targets[r] == first[r]) * (double)j.weights[r]);
		}
		job_free(&j);
	}
}

static void of_equal_logits_the_first_is_the_likeliest(void **state)
{
	(void)state;
	on_every_variant(ties);
}

/* ---- what it leaves alone ---- */

static void apart(const struct dev *d, int32_t dtype)
{
	struct job j;
	float loss[ROWS];
	struct buf dx;
	job_new(&j, d, 6, 29, dtype);
	dx = buf_new(ROWS * 6, dtype, 0);
	j.op.right = NULL;
	job_run(&j, d);
	assert_true(isnan(right_of(&j, 5))); /* not wanted: not written */
	memcpy(loss, j.loss.p, sizeof loss);
	j.op.right = (float *)(void *)j.right.p;
	job_run(&j, d);
	assert_true(right_of(&j, 5) == 0.5); /* all logits are 0, and so are all targets */
	assert_memory_equal(loss, j.loss.p, sizeof loss);
	put(j.x.p, dtype, 5 * 6, NAN);
	job_run(&j, d);
	assert_true(right_of(&j, 5) == 0 && right_of(&j, 6) == 1);
	put(j.right.p, ZR_F32, 6, 9);
	j.op.dx = dx.p; /* a step of training does not look */
	job_run(&j, d);
	assert_true(right_of(&j, 6) == 9);
	buf_free(&dx);
	job_free(&j);
}

static void losses_stay_as_they_are_and_training_does_not_look(void **state)
{
	(void)state;
	on_every_variant(apart);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(targets_are_right_where_pytorch_says_so),
		cmocka_unit_test(of_equal_logits_the_first_is_the_likeliest),
		cmocka_unit_test(losses_stay_as_they_are_and_training_does_not_look),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
