/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz.h - what the targets share. A target is a program that gives the bytes of an input to one
 * reader: an input is refused with one line of text, or what was read is usable. Anything else ends
 * the process: a signal, a sanitizer, fuzz_check().
 *
 * With --enable-fuzz libFuzzer makes the inputs, else replay.c: `make fuzz` is for the first, `make
 * check` runs a short slice of the second.
 */
#ifndef ZR_TESTS_FUZZ_H
#define ZR_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

#include "core/base/error.h"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t room);
/* of targets whose files have checksums */
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed);

/* Path of the file `name` with these bytes, in a directory of this process that goes when it ends.
 * Four paths are kept. */
const char *fuzz_file(const char *name, const void *data, size_t size);
const char *fuzz_dir(void);
/* The bytes of a file of the tree, with a 0 behind them; owned. */
char *fuzz_golden(const char *name, size_t *size);
const char *fuzz_golden_path(const char *name); /* the last one is kept */

/* Messages of what is tested go nowhere from now on. */
void fuzz_quiet(void);

#define fuzz_check(condition) ((condition) ? (void)0 : fuzz_failed(__FILE__, __LINE__, #condition))
void fuzz_failed(const char *file, int line, const char *what) __attribute__((noreturn));
/* A refusal is one line without control characters; returns 0. With FUZZ_TELL in the environment it
 * is printed. */
int fuzz_refused(const struct zr_error *err);

extern uint64_t fuzz_usable; /* inputs that were not refused */

#endif
