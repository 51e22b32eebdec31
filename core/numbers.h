/* SPDX-License-Identifier: Apache-2.0
 *
 * numbers.h - single numbers of option values: the whole text must parse, in any locale, and be in range.
 */
#ifndef ZR_CORE_NUMBERS_H
#define ZR_CORE_NUMBERS_H

#include "core/options.h"

#define ZR_LIST_MAX 16 /* numbers in a list */

int zr_parse_f64(const struct zr_opt *o, const char *text, double *out, struct zr_error *err);
int zr_parse_i64(const struct zr_opt *o, const char *text, int64_t *out, struct zr_error *err);
int zr_parse_count(const struct zr_opt *o, const char *text, uint64_t *out, struct zr_error *err);
int zr_parse_bytes(const struct zr_opt *o, const char *text, uint64_t *out, struct zr_error *err);
int zr_parse_list(const struct zr_opt *o, const char *text, double *out, struct zr_error *err); /* o->width / 8 of them */
int zr_format_bytes(uint64_t v, char *out, size_t size);
int zr_check_range(const struct zr_opt *o, double v, struct zr_error *err);

#endif
