/* SPDX-License-Identifier: Apache-2.0
 *
 * doctor.h - what a machine has for training, and what of it hinders or slows a run. Looking and
 * judging are apart: a judgement depends on the facts alone. [main]
 */
#ifndef ZR_CMD_DOCTOR_H
#define ZR_CMD_DOCTOR_H

#include <jansson.h>
#include <limits.h>
#include <stdint.h>

#include "core/config/config.h"

#define ZR_DISKS     8
#define ZR_FINDINGS  64
#define ZR_UNLIMITED UINT64_MAX

struct zr_disk {
	char what[64];       /* "run.dir", "offload.optimizer.path" */
	char path[PATH_MAX]; /* a directory that exists, the one given or the nearest above it */
	char system[32];     /* "ext4" */
	int memory;          /* 1: a file system in memory */
	int no;              /* errno of making a file there; 0: that works */
	int direct;          /* 1: O_DIRECT works */
	uint64_t free;       /* bytes that this user may take */
	double read, write;  /* bytes per second, a block after the other; 0: not measured */
};

struct zr_machine {
	char cpu[128], sets[128];   /* its name; what it has of avx2, avx512f, ... */
	int processors;             /* that this process may use */
	double quota;               /* processors that its control group allows; 0: no limit */
	uint64_t memory, available; /* bytes */
	/* soft limits of this process, ZR_UNLIMITED without: bytes, descriptors, bytes, bytes */
	uint64_t locked, files, file_size, addresses;
	int may_lock;           /* 1: locked memory is not limited for this process */
	uint64_t shm, shm_free; /* bytes of /dev/shm; 0: it has none */
	int overcommit;         /* vm.overcommit_memory; -1: not known */
	char huge_pages[16];    /* "always", "madvise", "never"; "": not known */
	int io_uring;           /* errno of setting one up; 0: that works */
	int ptrace_scope;       /* kernel.yama.ptrace_scope; -1: there is none */
	int n_disks;
	struct zr_disk disk[ZR_DISKS];
	char mpi[160], cuda[512], nccl[64];                         /* "": not found */
	char mpi_missing[64], cuda_missing[512], nccl_missing[256]; /* why */
	json_t *plugins;              /* as `zeroth plugin list --json`; owned */
	char device[64], variant[64]; /* of [device]: its name, what its results depend on */
	/* why the configuration, or that of the defaults, cannot run here; "": it can */
	char refused[1100];
};

#define ZR_HINDERS 2 /* a run */
#define ZR_SLOWS   1 /* or limits what it can do */
struct zr_finding {
	int weight;
	char text[1400]; /* one line */
	char mend[400];  /* a command, or what to do; "": text says it */
};
struct zr_findings {
	int n;
	struct zr_finding at[ZR_FINDINGS];
};

/* look.c, disk.c, libraries.c: fill their members. */
void zr_look_processor(struct zr_machine *m);
void zr_look_limits(struct zr_machine *m);
/* Adds a disk. rates: whether to measure how fast it is, with a file of 32 MiB for a moment. */
void zr_look_disk(struct zr_machine *m, const char *what, const char *path, int rates);
void zr_look_libraries(struct zr_machine *m);
void zr_machine_free(struct zr_machine *m);

/* judge.c */
void zr_judge(const struct zr_machine *m, struct zr_findings *out);

#endif
