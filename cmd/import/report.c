/* SPDX-License-Identifier: Apache-2.0
 *
 * report.c - see import.h: what became of every setting.
 */

#include "cmd/import/import.h"

static const char *const names[ZR_FATES] = { "open",           "mapped",  "partly", "default",
					     "without effect", "refused", "unknown" };

int zr_import_list(const struct zr_import *im, enum zr_fate fate, const char *before, FILE *out)
{
	int n = 0;

	for (int i = 0; i < im->n_sources; i++)
		for (int j = 0; j < im->source[i].n; j++) {
			const struct zr_setting *s = &im->source[i].settings[j];
			char line[2048];
			if (s->fate != fate)
				continue;

			snprintf(line, sizeof line, "%s:%d: %s: %s", s->file, s->line, s->path,
				 s->why ? s->why : "");
			zr_one_line(line);
			fprintf(out, "%s%s\n", before, line);
			n++;
		}
	return n;
}

void zr_import_report(const struct zr_import *im, FILE *out)
{
	static const struct {
		enum zr_fate fate;
		const char *text;
	} parts[] = {
		{ ZR_FATE_PARTLY, "mapped, but different" },
		{ ZR_FATE_AUTO, "auto, and left at the default" },
		{ ZR_FATE_NONE, "without effect" },
	};
	fprintf(out, "%s (%s): %d mapped", im->file, im->source[0].kind->name,
		zr_import_count(im, ZR_FATE_MAPPED) + zr_import_count(im, ZR_FATE_PARTLY));
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
		if (zr_import_count(im, parts[i].fate))
			fprintf(out, ", %d %s", zr_import_count(im, parts[i].fate), parts[i].text);
	fprintf(out, "\n");
	for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
		if (!zr_import_count(im, parts[i].fate))
			continue;

		fprintf(out, "%s:\n", parts[i].text);
		zr_import_list(im, parts[i].fate, "  ", out);
	}
}

json_t *zr_import_json(const struct zr_import *im)
{
	json_t *root = json_object(), *all = json_array();

	for (int i = 0; i < im->n_sources; i++)
		for (int j = 0; j < im->source[i].n; j++) {
			const struct zr_setting *s = &im->source[i].settings[j];
			json_t *one = json_object();
			zr_json_put(&one, "file", zr_json_string(s->file, ""));
			zr_json_put(&one, "line", json_integer(s->line));
			zr_json_put(&one, "key", zr_json_string(s->path, ""));
			zr_json_put(&one, "result", json_string(names[s->fate]));
			zr_json_put(&one, "why", s->why ? zr_json_string(s->why, "") : json_null());
			zr_json_add(&all, one);
		}
	zr_json_put(&root, "program", json_string(im->source[0].kind->name));
	zr_json_put(&root, "mapped",
		    json_integer(zr_import_count(im, ZR_FATE_MAPPED) +
				 zr_import_count(im, ZR_FATE_PARTLY)));
	zr_json_put(&root, "without_effect", json_integer(zr_import_count(im, ZR_FATE_NONE)));
	zr_json_put(&root, "refused",
		    json_integer(zr_import_count(im, ZR_FATE_REFUSED) +
				 zr_import_count(im, ZR_FATE_UNKNOWN)));
	zr_json_put(&root, "keys", all);
	return root;
}
