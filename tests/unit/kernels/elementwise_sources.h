/* SPDX-License-Identifier: Apache-2.0
 *
 * elementwise_sources.h - the sources for NVRTC that tests compile: texts on states of some types.
 */
#ifndef ZR_TESTS_ELEMENTWISE_SOURCES_H
#define ZR_TESTS_ELEMENTWISE_SOURCES_H

#include "tests/unit/device/elementwise_texts.h"

struct source {
	const char *name;
	const struct text *text;
	int32_t types[ZR_ELEMENTWISE_STATES], lowp;
};

/* SOURCE(name, text, lowp, types...) */
#define SOURCES(SOURCE) \
	SOURCE(adamw_fp32, text_adamw, ZR_BF16, ZR_F32, ZR_F32) \
	SOURCE(adamw_bf16, text_adamw, ZR_F32, ZR_BF16, ZR_BF16) \
	SOURCE(adamw_8bit, text_adamw, ZR_F16, 0, 0) \
	SOURCE(lamb_fp32, text_lamb, ZR_BF16, ZR_F32, ZR_F32) \
	SOURCE(lamb_8bit, text_lamb, 0, 0, 0) \
	SOURCE(words, text_random, 0, 0) \
	SOURCE(many, text_many, ZR_F16, ZR_F32, ZR_BF16, 0, ZR_F16, 0, 0, ZR_F32, 0)

#define ROW(name, text, lowp, ...) { #name, &text, { __VA_ARGS__ }, lowp },
static const struct source sources[] = { SOURCES(ROW) };
#define N_SOURCES ((int)(sizeof sources / sizeof *sources))

#endif
