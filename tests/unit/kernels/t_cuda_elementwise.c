/* SPDX-License-Identifier: Apache-2.0
 *
 * t_cuda_elementwise.c - the sources that NVRTC compiles for updates of one element, run by the
 * host: the bits of device/cpu.
 */
#include <setjmp.h>
#include <stdarg.h>

#include "tests/lib/testdevice.h"

#include <zeroth/optimizer.h>

#include "elementwise_sources.h"
#include "kernels/elementwise_args.h"

#include <cmocka.h> /* after the headers with members that its macros name */

#define MOST   (3 * ZR_BLOCK)
#define BLOCKS (MOST / ZR_BLOCK)
#define SEED   77
#define PARAM  5
#define MULT   0.25f

#define DECLARE(name, ...) void emulated_##name(const void *args, int measure, int blocks);
SOURCES(DECLARE, DECLARE)
#define EMULATED(name, ...) emulated_##name,
static void (*const emulated[])(const void *, int, int) = { SOURCES(EMULATED, EMULATED) };

struct data {
	float grad[MOST], master[MOST];
	_Alignas(16) uint8_t state[ZR_ELEMENTWISE_STATES][4 * MOST];
	_Alignas(16) uint8_t lowp[4 * MOST];
	double sums[BLOCKS][ZR_ELEMENTWISE_SUMS];
};

static struct data cpu, gpu;

static void draw(struct data *x, const struct source *s, const struct zr_elementwise *e)
{
	uint64_t seed = 3;
	memset(x, 0x77, sizeof *x);
	for (int i = 0; i < MOST; i++) {
		x->grad[i] = (float)rnd(&seed) * 3;
		x->master[i] = (float)rnd(&seed);
	}
	for (uint32_t j = 0; j < e->n_state; j++)
		for (int i = 0; i < MOST; i++) {
			double v = rnd(&seed);
			v = e->roots >> j & 1 ? v * v : v;
			if (s->types[j]) {
				put(x->state[j], s->types[j], i, v);
				continue;
			}
			uint8_t *block = x->state[j] + i / ZR_BLOCK * ZR_STATE8_BYTES;
			uint16_t scale = (uint16_t)(0x3000 + i / 32);
			block[i % ZR_BLOCK] = (uint8_t)(int)(v * 127);
			memcpy(block + ZR_BLOCK + i % ZR_BLOCK / 32 * 2, &scale, 2);
		}
}

static void call_cpu(const struct dev *d, const struct source *s, const struct captured *c,
		     int64_t n, const double *totals, int measure)
{
	struct zr_elementwise e = c->e;
	struct zr_buf state[ZR_ELEMENTWISE_STATES];
	struct zr_seg seg[BLOCKS];
	int64_t dims[1] = { n };
	struct zr_opt_step step = { .size = sizeof step,
				    .seg_stride = sizeof(struct zr_seg),
				    .n_state = e.n_state,
				    .step = SOURCE_STEP,
				    .lr = SOURCE_LR,
				    .grad_mult = MULT,
				    .master = { cpu.master, MOST, ZR_F32, ZR_MEM_HOST },
				    .grad = { cpu.grad, MOST, ZR_F32, ZR_MEM_HOST },
				    .state = state,
				    .seg = seg,
				    .n_seg = 1,
				    .partials = totals,
				    .seed = SEED,
				    .native = d->ops->native };
	e.k = c->k;
	e.sums = measure ? &cpu.sums[0][0] : NULL;
	for (uint32_t j = 0; j < e.n_state; j++)
		state[j] = (struct zr_buf){ cpu.state[j], MOST, s->types[j], ZR_MEM_HOST };
	if (s->lowp)
		step.lowp = (struct zr_buf){ cpu.lowp, MOST, s->lowp, ZR_MEM_HOST };
	seg[0] = (struct zr_seg){ 0, n, ZR_BLOCK, PARAM, 1, dims, "p" };
	for (int64_t at = 0; measure && at < n; at += ZR_BLOCK) {
		step.n_seg = (uint64_t)(at / ZR_BLOCK + 1);
		seg[at / ZR_BLOCK] = (struct zr_seg){
			at, n - at < ZR_BLOCK ? n - at : ZR_BLOCK, at, PARAM, 1, dims, "p"
		};
	}
	assert_int_equal(d->ops->elementwise(&step, &e), ZR_OK);
}

static void call_gpu(const struct source *s, const struct captured *c, int64_t n,
		     const double *totals, int measure)
{
	struct zr_ew_args a = { .grad = gpu.grad,
				.master = gpu.master,
				.lowp = gpu.lowp,
				.total = totals,
				.sums = &gpu.sums[0][0],
				.seed = SEED,
				.step = SOURCE_STEP,
				.n = n,
				.first = ZR_BLOCK,
				.param = PARAM,
				.mult = MULT,
				.whole = n % 2 };
	memcpy(a.k, c->k, sizeof a.k);
	for (uint32_t j = 0; j < c->e.n_state; j++)
		a.state[j] = gpu.state[j];
	for (int64_t at = 0; measure && at < n; at += ZR_BLOCK) {
		a.off[a.n_seg] = at;
		a.count[a.n_seg++] = (int32_t)(n - at < ZR_BLOCK ? n - at : ZR_BLOCK);
	}
	emulated[s - sources](&a, measure, measure ? 1 : 2);
}

static void add_up(uint32_t n_sum, int64_t n, double *total)
{
	const double *sum = &cpu.sums[0][0];
	for (int64_t at = 0; at < n; at += ZR_BLOCK, sum += n_sum)
		for (uint32_t j = 0; j < n_sum; j++)
			total[j] += sum[j];
}

static void same_bits_as_on_the_host(void **state)
{
	static const int64_t sizes[] = { 1, 31, 34, MOST - 3 };
	struct dev d;
	(void)state;
	assert_int_equal(dev_open(&d, 1, "scalar"), 0);
	for (int i = 0; i < N_SOURCES; i++) {
		const struct source *s = &sources[i];
		const struct captured c = source_load(s);
		for (int n = 0; n < 4; n++) {
			double total[ZR_ELEMENTWISE_SUMS] = { 0 };
			draw(&cpu, s, &c.e);
			gpu = cpu;
			if (c.e.n_sum) {
				call_cpu(&d, s, &c, sizes[n], NULL, 1);
				call_gpu(s, &c, sizes[n], NULL, 1);
				assert_memory_equal(&cpu, &gpu, sizeof cpu);
				add_up(c.e.n_sum, sizes[n], total);
				assert_true(total[c.e.n_sum - 1] > 0);
			}
			call_cpu(&d, s, &c, sizes[n], total, 0);
			call_gpu(s, &c, sizes[n], total, 0);
			assert_memory_equal(&cpu, &gpu, sizeof cpu);
		}
	}
	dev_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(same_bits_as_on_the_host),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
