/* SPDX-License-Identifier: Apache-2.0
 *
 * oom.h - whether the kernel has killed a process of this group for memory.
 */
#ifndef ZR_TRAIN_RUN_OOM_H
#define ZR_TRAIN_RUN_OOM_H

/* How often that happened, as the control group of this process counts it; 0 if nothing counts.
 * root: "", or for tests a directory with proc and sys. */
long long zr_oom_kills(const char *root);

#endif
