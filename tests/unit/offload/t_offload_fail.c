/* SPDX-License-Identifier: Apache-2.0
 *
 * t_offload_fail.c - how offload/nvme ends when the disk does not keep what it was given: full,
 * cut, removed, damaged, failing, or in use by others. Each end names the file and what is wrong
 * with it; none gives wrong bytes.
 */
#define _GNU_SOURCE
#include "offload_fixture.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 100000

static const char *const summed[] = { "checksums", "yes", "block_size", "8K", NULL };
static char *mem;
static char self[4096];

static int setup(void **state)
{
	mem = aligned_alloc(4096, 1 << 20);
	return mem ? offload_setup(state) : -1;
}

static int teardown(void **state)
{
	free(mem);
	return offload_teardown(state);
}

static void says(const char *text)
{
	if (!strstr(test_error(host), text))
		fail_msg("\"%s\" is not in \"%s\"", text, test_error(host));
}

/* An instance with an object of BYTES bytes that were written. */
static uint64_t written(struct store *s, const char *const *options)
{
	uint64_t a;
	store_open(s, "offload/nvme", options);
	a = store_make(s, "exp_avg", BYTES);
	fill(mem, BYTES, 1);
	store_write(s, a, 0, mem, BYTES);
	return a;
}

/* ---- files that change under us ---- */

static void a_cut_file_is_an_error(void **state)
{
	static const off_t at[] = { 0, 4096, 50000, 98304, 102400 };
	char path[600];
	struct store s;
	(void)state;
	for (int i = 0; i < 5; i++) {
		uint64_t a = written(&s, NULL);
		file_of("exp_avg", path, sizeof path);
		assert_int_equal(truncate(path, at[i]), 0);
		assert_int_equal(store_reads(&s, a, 0, mem, BYTES), ZR_EIO);
		says(path);
		says("changed its size");
		store_close(&s);
	}
}

/* The write makes the file longer again, with a hole of zeros in it. */
static void a_write_does_not_heal_a_cut_file(void **state)
{
	char path[600];
	struct store s;
	uint64_t a = written(&s, NULL);
	(void)state;
	file_of("exp_avg", path, sizeof path);
	assert_int_equal(truncate(path, 0), 0);
	assert_int_equal(s.v->wait(s.inst, store_post(&s, 1, a, 50000, mem, BYTES - 50000)),
			 ZR_EIO);
	says("changed its size");
	assert_int_equal(store_reads(&s, a, 8192, mem, 4096), ZR_EIO);
	store_close(&s);
}

static void remove_all(void)
{
	char dir[300], command[400];
	assert_int_equal(dirs_in(disk, dir, sizeof dir), 1);
	snprintf(command, sizeof command, "rm -r '%s'", dir);
	assert_int_equal(system(command), 0);
}

static void a_removed_directory_is_an_error(void **state)
{
	struct store s;
	uint64_t a = written(&s, NULL), b;
	(void)state;
	remove_all();
	assert_int_equal(store_reads(&s, a, 0, mem, BYTES), ZR_EIO);
	says("exp_avg");
	says("somebody removed it");
	assert_int_equal(s.v->make(s.inst, "master", BYTES, &b), ZR_EIO);
	says("No such file or directory");
	store_close(&s);
	assert_non_null(strstr(logged, "cannot remove"));
}

static void flip_in(const char *key, off_t at)
{
	char path[600], byte;
	file_of(key, path, sizeof path);
	int fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, at), 1);
	byte ^= 4;
	assert_int_equal(pwrite(fd, &byte, 1, at), 1);
	close(fd);
}

/* Without an option, in every place that a read, or a write of a part, takes it from. */
static void I7_a_flipped_bit_is_an_error_by_default(void **state)
{
	static const off_t at[] = { 0, 1, 4095, 4096, 33333, 69632, BYTES - 1 };
	char path[600];
	(void)state;
	for (size_t i = 0; i < sizeof at / sizeof *at; i++) {
		struct store s;
		uint64_t a = written(&s, NULL), from = (uint64_t)at[i] / 4096 * 4096;
		file_of("exp_avg", path, sizeof path);
		flip_in("exp_avg", at[i]);
		assert_int_equal(store_reads(&s, a, 0, mem, BYTES), ZR_EIO);
		says(path);
		says("are not what was written there (checksum)");
		assert_int_equal(store_reads(&s, a, from + 7, mem, 100), ZR_EIO);
		/* of the last, short unit, nobody owns the rest: it is written whole */
		if (from + 4096 <= BYTES)
			assert_int_equal(s.v->wait(s.inst,
						   store_post(&s, 1, a, from + 7, mem, 100)),
					 ZR_EIO);
		flip_in("exp_avg", at[i]);
		store_read(&s, a, 0, mem, BYTES);
		store_close(&s);
	}
}

/* What was written last is what counts: an older state of the file is an error, a part of a unit
 * that was written is not. */
static void I7_a_write_that_is_lost_is_an_error(void **state)
{
	char path[600], old[4096];
	struct store s;
	uint64_t a = written(&s, NULL);
	(void)state;
	file_of("exp_avg", path, sizeof path);
	int fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, old, sizeof old, 8192), sizeof old);
	memset(mem, 7, 4096);
	store_write(&s, a, 8292, mem, 300);
	store_read(&s, a, 4096, mem, 12288);
	assert_int_equal(pwrite(fd, old, sizeof old, 8192), sizeof old);
	close(fd);
	assert_int_equal(store_reads(&s, a, 4096, mem, 12288), ZR_EIO);
	says("the 4096 bytes at offset 8192 are not what was written");
	store_close(&s);
}

static void a_flipped_bit_is_an_error_with_checksums(void **state)
{
	char path[600], byte;
	struct store s;
	uint64_t a = written(&s, summed);
	int fd;
	(void)state;
	file_of("exp_avg", path, sizeof path);
	fd = open(path, O_RDWR);
	assert_int_equal(pread(fd, &byte, 1, 70000), 1);
	byte ^= 4;
	assert_int_equal(pwrite(fd, &byte, 1, 70000), 1);
	close(fd);
	assert_int_equal(store_reads(&s, a, 0, mem, 65536), ZR_OK); /* not there */
	assert_int_equal(store_reads(&s, a, 0, mem, BYTES), ZR_EIO);
	says(path);
	says("the 4096 bytes at offset 69632 are not what was written");
	assert_int_equal(store_reads(&s, a, 69700, mem, 100), ZR_EIO); /* in the same unit */
	/* nor does a write of a part of it make it good */
	assert_int_equal(s.v->wait(s.inst, store_post(&s, 1, a, 69700, mem, 100)), ZR_EIO);
	assert_int_equal(store_reads(&s, a, 69700, mem, 100), ZR_EIO);
	store_write(&s, a, 69632, mem, 4096); /* a write of all of it does */
	assert_int_equal(store_reads(&s, a, 69632, mem, 4096), ZR_OK);
	store_close(&s);
}

static void other_requests_outlive_a_failed_one(void **state)
{
	char path[600];
	struct store s;
	uint64_t a = written(&s, NULL), b = store_make(&s, "grad", BYTES), bad, good;
	(void)state;
	fill(mem, BYTES, 2);
	store_write(&s, b, 0, mem, BYTES);
	file_of("exp_avg", path, sizeof path);
	assert_int_equal(truncate(path, 0), 0);
	bad = store_post(&s, 0, a, 0, mem + 200000, BYTES);
	good = store_post(&s, 0, b, 0, mem + 400000, BYTES);
	store_wait(&s, good);
	assert_memory_equal(mem + 400000, mem, BYTES);
	assert_true(s.v->test(s.inst, bad) <= 0);
	assert_int_equal(s.v->wait(s.inst, bad), ZR_EIO);
	store_post(&s, 0, a, 0, mem, BYTES);
	assert_int_equal(s.v->drain(s.inst), ZR_OK);
	store_close(&s);
}

/* ---- other runs in the same place ---- */

/* A process that has an instance with data, and dies or lives on. Its pid; its instance is
 * there. */
static pid_t another_run(int dies)
{
	int ready[2];
	char byte;
	pid_t pid;
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (!pid) {
		struct store s;
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also where this test fails */
		written(&s, NULL);
		if (dies)
			raise(SIGKILL);
		(void)!write(ready[1], "x", 1);
		pause();
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), dies ? 0 : 1);
	close(ready[0]);
	if (dies)
		waitpid(pid, NULL, 0);
	return pid;
}

static void what_dead_runs_left_is_removed(void **state)
{
	char dir[300];
	struct store s;
	(void)state;
	another_run(1);
	assert_int_equal(dirs_in(disk, dir, sizeof dir), 1);
	store_open(&s, "offload/nvme", NULL);
	assert_non_null(strstr(logged, dir));
	assert_non_null(strstr(logged, "left by a run that died: 1 files, 1"));
	assert_int_equal(dirs_in(disk, dir, sizeof dir), 1);
	store_close(&s);
	assert_int_equal(dirs_in(disk, dir, sizeof dir), 0);
}

static void runs_that_live_are_left_alone(void **state)
{
	pid_t other = another_run(0);
	char dir[300];
	struct store s;
	uint64_t a = written(&s, NULL);
	(void)state;
	assert_int_equal(dirs_in(disk, dir, sizeof dir), 2);
	assert_int_equal(store_reads(&s, a, 0, mem, BYTES), ZR_OK);
	store_close(&s);
	assert_int_equal(dirs_in(disk, dir, sizeof dir), 1);
	kill(other, SIGKILL);
	waitpid(other, NULL, 0);
	store_open(&s, "offload/nvme", NULL);
	store_close(&s);
	assert_int_equal(dirs_in(disk, dir, sizeof dir), 0);
}

/* Only what the plugin itself would make is ever removed. */
static void directories_of_others_are_left_alone(void **state)
{
	char odd[300], same[300], note[400], data[400];
	struct store s;
	(void)state;
	snprintf(odd, sizeof odd, "%s/zeroth-offload-r0-notes", disk);
	snprintf(same, sizeof same, "%s/zeroth-offload-r0-0123456789abcdef", disk);
	snprintf(note, sizeof note, "%s/note", same);
	snprintf(data, sizeof data, "%s/000-x.obj", odd);
	assert_int_equal(mkdir(odd, 0700) || mkdir(same, 0700), 0);
	close(creat(note, 0600));
	close(creat(data, 0600));
	store_open(&s, "offload/nvme", NULL);
	assert_non_null(strstr(logged, "cannot remove"));
	store_close(&s);
	assert_int_equal(unlink(note) || unlink(data) || rmdir(odd) || rmdir(same), 0);
}

/* ---- places and space ---- */

static void places_that_do_not_serve_are_refused(void **state)
{
	char file[300];
	struct store s;
	(void)state;
	assert_int_equal(store_try(&s, "offload/nvme", "/tmp/no/such/place", NULL), ZR_EINVAL);
	says("path = /tmp/no/such/place: No such file or directory");
	snprintf(file, sizeof file, "%s/file", disk);
	close(creat(file, 0600));
	assert_int_equal(store_try(&s, "offload/nvme", file, NULL), ZR_EINVAL);
	says("Not a directory");
	unlink(file);
	assert_int_equal(store_try(&s, "offload/nvme", "/proc", NULL), ZR_EINVAL);
	says("cannot make and lock a directory in it");
}

static void files_beyond_the_limit_are_refused(void **state)
{
	struct rlimit before, few;
	struct store s;
	uint64_t a;
	(void)state;
	store_open(&s, "offload/nvme", NULL);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	few = (struct rlimit){ 200000, before.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &few), 0);
	assert_int_equal(s.v->make(s.inst, "master", 400000, &a), ZR_EFIT);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	says(disk);
	says("master needs 405504 bytes and 200000 are free (in one file: ulimit -f)");
	store_close(&s);
}

static void more_than_the_disk_has_is_refused(void **state)
{
	struct store s;
	uint64_t a, big;
	(void)state;
	store_open(&s, "offload/nvme", NULL);
	big = s.info.capacity + (1 << 20);
	assert_int_equal(s.v->make(s.inst, "master", big, &a), ZR_EFIT);
	says(disk);
	says("are free (No space left on device)");
	store_close(&s);
}

/* In a child, with a file system of its own mounted at `disk`. 0: fn's assertions held; 77: cannot
 * mount here. */
static void with_mount(const char *type, const char *data, void (*fn)(void))
{
	int status;
	pid_t pid = fork();
	if (!pid) {
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    mount("none", disk, type, 0, data))
			_exit(77);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		skip();
	assert_int_equal(status, 0);
}

/* cmocka's assertions belong to the parent. */
static void must(int holds, const char *what)
{
	if (holds)
		return;
	fprintf(stderr, "# %s; \"%s\" \"%s\"\n", what, test_error(host), logged);
	_exit(1);
}

static void full_disk(void)
{
	struct store s;
	uint64_t a, b;
	must(store_try(&s, "offload/nvme", disk, NULL) == ZR_OK, "create");
	must(s.info.capacity <= 8 << 20, "capacity");
	must(s.v->make(s.inst, "master", 5 << 20, &a) == ZR_OK, "the first fits");
	must(s.v->make(s.inst, "exp_avg", 5 << 20, &b) == ZR_EFIT, "the second does not");
	must(strstr(test_error(host), "exp_avg needs 5246976 bytes and 3") != NULL,
	     "says how much");
	must(s.v->wait(s.inst, store_post(&s, 1, a, 0, mem, 1 << 20)) == ZR_OK,
	     "what was reserved stays usable");
	must(s.v->discard(s.inst, a) == ZR_OK && s.v->make(s.inst, "exp_avg", 5 << 20, &b) == ZR_OK,
	     "space comes back");
	store_close(&s);
}

static void a_full_disk_is_refused_when_reserving(void **state)
{
	(void)state;
	with_mount("tmpfs", "size=8m", full_disk);
}

/* ramfs knows neither direct I/O nor fallocate, nor how large it is. */
static void buffered(void)
{
	struct store s;
	uint64_t a, ticket;
	must(store_try(&s, "offload/nvme", disk, summed) == ZR_OK, "create");
	must(strstr(logged, "no direct I/O (Invalid argument)") != NULL,
	     "says that it is buffered");
	must(s.v->make(s.inst, "master", BYTES, &a) == ZR_OK, "make");
	must(strstr(logged, "cannot reserve space") != NULL, "says that nothing is reserved");
	fill(mem, BYTES, 3);
	must(s.v->write(s.inst, a, 0, mem, BYTES, &ticket) == ZR_OK &&
		     s.v->wait(s.inst, ticket) == ZR_OK,
	     "write");
	must(s.v->read(s.inst, a, 1, mem + 200001, BYTES - 1, &ticket) == ZR_OK &&
		     s.v->wait(s.inst, ticket) == ZR_OK,
	     "read");
	must(!memcmp(mem + 200001, mem + 1, BYTES - 1), "the same bytes");
	store_close(&s);
}

static void without_direct_io_it_says_so_and_works(void **state)
{
	(void)state;
	with_mount("ramfs", NULL, buffered);
}

/* ---- a disk that fails ---- */

/* The program once more, with the library that spoils transfers preloaded, for one of the parts
 * below. */
static void with_bad_disk(const char *part, const char *variable, const char *value)
{
	const char *build = getenv("ZR_BUILDDIR");
	char library[4200];
	int status;
	pid_t pid;
	snprintf(library, sizeof library, "%s/tests/doubles/.libs/baddisk.so", build ? build : ".");
	if (access(library, R_OK))
		fail_msg("%s: %s", library, strerror(errno));
	pid = fork();
	if (!pid) {
		setenv("LD_PRELOAD", library, 1);
		setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
		setenv(variable, value, 1);
		execl(self, self, part, disk, (char *)NULL);
		_exit(127);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* Two whole pages each: the write is transfer 1, the reads are 2 and 3. */
static void part_error(void)
{
	struct store s;
	uint64_t a;
	must(store_try(&s, "offload/nvme", disk, NULL) == ZR_OK, "create");
	a = store_make(&s, "exp_avg", BYTES);
	must(s.v->wait(s.inst, store_post(&s, 1, a, 8192, mem, 8192)) == ZR_OK, "write");
	must(store_reads(&s, a, 8192, mem, 8192) == ZR_OK, "read");
	must(store_reads(&s, a, 8192, mem, 8192) == ZR_EIO, "read that fails");
	must(strstr(test_error(host),
		    "exp_avg.obj: reading 8192 bytes at offset 8192: Input/output error") != NULL,
	     "says what");
	must(s.v->wait(s.inst, store_post(&s, 1, a, 8192, mem, 8192)) == ZR_EIO,
	     "write that fails");
	must(strstr(test_error(host), "writing 8192 bytes at offset 8192: Input/output error") !=
		     NULL,
	     "says what");
	store_close(&s);
}

static void part_short(void)
{
	struct store s;
	uint64_t a;
	must(store_try(&s, "offload/nvme", disk, NULL) == ZR_OK, "create");
	a = store_make(&s, "exp_avg", BYTES);
	fill(mem, BYTES, 4);
	must(s.v->wait(s.inst, store_post(&s, 1, a, 0, mem, BYTES)) == ZR_OK, "write");
	memset(mem + 204800, 0, BYTES);
	must(store_reads(&s, a, 0, mem + 204800, BYTES) == ZR_OK, "read");
	must(!memcmp(mem, mem + 204800, BYTES), "the same bytes");
	store_close(&s);
}

/* A read behind a write of the same bytes whose first block fails. */
static void part_behind(void)
{
	static const char *const narrow[] = { "queue_depth", "1", "block_size", "4096", NULL };
	struct store s;
	uint64_t a, write, read;
	alarm(60);
	must(store_try(&s, "offload/nvme", disk, narrow) == ZR_OK, "create");
	a = store_make(&s, "exp_avg", 64 * 4096);
	write = store_post(&s, 1, a, 0, mem, 64 * 4096);
	read = store_post(&s, 0, a, 0, mem + 65 * 4096, 64 * 4096);
	must(s.v->wait(s.inst, read) == ZR_EIO, "read");
	must(s.v->wait(s.inst, write) == ZR_EIO, "write");
	store_close(&s);
}

static void a_failing_disk_is_an_error_with_its_place(void **state)
{
	(void)state;
	with_bad_disk("error", "ZR_BADDISK_EIO", "3");
}

static void short_transfers_are_continued(void **state)
{
	(void)state;
	with_bad_disk("short", "ZR_BADDISK_SHORT", "1");
	with_bad_disk("short", "ZR_BADDISK_SHORT", "3");
}

static void what_waits_for_a_failed_request_goes_on(void **state)
{
	(void)state;
	with_bad_disk("behind", "ZR_BADDISK_EIO", "1");
	with_bad_disk("behind", "ZR_BADDISK_EIO", "3");
}

static int run_part(const char *part, const char *at)
{
	mem = aligned_alloc(4096, 1 << 20);
	host = store_host();
	if (!mem || strlen(at) != strlen(disk))
		return 1;
	strcpy(disk, at);
	if (!strcmp(part, "error"))
		part_error();
	else if (!strcmp(part, "behind"))
		part_behind();
	else
		part_short();
	test_host_free(host);
	free(mem);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_cut_file_is_an_error),
		cmocka_unit_test(a_write_does_not_heal_a_cut_file),
		cmocka_unit_test(a_removed_directory_is_an_error),
		cmocka_unit_test(I7_a_flipped_bit_is_an_error_by_default),
		cmocka_unit_test(I7_a_write_that_is_lost_is_an_error),
		cmocka_unit_test(a_flipped_bit_is_an_error_with_checksums),
		cmocka_unit_test(other_requests_outlive_a_failed_one),
		cmocka_unit_test(what_dead_runs_left_is_removed),
		cmocka_unit_test(runs_that_live_are_left_alone),
		cmocka_unit_test(directories_of_others_are_left_alone),
		cmocka_unit_test(places_that_do_not_serve_are_refused),
		cmocka_unit_test(files_beyond_the_limit_are_refused),
		cmocka_unit_test(more_than_the_disk_has_is_refused),
		cmocka_unit_test(a_full_disk_is_refused_when_reserving),
		cmocka_unit_test(without_direct_io_it_says_so_and_works),
		cmocka_unit_test(a_failing_disk_is_an_error_with_its_place),
		cmocka_unit_test(short_transfers_are_continued),
		cmocka_unit_test(what_waits_for_a_failed_request_goes_on),
	};
	if (argc == 3)
		return run_part(argv[1], argv[2]);
	if (readlink("/proc/self/exe", self, sizeof self - 1) < 0)
		return 1;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, setup, teardown);
}
