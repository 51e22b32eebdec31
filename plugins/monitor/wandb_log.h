/* SPDX-License-Identifier: Apache-2.0
 *
 * wandb_log.h - the file run-*.wandb: a log of records in blocks of 32 KiB, as LevelDB's
 * (github.com/google/leveldb/blob/main/doc/log_format.md), with the CRC-32 of zlib and 7 bytes in
 * front.
 */
#ifndef ZR_MONITOR_WANDB_LOG_H
#define ZR_MONITOR_WANDB_LOG_H

#include "message.h"
#include "output.h"

#define WANDB_RECORD_ROOM 65536 /* bytes of the longest record */

struct wandb_log {
	struct output out;
	struct crc crc;
	uint8_t head[16];
};

int wandb_log_begin(struct wandb_log *l); /* of a file without a byte */
int wandb_log_append(struct wandb_log *l, const uint8_t *record, size_t bytes);

/* Calls keep(arg, record, bytes) for each whole record; cuts the file in front of the first for
 * which it returns 0, or that is damaged. room: [WANDB_RECORD_ROOM]. */
int wandb_log_cut(struct wandb_log *l, uint8_t *room,
		  int (*keep)(void *arg, const uint8_t *record, size_t bytes), void *arg);

#endif
