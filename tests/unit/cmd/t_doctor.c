/* SPDX-License-Identifier: Apache-2.0
 *
 * t_doctor.c - what `zeroth doctor` makes of facts: a machine that is fine has no findings, and
 * each problem alone has one, of its weight, with what mends it.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cmd/doctor/doctor.h"

#include <cmocka.h> /* last: it defines fail() */

static struct zr_machine fine(void)
{
	struct zr_machine m = { .cpu = "A",
				.processors = 8,
				.memory = 64ull << 30,
				.available = 60ull << 30,
				.locked = ZR_UNLIMITED,
				.files = 1 << 20,
				.file_size = ZR_UNLIMITED,
				.addresses = ZR_UNLIMITED,
				.shm = 32ull << 30,
				.shm_free = 32ull << 30,
				.huge_pages = "madvise",
				.ptrace_scope = 0,
				.n_disks = 2 };
	m.disk[0] = (struct zr_disk){
		.what = "run.dir", .path = "/r", .direct = 1, .free = 1ull << 40, .system = "ext4"
	};
	m.disk[1] = m.disk[0];
	strcpy(m.disk[1].what, "offload.optimizer.path");
	m.plugins = json_pack("[{s:s, s:s}]", "role", "device", "id", "cpu");
	assert_non_null(m.plugins);
	return m;
}

/* One finding of that weight, whose text and mend have these words; NULL: none at all. Takes m's
 * plugins. */
static void expect(struct zr_machine m, int weight, const char *text, const char *mend)
{
	static struct zr_findings f;
	zr_judge(&m, &f);
	json_decref(m.plugins);
	if (!text) {
		if (f.n)
			fail_msg("a finding: %s", f.at[0].text);
		return;
	}
	if (f.n != 1)
		fail_msg("%s: %d findings", text, f.n);
	if (f.at[0].weight != weight || !strstr(f.at[0].text, text) || !strstr(f.at[0].mend, mend))
		fail_msg("%d %s -> %s; expected %d %s -> %s", f.at[0].weight, f.at[0].text,
			 f.at[0].mend, weight, text, mend);
}

/* A machine that is fine but for one member. */
#define BUT(member, value)                                                                         \
	({                                                                                         \
		struct zr_machine but = fine();                                                    \
		but.member = value;                                                                \
		but;                                                                               \
	})

static void nothing_to_find(void **unused)
{
	(void)unused;
	expect(fine(), 0, NULL, NULL);
	expect(BUT(quota, 8), 0, NULL, NULL);
	expect(BUT(ptrace_scope, -1), 0, NULL, NULL);
	expect(BUT(overcommit, 1), 0, NULL, NULL);
	struct zr_machine m = BUT(locked, 65536);
	m.may_lock = 1; /* as root may */
	expect(m, 0, NULL, NULL);
	expect(BUT(disk[0].direct, 0), 0, NULL, NULL); /* a run directory needs none */
}

static void memory_and_processors(void **unused)
{
	(void)unused;
	expect(BUT(available, 100 << 20), ZR_SLOWS, "only 100.0 MiB", "--memory");
	expect(BUT(quota, 2.5), ZR_SLOWS, "allows 2.5 of the 8", "device.threads=2");
	expect(BUT(quota, 0.5), ZR_SLOWS, "allows 0.5 of the 8", "device.threads=1");
	expect(BUT(overcommit, 2), ZR_SLOWS, "overcommit", "sysctl vm.overcommit_memory=0");
	expect(BUT(addresses, 8ull << 30), ZR_SLOWS, "8.0 GiB", "ulimit -v unlimited");
	struct zr_machine m = fine();
	strcpy(m.huge_pages, "never");
	expect(m, ZR_SLOWS, "huge pages", "echo madvise");
}

static void limits(void **unused)
{
	(void)unused;
	expect(BUT(files, 256), ZR_SLOWS, "256 files", "ulimit -n");
	expect(BUT(files, 32), ZR_HINDERS, "32 files", "ulimit -n");
	expect(BUT(file_size, 1 << 30), ZR_SLOWS, "1.0 GiB", "ulimit -f unlimited");
	expect(BUT(file_size, 1 << 20), ZR_HINDERS, "1.0 MiB", "ulimit -f unlimited");
	expect(BUT(locked, 65536), ZR_SLOWS, "64.0 KiB", "ulimit -l unlimited");
	expect(BUT(shm_free, 1 << 20), ZR_SLOWS, "/dev/shm has 1.0 MiB", "mount -o remount,size=");
	expect(BUT(shm_free, 0), ZR_SLOWS, "/dev/shm has 0 B", "--shm-size");
	expect(BUT(io_uring, EPERM), ZR_SLOWS, "io_uring", "kernel.io_uring_disabled=0");
	expect(BUT(io_uring, ENOSYS), ZR_SLOWS, "io_uring", "kernel of 5.1");
	expect(BUT(ptrace_scope, 1), ZR_SLOWS, "ptrace_scope is 1", "ptrace_scope=0");
}

static void disks(void **unused)
{
	(void)unused;
	expect(BUT(disk[0].no, EROFS), ZR_HINDERS, "run.dir: nothing can be written to /r",
	       "-o run.dir=DIR");
	expect(BUT(disk[0].free, 1 << 20), ZR_HINDERS, "/r has 1.0 MiB free", "-o run.dir=DIR");
	expect(BUT(disk[0].free, 1 << 30), ZR_SLOWS, "/r has 1.0 GiB free", "checkpoint prune");
	expect(BUT(disk[1].direct, 0), ZR_SLOWS, "(ext4) has no O_DIRECT",
	       "-o offload.optimizer.path=DIR");
	struct zr_machine m = BUT(disk[1].memory, 1);
	m.disk[1].direct = 0; /* said once */
	expect(m, ZR_SLOWS, "is memory and no disk", "on a disk");
}

static void plugins(void **unused)
{
	(void)unused;
	struct zr_machine m = fine();
	json_decref(m.plugins);
	m.plugins = json_array();
	expect(m, ZR_HINDERS, "no plugins", "ZEROTH_PLUGIN_PATH");
	m = fine();
	json_array_append_new(m.plugins, json_pack("{s:s, s:s, s:s}", "role", "zero", "id", "mine",
						   "error", "not an ELF file"));
	expect(m, ZR_SLOWS, "zero/mine cannot be used: not an ELF file", "");
	m = fine();
	strcpy(m.refused, "does not fit: needs 5 TiB");
	expect(m, ZR_HINDERS, "needs 5 TiB", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_to_find), cmocka_unit_test(memory_and_processors),
		cmocka_unit_test(limits),          cmocka_unit_test(disks),
		cmocka_unit_test(plugins),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
