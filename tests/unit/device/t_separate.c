/* SPDX-License-Identifier: Apache-2.0
 *
 * t_separate.c - a played card: its limit; and of the double of cards that nothing but operations
 * and copies can touch its memory, so that a model or an optimizer that works there never does.
 */
#include "tests/lib/model_fixture.h"
#include "tests/lib/testdevice.h"

#include <zeroth/optimizer.h>

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static struct dev d;

static void open_separate(const char *memory)
{
	if (dev_open_memory(&d, 2, "auto", memory, 1))
		fail_msg("%s", test_error(d.h));
}

static void *take(uint64_t bytes)
{
	void *p = NULL;
	if (d.v->mem_alloc(d.inst, bytes, ZR_MEM_DEVICE, &p))
		fail_msg("%s", test_error(d.h));
	return p;
}

static void *take_pinned(uint64_t bytes)
{
	void *p = NULL;
	assert_int_equal(d.v->mem_alloc(d.inst, bytes, ZR_MEM_PINNED, &p), ZR_OK);
	return p;
}

static void give(void *p, uint64_t bytes)
{
	d.v->mem_free(d.inst, p, bytes, ZR_MEM_DEVICE);
}

static void move(void *dst, const void *src, uint64_t bytes)
{
	assert_int_equal(d.v->copy(d.inst, NULL, dst, src, bytes), ZR_OK);
}

/* ---- the limit ---- */

static void without_a_memory_the_double_is_device_cpu(void **state)
{
	struct zr_device_info info = { .size = sizeof info };
	(void)state;
	assert_int_equal(dev_open_memory(&d, 1, "auto", "auto", 1), ZR_OK);
	assert_int_equal(d.v->info(d.inst, &info), ZR_OK);
	assert_true(info.unified && info.host_access && info.host_ops);
	*(char *)take(1) = 1;
	dev_close(&d);
}

static void limit_is_hard_whatever_the_kind(void **state)
{
	void *a, *b, *none = NULL;
	int i;
	(void)state;
	for (i = 0; i < 2; i++) {
		assert_int_equal(dev_open_memory(&d, 1, "auto", "100001", i), ZR_OK);
		a = take(60000);
		assert_int_equal(d.v->mem_alloc(d.inst, 40002, ZR_MEM_DEVICE, &none), ZR_EFIT);
		assert_non_null(strstr(test_error(d.h), "40002 bytes of device memory do not fit: "
							"of memory = 100001 bytes 60000 are"));
		b = take(40001);
		assert_int_equal(d.v->mem_alloc(d.inst, 1, ZR_MEM_DEVICE, &none), ZR_EFIT);
		assert_int_equal(d.v->mem_alloc(d.inst, (uint64_t)-1, ZR_MEM_DEVICE, &none),
				 ZR_EFIT);
		assert_null(none);
		assert_int_equal(d.v->mem_alloc(d.inst, 1 << 20, ZR_MEM_HOST, &none), ZR_OK);
		d.v->mem_free(d.inst, none, 1 << 20, ZR_MEM_HOST);
		assert_int_equal(d.v->mem_alloc(d.inst, 1 << 20, ZR_MEM_PINNED, &none), ZR_OK);
		memset(none, 1, 1 << 20);
		d.v->mem_free(d.inst, none, 1 << 20, ZR_MEM_PINNED);
		none = NULL;
		give(a, 60000);
		a = take(60000);
		give(a, 60000);
		give(b, 40001);
		a = take(100001);
		dev_close(&d); /* a is freed with it */
	}
}

/* Allocations of random sizes come and go under a limit that they reach again and again; each comes
 * zeroed and keeps its bytes. */
static void freed_memory_is_lent_again_and_zeroed(void **state)
{
	enum { N = 48, MOST = 90000 };
	static unsigned char data[MOST], zero[MOST];
	unsigned char *p[N] = { 0 };
	uint64_t bytes[N], used = 0, seed = 3;
	int i, round, refused = 0;
	(void)state;
	open_separate("1M");
	for (round = 0; round < 3000; round++) {
		i = (int)((rnd(&seed) + 1) / 2 * N);
		if (p[i]) {
			move(data, p[i], bytes[i]);
			assert_int_equal(data[0], i + 1);
			assert_int_equal(data[bytes[i] - 1], i + 1);
			give(p[i], bytes[i]);
			used -= bytes[i];
			p[i] = NULL;
			continue;
		}
		bytes[i] = 1 + (uint64_t)((rnd(&seed) + 1) / 2 * (MOST - 1));
		if (bytes[i] > (1 << 20) - used) {
			assert_int_equal(d.v->mem_alloc(d.inst, bytes[i], ZR_MEM_DEVICE,
							(void **)&p[i]),
					 ZR_EFIT);
			refused++;
			continue;
		}
		p[i] = take(bytes[i]);
		used += bytes[i];
		move(data, p[i], bytes[i]);
		assert_memory_equal(data, zero, bytes[i]);
		memset(data, i + 1, bytes[i]);
		move(p[i], data, bytes[i]);
	}
	assert_true(refused > 10);
	dev_close(&d);
}

/* ---- faults ---- */

enum access { READ, WRITE, READ_END, COPY_BEYOND };

static void touch(char *p, uint64_t bytes, enum access how)
{
	static char sink[4096];
	volatile char *v = p;
	if (how == READ)
		sink[0] = v[0];
	else if (how == WRITE)
		v[0] = 1;
	else if (how == READ_END)
		sink[0] = v[bytes - 1];
	else
		d.v->copy(d.inst, NULL, sink, p + bytes, sizeof sink);
}

/* The signal that an access ends a process with; 0: none. */
static int signal_of(char *p, uint64_t bytes, enum access how)
{
	int status = 0;
	pid_t pid = fork();
	if (!pid) {
		signal(SIGSEGV, SIG_DFL); /* also a sanitizer's */
		signal(SIGBUS, SIG_DFL);
		touch(p, bytes, how);
		_exit(0);
	}
	assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static void host_code_that_touches_separate_memory_faults(void **state)
{
	const uint64_t bytes = 8192; /* whole pages: what lies behind it is not there */
	char *p;
	enum access how;
	(void)state;
	open_separate("1M");
	p = take(bytes);
	take(bytes); /* a neighbour does not make the space between them any less forbidden */
	for (how = READ; how <= COPY_BEYOND; how++)
		assert_int_equal(signal_of(p, bytes, how), SIGSEGV);
	dev_close(&d);
	assert_int_equal(dev_open_memory(&d, 1, "auto", "1M", 0), ZR_OK);
	p = take(bytes);
	for (how = READ; how <= READ_END; how++)
		assert_int_equal(signal_of(p, bytes, how), 0);
	dev_close(&d);
}

static void operations_refuse_host_memory(void **state)
{
	float host[100], *dev;
	struct zr_device_info info = { .size = sizeof info };
	struct zr_op_cast op = {
		.size = sizeof op, .dst.dtype = ZR_F32, .n = 100, .src = zr_array_at(ZR_F32, host)
	};
	(void)state;
	open_separate("1M");
	assert_int_equal(d.v->info(d.inst, &info), ZR_OK);
	assert_false(info.host_ops || info.host_access || info.unified);
	op.dst.data = dev = take(sizeof host);
	assert_int_equal(d.ops->cast(d.ops, NULL, &op), ZR_EINVAL);
	assert_non_null(strstr(
		test_error(d.h),
		"operation cast: pointer 1 of (ARRAY(src), ARRAY(dst)) is not to memory of this "
		"device"));
	op.dst.data = host;
	op.src.data = dev;
	assert_int_equal(d.ops->cast(d.ops, NULL, &op), ZR_EINVAL);
	op.dst.data = dev + 50;
	op.n = 50;
	assert_int_equal(d.ops->cast(d.ops, NULL, &op), ZR_OK);
	assert_ptr_equal(op.src.data, dev); /* the caller's struct is left alone */
	dev_close(&d);
}

/* With an option of the double. */
static void open_with(const char *memory, const char *option)
{
	dev_open_memory(&d, 1, "auto", memory, 1);
	dev_close(&d);
	d.h = test_host(1);
	d.opts = test_options(d.desc);
	assert_int_equal(test_set(d.desc, d.opts, option, "yes"), 0);
	assert_int_equal(test_set(d.desc, d.opts, "memory", memory), 0);
	assert_int_equal(test_create(d.h, d.desc, d.opts, &d.inst), ZR_OK);
	d.ops = d.v->ops(d.inst);
}

static void late_copies_happen_when_they_are_waited_for(void **state)
{
	enum { N = 1100 }; /* more than can be under way */
	static float back[N];
	static uint64_t ticket[N];
	float *dev, *host;
	int i, late = 0;
	(void)state;
	open_with("1M", "late_copies");
	dev = take(sizeof back);
	host = take_pinned(sizeof back);
	for (i = 0; i < N; i++) {
		host[i] = 1;
		assert_int_equal(d.v->copy_start(d.inst, dev + i, host + i, sizeof *host,
						 &ticket[i]),
				 ZR_OK);
		host[i] = 2;
		late += ticket[i] != 0;
	}
	assert_true(late > 1000 && late < N);
	for (i = N - 1; i >= 0; i--) /* in any order */
		assert_int_equal(d.v->copy_wait(d.inst, ticket[i]), ZR_OK);
	move(back, dev, sizeof back);
	for (i = 0; i < N; i++)
		assert_true(back[i] == (ticket[i] ? 2 : 1));
	assert_int_equal(d.v->copy_wait(d.inst, ticket[0]), ZR_EINVAL);
	assert_non_null(strstr(test_error(d.h), "no copy has ticket"));
	d.v->mem_free(d.inst, host, sizeof back, ZR_MEM_PINNED);
	dev_close(&d);
}

/* Operations that wait run when something needs them: a copy after a mark those before the mark. */
static void operations_wait_for_a_copy_that_needs_them(void **state)
{
	float back[2] = { 0 }, *dev, *host;
	uint64_t ticket;
	(void)state;
	open_with("1M", "later");
	dev = take(2 * sizeof *dev);
	host = take_pinned(2 * sizeof *host);
	for (int i = 0; i < 2; i++) {
		struct zr_op_init op = {
			.size = sizeof op, .n = 1, .mean = 3 + (float)i, .dst = dev + i
		};
		assert_int_equal(d.ops->init(d.ops, NULL, &op), ZR_OK);
		assert_int_equal(d.v->mark(d.inst, (uint32_t)i), ZR_OK);
	}
	assert_int_equal(d.v->copy_after(d.inst, host, dev, 8, 0, &ticket), ZR_OK);
	assert_int_equal(d.v->copy_wait(d.inst, ticket), ZR_OK);
	assert_true(host[0] == 3 && host[1] == 0);
	assert_int_equal(d.v->copy_after(d.inst, host, dev, 8, 1, &ticket), ZR_OK);
	assert_int_equal(d.v->copy_wait(d.inst, ticket), ZR_OK);
	assert_true(host[0] == 3 && host[1] == 4);
	assert_int_equal(d.v->mark(d.inst, ZR_MARKS), ZR_EINVAL);
	assert_int_equal(d.v->copy_after(d.inst, host, dev, 8, ZR_MARKS, &ticket), ZR_EINVAL);
	move(back, dev, sizeof back);
	assert_true(back[0] == 3 && back[1] == 4);
	d.v->mem_free(d.inst, host, 2 * sizeof *host, ZR_MEM_PINNED);
	dev_close(&d);
}

static void refused(int rc, const char *text)
{
	assert_int_equal(rc, ZR_EINVAL);
	assert_non_null(strstr(test_error(d.h), text));
	test_clear(d.h);
}

static void said(const char *text)
{
	assert_non_null(strstr(test_log(d.h), text));
	test_clear(d.h);
}

static void copies_beside_refuse_what_is_not_pinned(void **state)
{
	enum { BYTES = 4 * 4096 };
	const char *not = "neither memory of this device nor pinned, as one range: take "
			  "ZR_MEM_PINNED, or call mem_pin";
	char *dev,
		*host = mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			     -1, 0),
		*own;
	uint64_t ticket;
	(void)state;
	open_separate("1M");
	dev = take(BYTES);
	own = take_pinned(BYTES);
	assert_int_equal(d.v->copy(d.inst, NULL, dev, host, BYTES), ZR_OK);
	refused(d.v->copy_start(d.inst, dev, host, BYTES, &ticket), not );
	refused(d.v->copy_start(d.inst, host, dev, BYTES, &ticket), not );
	assert_int_equal(d.v->mem_pin(d.inst, host, BYTES), ZR_OK);
	assert_int_equal(d.v->copy_start(d.inst, host + 1, dev, BYTES - 1, &ticket), ZR_OK);
	refused(d.v->copy_start(d.inst, host + 1, dev, BYTES, &ticket), not );
	/* side by side they are two */
	assert_int_equal(d.v->mem_pin(d.inst, host + BYTES, BYTES), ZR_OK);
	refused(d.v->copy_start(d.inst, dev, host + BYTES - 1, 2, &ticket), not );
	d.v->mem_unpin(d.inst, host + BYTES);
	d.v->mem_unpin(d.inst, host);
	refused(d.v->copy_start(d.inst, host, dev, 1, &ticket), not );
	assert_int_equal(d.v->copy_start(d.inst, own, dev, BYTES, &ticket), ZR_OK);
	d.v->mem_free(d.inst, own, BYTES, ZR_MEM_PINNED);
	refused(d.v->copy_start(d.inst, own, dev, 1, &ticket), not );
	munmap(host, 2 * BYTES);
	dev_close(&d);
}

static void pinning_out_of_order_is_refused_or_said(void **state)
{
	enum { BYTES = 4 * 4096 };
	char *host =
		mmap(NULL, 2 * BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)state;
	open_separate("1M");
	munmap(host + BYTES, BYTES);
	refused(d.v->mem_pin(d.inst, host, BYTES + 1), "some are not mapped");
	refused(d.v->mem_pin(d.inst, host + 64, 64), "a range starts a page");
	refused(d.v->mem_pin(d.inst, host, 0), "is not empty");
	assert_int_equal(d.v->mem_pin(d.inst, host, 4096 + 1), ZR_OK);
	refused(d.v->mem_pin(d.inst, host + 4096, 4096),
		"some are pinned already, among 4097 bytes");
	assert_int_equal(d.v->mem_pin(d.inst, host + 2 * 4096, 2 * 4096), ZR_OK);
	refused(d.v->mem_pin(d.inst, host, BYTES), "some are pinned already");
	d.v->mem_unpin(d.inst, host + 4096);
	said("was pinned by mem_pin");
	d.v->mem_unpin(d.inst, host);
	assert_string_equal(test_log(d.h), "");
	d.v->mem_unpin(d.inst, host);
	said("was pinned by mem_pin");
	assert_int_equal(d.v->mem_pin(d.inst, host, 4096), ZR_OK);
	munmap(host, 4096);
	d.v->mem_unpin(d.inst, host);
	said("not mapped any more: unpin memory before it goes");
	d.desc->destroy(d.inst);
	said("8192 bytes at ");
	d.inst = NULL;
	munmap(host, BYTES);
	dev_close(&d);
}

static void late_copies_need_what_is_still_pinned(void **state)
{
	static char *host, *dev;
	uint64_t ticket;
	(void)state;
	open_with("1M", "late_copies");
	dev = take(64);
	host = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_int_equal(d.v->mem_pin(d.inst, host, 4096), ZR_OK);
	assert_int_equal(d.v->copy_start(d.inst, host, dev, 64, &ticket), ZR_OK);
	assert_true(ticket);
	d.v->mem_unpin(d.inst, host);
	refused(d.v->copy_wait(d.inst, ticket), "nor pinned");
	munmap(host, 4096);
	dev_close(&d);
}

/* ---- models and optimizers ---- */

static void same_floats(const char *what, const float *a, const float *b, int64_t n)
{
	if (memcmp(a, b, (size_t)n * sizeof *a))
		fail_msg("%s differ", what);
}

static void gpt2_touches_nothing_itself_I1(void **state)
{
	static const int32_t dtypes[] = { ZR_F32, ZR_BF16 };
	float here[97], there[97];
	int i;
	(void)state;
	for (i = 0; i < 2; i++) {
		struct fixture_setup s = { .workers = 2,
					   .dtype = dtypes[i],
					   .batch = 2,
					   .length = 13,
					   .options = { "dropout", "0.2" } };
		struct fixture *a = fixture_new(s), *b;
		s.separate = 1;
		b = fixture_new(s);
		assert_true(fixture_step(a, 0) == fixture_step(b, 0));
		same_floats("gradients", a->gradient, b->gradient, a->total);
		same_floats("losses", a->loss_rows, b->loss_rows, 26);
		assert_true(fixture_loss(a, 0) == fixture_loss(b, 0));
		fixture_logits(a, 25, here);
		fixture_logits(b, 25, there);
		same_floats("logits", here, there, 97);
		fixture_free(a);
		fixture_free(b);
	}
}

#define SIZE (2 * ZR_BLOCK + 77)

/* What a piece holds: master, gradient, two states, the bf16 copy. */
struct piece {
	float x[4][SIZE];
	uint16_t lowp[SIZE];
	struct zr_scalars scalars;
};

static struct zr_buf buf(void *p, int32_t dtype, uint32_t mem)
{
	return (struct zr_buf){ p, SIZE, dtype, mem };
}

static const struct {
	const char *plugin, *key, *value;
} optimizers[] = {
	{ "optimizer/adamw", "weight_decay", "0.1" }, { "optimizer/adamw", "states", "bf16" },
	{ "optimizer/adam", "weight_decay", "0.1" },  { "optimizer/adagrad", "lr_decay", "0.1" },
	{ "optimizer/lion", "weight_decay", "0.1" },  { "optimizer/sgd", "momentum", "0.9" },
};

/* Three updates of a piece, which lies at p. */
static void update(const struct zr_desc *desc, struct zr_inst *inst, const void *opts,
		   const struct dev *on, struct piece *p, uint32_t mem)
{
	static const int64_t dims[] = { SIZE };
	const struct zr_optimizer_v1 *v = test_iface(desc, "zr.optimizer/1");
	uint32_t n, i;
	const struct zr_state *state = v->states(inst, &n);
	struct zr_seg seg = { .n = SIZE, .ndim = 1, .dims = dims, .name = "a" };
	struct zr_buf states[2];
	struct zr_opt_step step = { .size = sizeof step,
				    .seg_stride = sizeof(struct zr_seg),
				    .n_state = n,
				    .lr = 0.01,
				    .grad_mult = 0.5,
				    .opts = opts,
				    .state = states,
				    .seg = &seg,
				    .n_seg = 1,
				    .ops = on->ops,
				    .master = buf(p->x[0], ZR_F32, mem),
				    .grad = buf(p->x[1], ZR_F32, mem),
				    .lowp = buf(p->lowp, ZR_BF16, mem),
				    .scalars = &p->scalars };
	assert_true(v->mem_ok & mem && n <= 2);
	for (i = 0; i < n; i++)
		states[i] = buf(p->x[2 + i], state[i].dtype, mem);
	for (step.step = 1; step.step <= 3; step.step++) {
		struct zr_scalars s = { .step = step.step, .grad_mult = 0.5f, .lr = 0.01f };
		on->v->copy(on->inst, NULL, &p->scalars, &s, sizeof s);
		if (v->step(inst, &step))
			fail_msg("%s", test_error(on->h));
	}
}

static void optimizers_touch_nothing_themselves_I1(void **state)
{
	static struct piece here, back;
	uint64_t seed = 5;
	size_t i, k;
	struct dev plain;
	(void)state;
	open_separate("1M");
	assert_int_equal(dev_open(&plain, 2, "auto"), ZR_OK);
	for (i = 0; i < sizeof optimizers / sizeof *optimizers; i++) {
		const struct zr_desc *desc = test_plugin(optimizers[i].plugin);
		struct piece *there = take(sizeof *there);
		struct zr_inst *inst;
		void *opts = test_options(desc);
		assert_int_equal(test_set(desc, opts, optimizers[i].key, optimizers[i].value), 0);
		assert_int_equal(test_create(d.h, desc, opts, &inst), ZR_OK);
		memset(&here, 0, sizeof here);
		for (k = 0; k < SIZE; k++)
			here.x[0][k] = (float)rnd(&seed), here.x[1][k] = (float)rnd(&seed);
		move(there, &here, sizeof here);
		update(desc, inst, opts, &plain, &here, ZR_MEM_HOST);
		update(desc, inst, opts, &d, there, ZR_MEM_DEVICE);
		move(&back, there, sizeof back);
		assert_memory_equal(&here, &back, sizeof here);
		give(there, sizeof *there);
		desc->destroy(inst);
		free(opts);
	}
	dev_close(&plain);
	dev_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_a_memory_the_double_is_device_cpu),
		cmocka_unit_test(limit_is_hard_whatever_the_kind),
		cmocka_unit_test(freed_memory_is_lent_again_and_zeroed),
		cmocka_unit_test(host_code_that_touches_separate_memory_faults),
		cmocka_unit_test(operations_refuse_host_memory),
		cmocka_unit_test(copies_beside_refuse_what_is_not_pinned),
		cmocka_unit_test(pinning_out_of_order_is_refused_or_said),
		cmocka_unit_test(late_copies_need_what_is_still_pinned),
		cmocka_unit_test(late_copies_happen_when_they_are_waited_for),
		cmocka_unit_test(operations_wait_for_a_copy_that_needs_them),
		cmocka_unit_test(gpt2_touches_nothing_itself_I1),
		cmocka_unit_test(optimizers_touch_nothing_themselves_I1),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
