/* SPDX-License-Identifier: Apache-2.0
 *
 * unused.c - options on which the command acts and the library does not: a program that gives them
 * is told, and nothing is silent.
 */
#include <string.h>

#include "core/base/log.h"
#include "embed/engine.h"
#include "train/room.h"

/* 1: the value asks for something, and is not one that nobody gave. */
static int is_given(const struct zr_config *cfg, const char *section, const char *key, int asks)
{
	const char *from = zr_config_source(cfg, section, key);
	return asks && from && strcmp(from, "default") && strcmp(from, "auto") &&
	       strncmp(from, "defaults.ini", strlen("defaults.ini"));
}

void rank_say_unused(const struct rank *r)
{
	const struct zr_train_opts *t = r->t.setup->facts.train;
	const struct zr_checkpoint_opts *c = zr_config_find(r->t.cfg, "checkpoint")->opts;
	const struct zr_run_opts *run = zr_config_find(r->t.cfg, "run")->opts;

	const struct {
		const char *section, *key;
		int asks;
	} all[] = {
		{ "train", "eval_every", t->eval_every > 0 },
		{ "train", "eval_every_ratio", t->eval_every_ratio > 0 },
		{ "train", "patience", t->patience > 0 },
		{ "train", "best_by", *t->best_by },
		{ "checkpoint", "every", c->every > 0 },
		{ "checkpoint", "every_ratio", c->every_ratio > 0 },
		{ "checkpoint", "keep_best", c->keep_best },
		{ "checkpoint", "async", c->async },
		{ "checkpoint", "on_signal", c->on_signal },
		{ "run", "log_every", 1 },
		{ "run", "wall_clock_breakdown", run->wall_clock_breakdown },
		{ "run", "trace", *run->trace },
		{ "run", "rates", *run->rates },
		{ "log", "level", 1 },
		{ "zero", "gather_16bit_weights_on_model_save", zr_room_exports(r->t.cfg) },
	};
	char list[400] = "";
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		const size_t n = strlen(list);
		if (is_given(r->t.cfg, all[i].section, all[i].key, all[i].asks))
			snprintf(list + n, sizeof list - n, "%s[%s] %s", n ? ", " : "",
				 all[i].section, all[i].key);
	}

	if (*list && !r->t.setup->facts.process.rank)
		zr_logf(ZR_LOG_WARN, "zeroth",
			"left to the program, which evaluates, saves and logs when it wants to: %s",
			list);
}
