/* SPDX-License-Identifier: Apache-2.0
 *
 * progress.c - see progress.h.
 */
#define _GNU_SOURCE
#include "cmd/progress.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cmd/fit.h"
#include "cmd/signals.h"
#include "core/log.h"

#define REDRAW 0.1 /* seconds between redraws of the live line */

uint64_t zr_process_memory(void)
{
	char buf[128];
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return 0;
	ssize_t n = read(fd, buf, sizeof buf - 1);
	close(fd);
	if (n <= 0)
		return 0;
	buf[n] = 0;
	char *second = strchr(buf, ' ');
	return second ? strtoull(second, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

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

void zr_progress_begin(struct zr_progress *p, FILE *out, const struct zr_setup *s, uint64_t every)
{
	*p = (struct zr_progress){ .out = out,
				   .tty = isatty(fileno(out)),
				   .total = (int64_t)s->train->steps,
				   .every = every ? (int64_t)every : 1,
				   .device_bytes = s->plan.arena[ZR_STORE_DEVICE],
				   .unified = s->device_info.unified != 0,
				   .scaled = s->types.scaled };
	p->start = p->last = zr_now();
}

static void rate_text(double per_s, char buf[32])
{
	if (per_s >= 1e6)
		snprintf(buf, 32, "%.2fM", per_s / 1e6);
	else if (per_s >= 1e3)
		snprintf(buf, 32, "%.1fk", per_s / 1e3);
	else
		snprintf(buf, 32, "%.0f", per_s);
}

#define LINE 384

static void compose(const struct zr_progress *p, char line[LINE], int64_t step,
		    const struct zr_step_result *r)
{
	char rate[32], mem[32], dev[32], eta[32], val[32] = "", scale[32] = "", tiers[80];
	if (p->have_val)
		snprintf(val, sizeof val, "  val %.4f", p->val_loss);
	if (p->scaled)
		snprintf(scale, sizeof scale, "  scale %.10g", r->scale);
	rate_text(p->tokens_per_s, rate);
	zr_bytes_text(zr_process_memory(), mem);
	if (p->unified)
		snprintf(tiers, sizeof tiers, "host %s", mem);
	else
		snprintf(tiers, sizeof tiers, "device %s host %s",
			 zr_bytes_text(p->device_bytes, dev), mem);
	zr_duration_text(p->ema * (double)(p->total - step), eta);
	snprintf(line, LINE,
		 "step %lld/%lld  loss %.4f%s  lr %.2e  |g| %.3f%s  %s tok/s  %s  ETA %s",
		 (long long)step, (long long)p->total, (double)r->loss, val, r->lr, r->grad_norm,
		 scale, rate, tiers, eta);
}

/* The same in 80 columns, with the memory of the first tier only. */
static void compose_narrow(const struct zr_progress *p, char line[LINE], int64_t step,
			   const struct zr_step_result *r)
{
	char rate[32], mem[32], eta[32], val[32] = "", scale[32] = "";
	if (p->have_val)
		snprintf(val, sizeof val, " val %.3f", p->val_loss);
	if (p->scaled)
		snprintf(scale, sizeof scale, " x%.3g", r->scale);
	rate_text(p->tokens_per_s, rate);
	zr_bytes_text(p->unified ? zr_process_memory() : p->device_bytes, mem);
	zr_duration_text(p->ema * (double)(p->total - step), eta);
	snprintf(line, LINE, "%lld/%lld loss %.3f%s lr %.1e |g| %.3g%s %s/s %s ETA %s",
		 (long long)step, (long long)p->total, (double)r->loss, val, r->lr, r->grad_norm,
		 scale, rate, mem, eta);
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
	p->tokens_per_s = took > 0 ? (double)r->tokens / took : 0;
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

void zr_progress_eval(struct zr_progress *p, int64_t step, const char *name, double loss,
		      double accuracy)
{
	char at[32];
	zr_duration_text(zr_now() - p->start, at);
	if (p->tty)
		zr_log_live(p->out, NULL);
	if (*name) {
		fprintf(p->out, "step %lld  eval %s loss %.4f  accuracy %.2f %%  after %s\n",
			(long long)step, name, loss, 100 * accuracy, at);
	} else {
		p->val_loss = loss;
		p->have_val = 1;
		fprintf(p->out, "step %lld  validation loss %.4f  after %s\n", (long long)step,
			loss, at);
	}
	zr_signals_flush(p->out);
	p->last = zr_now(); /* an evaluation is not part of a step's time */
}

void zr_progress_end(struct zr_progress *p)
{
	if (p->tty)
		zr_log_live(p->out, NULL);
}
