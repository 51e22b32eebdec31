/* SPDX-License-Identifier: Apache-2.0
 *
 * ckpt_fixture.h - a manifest made by hand, for tests of the format: two units, four tensors, two
 * optimizers.
 */
#ifndef ZR_TESTS_CKPT_FIXTURE_H
#define ZR_TESTS_CKPT_FIXTURE_H

#include "files/checkpoint/dir.h"

/* Files of `world` ranks, whose sizes and hashes are made up. */
void ckpt_manifest(struct zr_manifest *m, int32_t world);
void ckpt_manifest_free(struct zr_manifest *m);

/* Gives a manifest's text the checksum of what it has become. */
void ckpt_sign(char *text, size_t bytes);

/* Writes a whole checkpoint of that manifest into dir/step-..., with values made of the place. */
int ckpt_write(const char *dir, struct zr_manifest *m, struct zr_error *err);

#endif
