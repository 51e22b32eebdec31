/* SPDX-License-Identifier: Apache-2.0
 *
 * t_separate.c - a played device: its options, its limit, and that nothing but operations and copies can touch a
 * separate memory.
 */
#include "testdevice.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

static struct dev d;

static void open_separate(const char *memory)
{
	if (dev_open_memory(&d, 2, "auto", "auto", memory, "yes"))
		fail_msg("%s", test_error(d.h));
}

static void *take(uint64_t bytes)
{
	void *p = NULL;
	if (d.v->mem_alloc(d.inst, bytes, ZR_MEM_DEVICE, &p))
		fail_msg("%s", test_error(d.h));
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

/* ---- the limit -------------------------------------------------------------------------------------- */

static void separate_needs_a_memory(void **state)
{
	(void)state;
	assert_int_equal(dev_open_memory(&d, 1, "auto", "auto", "auto", "yes"), ZR_EINVAL);
	assert_non_null(strstr(test_error(d.h), "give memory = BYTES"));
	dev_close(&d);
}

static void limit_is_hard_whatever_the_kind(void **state)
{
	static const char *const separate[] = { "no", "yes" };
	void *a, *b, *none = NULL;
	int i;
	(void)state;
	for (i = 0; i < 2; i++) {
		assert_int_equal(dev_open_memory(&d, 1, "auto", "auto", "100001", separate[i]), ZR_OK);
		a = take(60000);
		assert_int_equal(d.v->mem_alloc(d.inst, 40002, ZR_MEM_DEVICE, &none), ZR_EFIT);
		assert_non_null(strstr(test_error(d.h), "40002 bytes of device memory do not fit: of memory = 100001 bytes 60000 are"));
		b = take(40001);
		assert_int_equal(d.v->mem_alloc(d.inst, 1, ZR_MEM_DEVICE, &none), ZR_EFIT);
		assert_int_equal(d.v->mem_alloc(d.inst, (uint64_t)-1, ZR_MEM_DEVICE, &none), ZR_EFIT);
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

/* Allocations of random sizes come and go under a limit that they reach again and again; each comes zeroed and keeps
 * its bytes. */
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
			assert_int_equal(d.v->mem_alloc(d.inst, bytes[i], ZR_MEM_DEVICE, (void **)&p[i]), ZR_EFIT);
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

/* ---- faults ----------------------------------------------------------------------------------------- */

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
	assert_int_equal(dev_open_memory(&d, 1, "auto", "auto", "1M", "no"), ZR_OK);
	p = take(bytes);
	for (how = READ; how <= READ_END; how++)
		assert_int_equal(signal_of(p, bytes, how), 0);
	dev_close(&d);
}

static void operations_take_host_memory_too(void **state)
{
	float host[100], *dev;
	int i;
	struct zr_op_cast in = { .size = sizeof in, .dst_dtype = ZR_F32, .src_dtype = ZR_F32, .n = 100, .src = host };
	(void)state;
	open_separate("1M");
	in.dst = dev = take(sizeof host);
	for (i = 0; i < 100; i++)
		host[i] = (float)i;
	assert_int_equal(d.ops->cast(d.ops, NULL, &in), ZR_OK);
	memset(host, 0, sizeof host);
	in.dst = host;
	in.src = dev;
	assert_int_equal(d.ops->cast(d.ops, NULL, &in), ZR_OK);
	for (i = 0; i < 100; i++)
		assert_true(host[i] == (float)i);
	assert_ptr_equal(in.src, dev); /* the caller's struct is left alone */
	dev_close(&d);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(separate_needs_a_memory),
		cmocka_unit_test(limit_is_hard_whatever_the_kind),
		cmocka_unit_test(freed_memory_is_lent_again_and_zeroed),
		cmocka_unit_test(host_code_that_touches_separate_memory_faults),
		cmocka_unit_test(operations_take_host_memory_too),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
