/* SPDX-License-Identifier: Apache-2.0
 *
 * activity.c - when every kernel, copy and memset of a process ran, by CUPTI, which makes none of
 * them wait for another. CUDA loads this library into a process whose environment names it in
 * CUDA_INJECTION64_PATH. Each one is a line of the file $ZR_ACTIVITY.PID, "BEGIN END NAME" in ns,
 * as soon as CUPTI hands it over: within a tenth of a second, for SIGKILL ends a training.
 */
#include <cupti.h>

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define ROOM  (1u << 18) /* bytes of a buffer, which is handed over once all in it has ended */
#define EVERY 100        /* ms */

static FILE *out;
static __typeof__(cuptiActivityGetNextRecord) *next_record;

static void CUPTIAPI give_room(uint8_t **buffer, size_t *size, size_t *most)
{
	*buffer = aligned_alloc(8, ROOM);
	*size = *buffer ? ROOM : 0;
	*most = 0;
}

static void line(uint64_t began, uint64_t ended, const char *name)
{
	fprintf(out, "%llu %llu %s\n", (unsigned long long)began, (unsigned long long)ended, name);
}

static void write_record(const CUpti_Activity *r)
{
	const CUpti_ActivityKernel10 *kernel = (const void *)r;
	const CUpti_ActivityMemcpy6 *copy = (const void *)r;
	const CUpti_ActivityMemset4 *set = (const void *)r;

	if (r->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
		line(kernel->start, kernel->end, kernel->name);
	else if (r->kind == CUPTI_ACTIVITY_KIND_MEMCPY)
		line(copy->start, copy->end, "copy");
	else if (r->kind == CUPTI_ACTIVITY_KIND_MEMSET)
		line(set->start, set->end, "memset");
}

static void CUPTIAPI write_all(CUcontext context, uint32_t stream, uint8_t *buffer, size_t size,
			       size_t valid)
{
	CUpti_Activity *r = NULL;
	(void)context;
	(void)stream;
	(void)size;
	while (out && valid && next_record(buffer, valid, &r) == CUPTI_SUCCESS)
		write_record(r);
	if (out)
		fflush(out);
	free(buffer);
}

/* Returns 0 or what failed. */
static const char *start(void)
{
	static const CUpti_ActivityKind kinds[] = { CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
						    CUPTI_ACTIVITY_KIND_MEMCPY,
						    CUPTI_ACTIVITY_KIND_MEMSET };
	__typeof__(cuptiActivityRegisterCallbacks) *take_callbacks;
	__typeof__(cuptiActivityEnable) *enable;
	__typeof__(cuptiActivityFlushPeriod) *flush_every;
	char name[32];
	void *cupti;

	snprintf(name, sizeof name, "libcupti.so.%d", CUDA_VERSION / 1000);
	cupti = dlopen(name, RTLD_NOW);
	if (!cupti)
		return dlerror();
	*(void **)&take_callbacks = dlsym(cupti, "cuptiActivityRegisterCallbacks");
	*(void **)&enable = dlsym(cupti, "cuptiActivityEnable");
	*(void **)&flush_every = dlsym(cupti, "cuptiActivityFlushPeriod");
	*(void **)&next_record = dlsym(cupti, "cuptiActivityGetNextRecord");
	if (!take_callbacks || !enable || !flush_every || !next_record)
		return "CUPTI lacks a function";
	if (take_callbacks(give_room, write_all))
		return "CUPTI takes no callbacks";
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
		if (enable(kinds[i]))
			return "CUPTI does not record this GPU";
	return flush_every(EVERY) ? "CUPTI does not hand records over by itself" : NULL;
}

__attribute__((visibility("default"))) int InitializeInjection(void)
{
	const char *path = getenv("ZR_ACTIVITY"), *failed;
	char name[4096];

	if (!path)
		return 1;
	snprintf(name, sizeof name, "%s.%d", path, (int)getpid());
	out = fopen(name, "w");
	failed = out ? start() : "cannot be written";
	if (failed)
		fprintf(stderr, "activity.so: %s: %s\n", name, failed);
	return 1;
}
