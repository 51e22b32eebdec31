/* SPDX-License-Identifier: Apache-2.0
 *
 * judge.c - from facts to findings, with the command that mends each.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "doctor.h"
#include "train/fit.h"

#define LOCKED_LEAST (64ull << 20)  /* bytes of buffers that GPUs pin */
#define SHM_LEAST    (64ull << 20)  /* that MPI and NCCL take between a few ranks */
#define MEMORY_LEAST (512ull << 20) /* that the smallest runs take with their ranks */
#define FREE_LEAST   (64ull << 20)  /* for the weights and metrics of a small run */
#define FREE_SMALL   (4ull << 30)
#define FILES_LEAST  64
#define FILES_SMALL  1024

static struct zr_finding *found(struct zr_findings *out, int weight, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static struct zr_finding *found(struct zr_findings *out, int weight, const char *fmt, ...)
{
	struct zr_finding *f = &out->at[out->n < ZR_FINDINGS ? out->n++ : ZR_FINDINGS - 1];
	va_list ap;

	*f = (struct zr_finding){ .weight = weight };
	va_start(ap, fmt);
	vsnprintf(f->text, sizeof f->text, fmt, ap);
	va_end(ap);
	return f;
}

static void mend(struct zr_finding *f, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void mend(struct zr_finding *f, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	vsnprintf(f->mend, sizeof f->mend, fmt, ap);
	va_end(ap);
}

static void judge_memory(const struct zr_machine *m, struct zr_findings *out)
{
	char a[32], b[32];

	if (m->available < MEMORY_LEAST)
		mend(found(out, ZR_SLOWS, "only %s of memory are available",
			   zr_bytes_text(m->available, a)),
		     "end other processes, or raise the limit of the control group (docker run "
		     "--memory)");
	if (m->quota > 0 && m->quota + 0.01 < m->processors)
		mend(found(out, ZR_SLOWS,
			   "the control group allows %.2g of the %d processors, "
			   "so that as many threads wait for each other",
			   m->quota, m->processors),
		     "zeroth train -o device.threads=%d, or raise its cpu.max (docker run --cpus)",
		     m->quota < 1 ? 1 : (int)m->quota);
	if (m->overcommit == 2)
		mend(found(out, ZR_SLOWS,
			   "vm.overcommit_memory is 2: memory that is reserved but "
			   "never touched counts, and a run may be refused what it needs"),
		     "sysctl vm.overcommit_memory=0");
	if (m->addresses != ZR_UNLIMITED)
		mend(found(out, m->addresses < m->memory ? ZR_SLOWS : 0,
			   "addresses are limited to "
			   "%s, which memory that is mapped twice counts against",
			   zr_bytes_text(m->addresses, b)),
		     "ulimit -v unlimited");
	if (!strcmp(m->huge_pages, "never"))
		mend(found(out, ZR_SLOWS,
			   "transparent huge pages are off: updates of large models "
			   "are slower"),
		     "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled");
}

static void judge_limits(const struct zr_machine *m, struct zr_findings *out)
{
	char a[32];

	if (m->files < FILES_SMALL)
		mend(found(out, m->files < FILES_LEAST ? ZR_HINDERS : ZR_SLOWS,
			   "a process may open %llu files", (unsigned long long)m->files),
		     "ulimit -n 4096");
	if (m->file_size != ZR_UNLIMITED)
		mend(found(out, m->file_size < FREE_LEAST ? ZR_HINDERS : ZR_SLOWS,
			   "files are limited to %s: larger weights and checkpoints fail",
			   zr_bytes_text(m->file_size, a)),
		     "ulimit -f unlimited");
	if (!m->may_lock && m->locked < LOCKED_LEAST)
		mend(found(out, ZR_SLOWS,
			   "locked memory is limited to %s: buffers of GPUs "
			   "cannot be pinned, which makes transfers slower",
			   zr_bytes_text(m->locked, a)),
		     "ulimit -l unlimited (for all: memlock in /etc/security/limits.conf; docker "
		     "run --ulimit memlock=-1)");
	if (m->shm_free < SHM_LEAST)
		mend(found(out, ZR_SLOWS,
			   "/dev/shm has %s free: MPI and NCCL may fail between "
			   "ranks of this machine; comm/local does not need it",
			   zr_bytes_text(m->shm_free, a)),
		     "mount -o remount,size=2G /dev/shm (docker run --shm-size=2g)");
	if (m->io_uring)
		mend(found(out, ZR_SLOWS,
			   "io_uring is not allowed (%s): offload/nvme does one "
			   "request at a time",
			   strerror(m->io_uring)),
		     m->io_uring == ENOSYS ? "a kernel of 5.1 or later" :
					     "sysctl kernel.io_uring_disabled=0 (docker run "
					     "--security-opt seccomp=unconfined)");
	if (m->ptrace_scope > 0)
		mend(found(out, ZR_SLOWS,
			   "kernel.yama.ptrace_scope is %d: comm/local copies twice "
			   "what is not in its own memory",
			   m->ptrace_scope),
		     "sysctl kernel.yama.ptrace_scope=0");
}

static void judge_disk(const struct zr_disk *d, struct zr_findings *out)
{
	char a[32];
	const int stores = !strncmp(d->what, "offload.", 8);

	if (d->no) {
		mend(found(out, ZR_HINDERS, "%s: nothing can be written to %s: %s", d->what,
			   d->path, strerror(d->no)),
		     "-o %s=DIR with a directory of yours", d->what);
		return;
	}

	if (d->free < FREE_SMALL)
		mend(found(out, d->free < FREE_LEAST ? ZR_HINDERS : ZR_SLOWS, "%s: %s has %s free",
			   d->what, d->path, zr_bytes_text(d->free, a)),
		     "-o %s=DIR on a larger disk, or remove what is not needed (zeroth checkpoint "
		     "prune)",
		     d->what);
	if (stores && d->memory)
		mend(found(out, ZR_SLOWS, "%s: %s is %s, which is memory and no disk", d->what,
			   d->path, d->system),
		     "-o %s=DIR on a disk", d->what);
	else if (stores && !d->direct)
		mend(found(out, ZR_SLOWS,
			   "%s: %s (%s) has no O_DIRECT: what is offloaded fills "
			   "the page cache",
			   d->what, d->path, d->system),
		     "-o %s=DIR on ext4 or xfs", d->what);
}

static const char *text_of(const json_t *j, const char *key)
{
	const char *text = json_string_value(json_object_get(j, key));
	if (text)
		return text;
	return "";
}

static void judge_plugins(const struct zr_machine *m, struct zr_findings *out)
{
	size_t i;
	json_t *j;

	if (!json_array_size(m->plugins))
		mend(found(out, ZR_HINDERS, "there are no plugins"),
		     "make install, or ZEROTH_PLUGIN_PATH=DIR with the directory that has them");
	json_array_foreach(m->plugins, i, j) if (json_object_get(j, "error"))
		found(out, ZR_SLOWS, "%s/%s cannot be used: %s", text_of(j, "role"),
		      text_of(j, "id"), text_of(j, "error"));
}

void zr_judge(const struct zr_machine *m, struct zr_findings *out)
{
	out->n = 0;
	if (*m->refused)
		found(out, ZR_HINDERS, "%s", m->refused);
	judge_plugins(m, out);
	judge_memory(m, out);
	judge_limits(m, out);
	for (int i = 0; i < m->n_disks; i++)
		judge_disk(&m->disk[i], out);
}
