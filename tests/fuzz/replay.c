/* SPDX-License-Identifier: Apache-2.0
 *
 * replay.c - runs a target without libFuzzer: every file that it is given, then -runs=N inputs made
 * of them by random damage, or as many as -max_total_time=SECONDS allows. The damage is a function
 * of -seed=N and of the input's number. An input that ends the process or takes over a minute is
 * left as crash-PROGRAM.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "damage.h"
#include "fuzz.h"

#define ROOM     65536
#define PATIENCE 60 /* s for one input, on a busy machine */

#pragma weak LLVMFuzzerInitialize
#pragma weak LLVMFuzzerCustomMutator
void __sanitizer_set_death_callback(void (*fn)(void)) __attribute__((weak));

struct sample {
	uint8_t *data;
	size_t size;
};

static struct sample *samples;
static int n_samples;
static const uint8_t *current; /* the input that is running */
static size_t current_size;
static const char *program;

size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room)
{
	if (size < 2 && size < room) {
		data[size] = (uint8_t)fuzz_draw(256);
		return size + 1;
	}
	return fuzz_damage((char *)data, size, room);
}

static void keep_input(void)
{
	char path[PATH_MAX];
	const char *name = strrchr(program, '/');
	snprintf(path, sizeof path, "crash-%s", name ? name + 1 : program);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
	if (fd < 0 || write(fd, current, current_size) != (ssize_t)current_size)
		return;
	dprintf(STDERR_FILENO, "the input of %zu bytes that did this is %s\n", current_size, path);
}

static void died(int number)
{
	if (number == SIGALRM)
		dprintf(STDERR_FILENO, "an input takes more than %d s\n", PATIENCE);
	keep_input();
	signal(number, SIG_DFL);
	raise(number == SIGALRM ? SIGKILL : number);
}

static void run(const uint8_t *data, size_t size)
{
	/* so that a sanitizer sees what reads behind it */
	uint8_t *exact = malloc(size ? size : 1);
	fuzz_check(exact);
	memcpy(exact, data, size);
	current = exact;
	current_size = size;
	alarm(PATIENCE);
	LLVMFuzzerTestOneInput(exact, size);
	alarm(0);
	free(exact);
}

static void add_file(const char *path)
{
	static uint8_t data[ROOM];
	FILE *f = fopen(path, "rb");
	size_t n = f ? fread(data, 1, ROOM, f) : 0;
	if (!f || ferror(f)) {
		fprintf(stderr, "%s: cannot read it\n", path);
		exit(2);
	}
	fclose(f);
	samples = realloc(samples, ((size_t)n_samples + 1) * sizeof *samples);
	fuzz_check(samples);
	samples[n_samples].data = malloc(n ? n : 1);
	fuzz_check(samples[n_samples].data);
	memcpy(samples[n_samples].data, data, n);
	samples[n_samples++].size = n;
}

static void add_path(const char *path)
{
	struct dirent **list;
	char file[PATH_MAX];
	int n = scandir(path, &list, NULL, alphasort);
	if (n < 0) {
		add_file(path);
		return;
	}
	for (int i = 0; i < n; i++) {
		snprintf(file, sizeof file, "%s/%s", path, list[i]->d_name);
		if (*list[i]->d_name != '.')
			add_file(file);
		free(list[i]);
	}
	free(list);
}

/* The largest of eight: most small ones are refused early, and so is what is made of them. */
static const struct sample *draw_sample(void)
{
	const struct sample *best = NULL;
	for (int i = 0; i < 8; i++) {
		const struct sample *s = &samples[fuzz_draw((uint32_t)n_samples)];
		best = best && best->size >= s->size ? best : s;
	}
	return best;
}

static void run_damaged(uint64_t seed, long i)
{
	static uint8_t data[ROOM];
	fuzz_seed(seed + (uint64_t)i * 77777);
	const struct sample *s = draw_sample();
	size_t n = s->size;
	memcpy(data, s->data, n);
	for (uint32_t k = fuzz_draw(4); k != UINT32_MAX; k--)
		n = LLVMFuzzerCustomMutator ?
			    LLVMFuzzerCustomMutator(data, n, ROOM, fuzz_draw(1u << 30)) :
			    LLVMFuzzerMutate(data, n, ROOM);
	run(data, n);
}

int main(int argc, char **argv)
{
	static const int deaths[] = { SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM };
	long runs = 0, seconds = 0, i = 0;
	uint64_t seed = 1;
	program = argv[0];
	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	for (int a = 1; a < argc; a++)
		if (!strncmp(argv[a], "-runs=", 6))
			runs = atol(argv[a] + 6);
		else if (!strncmp(argv[a], "-max_total_time=", 16))
			seconds = atol(argv[a] + 16);
		else if (!strncmp(argv[a], "-seed=", 6))
			seed = strtoull(argv[a] + 6, NULL, 10);
		else if (*argv[a] != '-') /* what else libFuzzer knows does not concern us */
			add_path(argv[a]);
	for (size_t k = 0; k < sizeof deaths / sizeof *deaths; k++)
		signal(deaths[k], died);
	if (__sanitizer_set_death_callback)
		__sanitizer_set_death_callback(keep_input);
	for (int k = 0; k < n_samples; k++)
		run(samples[k].data, samples[k].size);
	time_t end = time(NULL) + seconds;
	for (; n_samples && (i < runs || (seconds && time(NULL) < end)); i++)
		run_damaged(seed, i);
	for (int k = 0; k < n_samples; k++)
		free(samples[k].data);
	free(samples);
	dprintf(STDOUT_FILENO, "%d files, %ld damaged inputs, %llu of both usable\n", n_samples, i,
		(unsigned long long)fuzz_usable);
	return 0;
}
