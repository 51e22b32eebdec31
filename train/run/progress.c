/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c - see progress.h.
 */
#include "train/run/progress.h"

#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "core/base/log.h"
#include "train/fit.h"
#include "train/run/signals.h"

#define REDRAW 0.1 /* seconds between redraws of the live line */

const char *zr_duration_text(double seconds, char buf[32])
{
	long s = (long)(seconds + 0.5);
	if (s < 60)
		snprintf(buf, 32, "%lds", s);
	else if (s < 3600)
		snprintf(buf, 32, "%ldm%02lds", s / 60, s % 60);
	else
		snprintf(buf, 32, "%ldh%02ldm", s / 3600, s / 60 % 60);
	return buf;
}

void zr_progress_begin(struct zr_progress *p, FILE *out, const struct zr_setup *s,
		       const struct zr_pace *pace, uint64_t every)
{
	*p = (struct zr_progress){ .out = out,
				   .tty = isatty(fileno(out)),
				   .total = (int64_t)s->facts.train->steps,
				   .every = every ? (int64_t)every : 1,
				   .pace = pace,
				   .scaled = s->facts.types.scaled,
				   .qk_clip = s->facts.train->qk_clip };
	const struct zr_checkpoint_opts *save = zr_config_find(s->cfg, "checkpoint")->opts;
	p->pause[ZR_PAUSE_EVAL].every = (int64_t)s->facts.train->eval_every;
	p->pause[ZR_PAUSE_SAVE].every = (int64_t)save->every;
	p->last = zr_now();
}

static const char *count_text(double n, char buf[32])
{
	static const char letter[] = " kMGT";
	int i = 0;

	for (; n >= 1000 && i < 4; i++)
		n /= 1000;
	if (i)
		snprintf(buf, 32, "%.*f%c", i == 1 ? 1 : 2, n, letter[i]);
	else
		snprintf(buf, 32, "%.0f", n);
	return buf;
}

static double rate(const struct zr_pace *p)
{
	return p->smooth > 0 ? (double)p->step_tokens / p->smooth : 0;
}

/* Factor from the share of a limit that the last step reached to the share that the steps reached
 * of which rate() is the mean. */
static double recent(const struct zr_pace *p)
{
	return p->smooth > 0 ? p->seconds / p->smooth : 1;
}

/* Seconds that are left, with what comes after this step. */
static double left(const struct zr_progress *p, int64_t step)
{
	double sum = p->ema * (double)(p->total - step);

	for (const struct zr_pause *q = p->pause; q < p->pause + ZR_PAUSES; q++)
		if (q->every > 0)
			sum += q->seconds * (double)(p->total / q->every - (step - 1) / q->every +
						     (p->total % q->every != 0));
	return sum;
}

#define LINE 512

/* How close to the machine's limits: "  mfu 41 %  of products 63 %  of possible 87 % (store)". */
static void limits_text(const struct zr_pace *p, char *out, size_t size)
{
	int n = 0;

	*out = 0;
	if (isfinite(p->mfu))
		n += snprintf(out + n, size - (size_t)n, "  mfu %.0f %%", 100 * p->mfu * recent(p));
	if (isfinite(p->mfu_product))
		n += snprintf(out + n, size - (size_t)n, "  of products %.0f %%",
			      100 * p->mfu_product * recent(p));
	if (isfinite(p->possible))
		snprintf(out + n, size - (size_t)n, "  of possible %.0f %% (%s)",
			 100 * p->possible * recent(p), p->binding ? p->binding : "?");
}

/* The largest score of a step, and how many heads its update scaled down:
 * "  score 131.2 (3 heads clipped)". */
static void score_text(const struct zr_progress *p, const struct zr_step_result *r, char *out,
		       size_t size)
{
	int n = 0;

	*out = 0;
	if (p->qk_clip)
		n = snprintf(out, size, "  score %.4g", r->max_score);
	if (p->qk_clip && r->clipped_heads)
		snprintf(out + n, size - (size_t)n, " (%lld head%s clipped)",
			 (long long)r->clipped_heads, r->clipped_heads > 1 ? "s" : "");
}

static void compose(const struct zr_progress *p, char line[LINE], int64_t step,
		    const struct zr_step_result *r)
{
	const struct zr_pace *pace = p->pace;
	char speed[32], mem[32], dev[32], eta[32], past[32], tokens[32], limits[128];
	char val[32] = "", scale[32] = "", epoch[32] = "", tiers[80], score[64];

	if (p->have_val)
		snprintf(val, sizeof val, "  val %.4f", p->val_loss);
	if (p->scaled)
		snprintf(scale, sizeof scale, "  scale %.10g", r->scale);
	if (isfinite(pace->epoch))
		snprintf(epoch, sizeof epoch, "  epoch %.3g", pace->epoch);
	zr_bytes_text(zr_process_memory(), mem);
	if (!pace->device_bytes)
		snprintf(tiers, sizeof tiers, "host %s", mem);
	else
		snprintf(tiers, sizeof tiers, "device %s host %s",
			 zr_bytes_text(pace->device_bytes, dev), mem);
	limits_text(pace, limits, sizeof limits);
	score_text(p, r, score, sizeof score);
	snprintf(line, LINE,
		 "step %lld/%lld  loss %.4f%s  lr %.2e  |g| %.3f%s%s  %s tok/s%s  %s  "
		 "%s tokens%s  %s  ETA %s",
		 (long long)step, (long long)p->total, (double)r->loss, val, r->lr, r->grad_norm,
		 scale, score, count_text(rate(pace), speed), limits, tiers,
		 count_text((double)pace->tokens, tokens), epoch,
		 zr_duration_text(zr_pace_elapsed(pace), past),
		 zr_duration_text(left(p, step), eta));
}

/* The same in 80 columns: instead of the memory of the first tier, how close to the limit. */
static void compose_narrow(const struct zr_progress *p, char line[LINE], int64_t step,
			   const struct zr_step_result *r)
{
	const struct zr_pace *pace = p->pace;
	char speed[32], mem[32], eta[32], val[32] = "", scale[32] = "";
	double of = (isfinite(pace->possible) ? pace->possible : pace->mfu) * recent(pace);

	if (p->have_val)
		snprintf(val, sizeof val, " val %.3f", p->val_loss);
	if (p->scaled)
		snprintf(scale, sizeof scale, " x%.3g", r->scale);
	if (isfinite(of))
		snprintf(mem, sizeof mem, "%s %.0f%%",
			 isfinite(pace->possible) ? "possible" : "mfu", 100 * of);
	else
		zr_bytes_text(pace->device_bytes ? pace->device_bytes : zr_process_memory(), mem);
	snprintf(line, LINE, "%lld/%lld loss %.3f%s lr %.1e |g| %.3g%s %s/s %s ETA %s",
		 (long long)step, (long long)p->total, (double)r->loss, val, r->lr, r->grad_norm,
		 scale, count_text(rate(pace), speed), mem, zr_duration_text(left(p, step), eta));
}

static void draw(const struct zr_progress *p, char line[LINE], int64_t step,
		 const struct zr_step_result *r)
{
	struct winsize w;

	size_t columns = !ioctl(fileno(p->out), TIOCGWINSZ, &w) && w.ws_col > 1 ? w.ws_col : LINE;
	if (strlen(line) >= columns)
		compose_narrow(p, line, step, r);
	if (columns < LINE)
		line[columns - 1] = 0;
	zr_log_live(p->out, line);
}

void zr_progress_step(struct zr_progress *p, int64_t step, const struct zr_step_result *r)
{
	char line[LINE];
	double now = zr_now(), took = now - p->last;

	p->last = now;
	p->ema = p->ema > 0 ? 0.9 * p->ema + 0.1 * took : took;
	int last = step == p->total;
	if (p->tty ? now - p->last_drawn < REDRAW && !last : step % p->every && step != 1 && !last)
		return;

	p->last_drawn = now;
	compose(p, line, step, r);
	if (p->tty)
		draw(p, line, step, r);
	else
		fprintf(p->out, "%s\n", line);
	zr_signals_flush(p->out);
}

void zr_progress_parts(struct zr_progress *p, int64_t step, const struct zr_parts *part)
{
	double all = 0;

	p->parts_of++;
	for (int i = 0; i < ZR_PARTS; i++)
		all += p->parts.of[i] += part->of[i];
	p->parts.idle += part->idle;
	if (step % p->every && step != 1 && step != p->total)
		return;
	if (p->tty)
		zr_log_live(p->out, NULL);
	fprintf(p->out, "step %lld  %.4g s:", (long long)step, all / (double)p->parts_of);
	for (int i = 0; i < ZR_PARTS; i++)
		if (all > 0 && p->parts.of[i] >= 0.0005 * all)
			fprintf(p->out, "  %s %.1f %%", zr_part_name[i],
				100 * p->parts.of[i] / all);
	if (all > 0 && isfinite(p->parts.idle))
		fprintf(p->out, ";  no kernel ran in %.1f %%", 100 * p->parts.idle / all);
	fputc('\n', p->out);
	zr_signals_flush(p->out);
	p->parts = (struct zr_parts){ 0 };
	p->parts_of = 0;
}

void zr_progress_round(struct zr_progress *p, int64_t done, int64_t all)
{
	char line[LINE];

	double now = zr_now();
	if (!p->tty || now - p->last_drawn < REDRAW)
		return;

	p->last_drawn = now;
	snprintf(line, sizeof line, "evaluating %lld/%lld", (long long)done, (long long)all);
	zr_log_live(p->out, line);
}

void zr_progress_eval(struct zr_progress *p, int64_t step, const char *name,
		      const struct zr_eval_result *r)
{
	char at[32];

	zr_duration_text(zr_pace_elapsed(p->pace), at);
	if (p->tty)
		zr_log_live(p->out, NULL);
	if (*name) {
		fprintf(p->out, "step %lld  eval %s loss %.4f  accuracy %.2f %%  after %s\n",
			(long long)step, name, r->loss, 100 * r->accuracy, at);
	} else {
		p->val_loss = r->loss;
		p->have_val = 1;
		fprintf(p->out, "step %lld  validation loss %.4f  perplexity %.4g", (long long)step,
			r->loss, exp(r->loss));
		if (r->bytes > 0)
			fprintf(p->out, "  %.4f bits per byte", zr_eval_per_byte(r));
		fprintf(p->out, "  after %s\n", at);
	}

	zr_signals_flush(p->out);
}

void zr_progress_pause(struct zr_progress *p, int which)
{
	double now = zr_now();
	p->pause[which].seconds = now - p->last;
	p->last = now; /* it is not part of a step's time */
}

void zr_progress_end(struct zr_progress *p)
{
	if (p->tty)
		zr_log_live(p->out, NULL);
}
