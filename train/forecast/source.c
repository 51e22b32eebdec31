/* SPDX-License-Identifier: Apache-2.0
 *
 * source.c - see source.h.
 */
#include "train/forecast/source.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int open_card(const char *card, const char *path, struct zr_rate_source *out,
		     struct zr_error *err)
{
	struct zr_rates better = { 0 };
	int rc = zr_card_rates(card, &out->rates, err);
	if (rc)
		return rc;

	zr_card_by(card, out->by, sizeof out->by);
	if (!path)
		return 0;

	rc = zr_rates_read(path, &better, err);
	if (!rc)
		rc = zr_rates_replace(&out->rates, &better, err);
	const size_t used = strlen(out->by);
	snprintf(out->by + used, sizeof out->by - used, ", but for the rates of %.200s", path);
	zr_rates_free(&better);
	return rc;
}

int zr_rate_source_open(const char *path, const char *card, const struct zr_config *cfg,
			struct zr_rate_source *out, struct zr_error *err)
{
	const struct zr_run_opts *run = zr_config_find(cfg, "run")->opts;
	char own[PATH_MAX];
	struct zr_error unused = { 0 };
	int rc = 0;

	*out = (struct zr_rate_source){ 0 };
	if (!card && !path && *run->rates)
		path = run->rates;

	if (card) {
		rc = open_card(card, path, out, err);
		out->known = !rc;
	} else if (path || (!zr_rates_path(own, &unused) && !access(own, R_OK))) {
		rc = zr_rates_read(path ? path : own, &out->rates, err);
		out->known = !rc;
		snprintf(out->by, sizeof out->by, "the rates of %.100s, measured %.31s",
			 out->rates.cpu, out->rates.date);
	} else {
		snprintf(out->by, sizeof out->by,
			 "no rates: `zeroth bench` measures this machine, --card NAME takes a data "
			 "sheet");
	}

	if (rc)
		zr_rate_source_close(out);
	return rc;
}

int zr_rate_source_network(struct zr_rate_source *r, const char *cards, struct zr_error *err)
{
	double gbits = 0;
	int n = 0, end = 0;

	if (sscanf(cards, "%dx%lf%n", &n, &gbits, &end) != 2 || cards[end] || n < 1 || n > 1024 ||
	    !(gbits > 0) || gbits > 1e6)
		return zr_err(err, ZR_EINVAL,
			      "--network %s: expected network cards of a machine and Gbit/s of "
			      "each, as 8x400",
			      cards);

	r->rates.network = n * zr_network_rate(1e9 * gbits);
	const size_t used = strlen(r->by);
	snprintf(r->by + used, sizeof r->by - used, ", %d x %g Gbit/s between machines", n, gbits);
	return 0;
}

void zr_rate_source_close(struct zr_rate_source *r)
{
	zr_rates_free(&r->rates);
	r->known = 0;
}

int zr_rate_source_suits(struct zr_rate_source *r, const struct zr_setup_facts *f)
{
	const char *device = r->rates.device, *variant = r->rates.variant;

	if (!r->known || !*device || /* a card's are for whatever stands for it */
	    (!strcmp(device, f->device_info.name) && !strcmp(variant, f->device_info.variant)))
		return r->known;
	snprintf(r->by, sizeof r->by,
		 "no rates of %.63s (%.63s): the file has those of %.63s (%.63s); `zeroth bench "
		 "CONF` measures",
		 f->device_info.name, f->device_info.variant, device, variant);
	return 0;
}
