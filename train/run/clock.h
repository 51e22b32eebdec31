/* SPDX-License-Identifier: Apache-2.0
 *
 * clock.h - when a device that computes later than it is told to did what a step asked of it. Marks
 * on its compute stream stand around each instruction; they are read once it has passed them,
 * without waiting for it. [step] but for open and close
 *
 * The device's clock is set by the host's: nothing is passed before the host asks for it, and what
 * it asks for while the device has nothing to do, as behind each boundary, is passed at once. So
 * the mark that came soonest after it was asked for, of the last two readings, says how far the
 * clocks are apart.
 *
 * While the device computes nothing, the host may be late: then what it did meanwhile is the reason
 * (zr_clock_did). If it had asked for what comes next already, that is the device's own.
 */
#ifndef ZR_TRAIN_RUN_CLOCK_H
#define ZR_TRAIN_RUN_CLOCK_H

#include "core/plugin/host.h"
#include "train/forecast/breakdown.h"

struct zr_clock;

/* What was between a mark and the one before it. */
enum zr_clock_between {
	ZR_CLOCK_NO_STEP,
	ZR_CLOCK_NOTHING, /* no instruction */
	ZR_CLOCK_RANKS,   /* the compute stream waited for ranks */
	ZR_CLOCK_COMPUTED
};

struct zr_clock_mark {
	enum zr_clock_between between;
	uint8_t part;   /* of what was computed, or waited for */
	uint8_t update; /* 1: that was in an update */
};

/* Whether a device has such marks. [main] */
int zr_clock_has(const struct zr_instance *device);
/* What there is room for. */
struct zr_clock_room {
	int64_t marks, did; /* of two steps: marks, and what the host did */
	int64_t copies;     /* marks of copies, which have numbers of their own from 0 on */
};

int zr_clock_open(struct zr_instance *device, const struct zr_clock_room *room,
		  struct zr_clock **out, struct zr_error *err); /* [main] */
void zr_clock_close(struct zr_clock *c);                        /* NULL is fine */

/* Marks where the compute stream is, at `now` of zr_now(): the number of the mark, from 1 on; 0:
 * the device failed, which its next operation says. */
uint64_t zr_clock_mark(struct zr_clock *c, struct zr_clock_mark what, double now);
/* What the host did until `now`, since the call before. */
void zr_clock_did(struct zr_clock *c, enum zr_operand_part part, double now);
/* Copies that start from now on pass marks `copy` and `copy` + 1; -1: none. */
void zr_clock_copies(struct zr_clock *c, int64_t copy);

/* All that has been passed since the last reading is added, in seconds; update: of it, in
 * updates. */
void zr_clock_read(struct zr_clock *c, struct zr_parts *add, double *update);
/* zr_now() when a mark was passed, as far as it has been read and is among the latest; NaN: not so.
 * Of a mark of copies, likewise. */
double zr_clock_passed(const struct zr_clock *c, uint64_t mark);
double zr_clock_copied(const struct zr_clock *c, int64_t copy);

#endif
