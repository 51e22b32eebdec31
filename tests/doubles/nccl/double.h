/* SPDX-License-Identifier: Apache-2.0
 *
 * double.h - comm/nccl where no GPU is: a double of what it calls of the CUDA runtime and of NCCL,
 * on host memory, between processes or threads. A stream is a thread that takes tasks from a queue;
 * an event is a number that a task writes. Ranks meet in files of shared memory, where each pair of
 * them has a box for what is on its way.
 *
 * What counts as memory of a GPU: what cudaMalloc gave, what the double of cards hides, and, with
 * ZR_DOUBLE_MEMORY=device, all. Compiled together with the plugin's own files.
 */
#ifndef ZR_DOUBLE_H
#define ZR_DOUBLE_H

#include <cuda_runtime_api.h>

#define DOUBLE_TASK 64 /* bytes of an argument at most */

/* fn(arg) when the stream has done what it was given before; arg is copied. */
cudaError_t double_enqueue(cudaStream_t s, void (*fn)(void *), const void *arg, size_t bytes);

/* Ends the process if any of the memory is registered with a communicator. */
void double_check_freed(const void *p, size_t bytes);

/* Where the bytes lie that an address of a GPU names. */
void *double_real(const void *p);

#endif
