/* SPDX-License-Identifier: Apache-2.0
 *
 * inputs.h - the files that a training reads, each with a hash that tells it from others: the same
 * for the same bytes, whatever the file is called and wherever it lies. [main]
 */
#ifndef ZR_TRAIN_INPUTS_H
#define ZR_TRAIN_INPUTS_H

#include "core/setup.h"

/* Causes come before what follows from them: another tokenizer makes other data. */
enum { ZR_IN_PLUGIN, ZR_IN_CONFIG, ZR_IN_WEIGHTS, ZR_IN_TOKENIZER, ZR_IN_DATA, ZR_IN_KINDS };

struct zr_input_file {
	int kind;      /* ZR_IN_* */
	char *name;    /* owned; for messages */
	int64_t bytes; /* of data: as they are learned, so decompressed */
	/* of all bytes; unless all are asked for: of a file above 64 MiB, of its first MiB and of
	 * 64 blocks of 4 KiB; of data, what its plugin tells */
	uint64_t hash;
};

struct zr_inputs {
	struct zr_input_file *file; /* [n] in the order in which they are read */
	int32_t n, room;
	int whole; /* hashes are of all bytes, whatever the size; a line says each long one */
};

/* out->whole is set, all else of it is zero. ZR_EINVAL where a data plugin cannot hash all bytes
 * that are asked for. Files of the weights and tokenizers that cannot be used are left out: whoever
 * needs them says so. */
int zr_inputs_find(struct zr_setup *s, struct zr_inputs *out, struct zr_error *err);
void zr_inputs_free(struct zr_inputs *in); /* also after a failure */

#endif
