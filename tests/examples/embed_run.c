/* SPDX-License-Identifier: Apache-2.0
 *
 * embed_run.c - what `zeroth train CONF` does, by the library: it resumes, evaluates, saves a
 * checkpoint and the weights.
 *
 *   cc $(pkg-config --cflags zeroth) embed_run.c $(pkg-config --libs zeroth)
 *   ./a.out [-n RANKS] [-r CHECKPOINT] [-e EVERY SET]... [-s EVERY] [-w FILE] CONF OPTION...
 *
 *   -r  resumes from a checkpoint, "auto": from the newest of this run
 *   -e  evaluates a set after each EVERY steps and the last one; SET: the NAME of [eval.NAME],
 *       or "" for what [data] holds out
 *   -s  saves a checkpoint after each EVERY steps and the last one
 *   -w  writes the weights to a file at the end
 *   OPTION: section.key=value
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zeroth/zeroth.h>

enum { MOST_SETS = 9 };

struct wish {
	int ranks;
	const char *resume, *weights;
	int64_t save_every;
	int n_sets;
	struct {
		int64_t every;
		const char *name;
	} set[MOST_SETS];
};

static void say(void *arg, int level, const char *topic, const char *text)
{
	(void)level;
	fprintf(arg, "log: %s%s%s\n", topic, *topic ? ": " : "", text);
}

/* Returns how many arguments were options. */
static int read_options(int argc, char **argv, struct wish *w)
{
	int i = 1;
	while (i + 1 < argc && argv[i][0] == '-') {
		const char option = argv[i++][1];
		const char *value = argv[i++];
		if (option == 'n')
			w->ranks = atoi(value);
		else if (option == 'r')
			w->resume = value;
		else if (option == 's')
			w->save_every = atoll(value);
		else if (option == 'w')
			w->weights = value;
		else if (option == 'e' && i < argc && w->n_sets < MOST_SETS) {
			w->set[w->n_sets].every = atoll(value);
			w->set[w->n_sets++].name = argv[i++];
		} else {
			return 0;
		}
	}
	return i - 1;
}

static int due(int64_t every, const struct zeroth_facts *f)
{
	return every > 0 && (f->step % every == 0 || f->step == f->steps);
}

static int after_step(struct zeroth *e, const struct wish *w, const struct zeroth_facts *f)
{
	int rc = 0;
	for (int i = 0; !rc && i < w->n_sets; i++) {
		struct zeroth_evaluation result = { .size = sizeof result };
		if (due(w->set[i].every, f))
			rc = zeroth_evaluate(e, w->set[i].name, &result);
	}
	if (!rc && due(w->save_every, f))
		rc = zeroth_save(e);
	return rc;
}

static int train(struct zeroth *e, const struct wish *w)
{
	struct zeroth_facts facts = { .size = sizeof facts };
	int rc = w->resume ? zeroth_resume(e, w->resume, NULL) : 0;
	if (!rc)
		rc = zeroth_facts(e, &facts);
	while (!rc && facts.step < facts.steps) {
		rc = zeroth_step(e, NULL);
		if (!rc)
			rc = zeroth_facts(e, &facts);
		if (!rc)
			rc = after_step(e, w, &facts);
	}
	if (!rc && w->weights)
		rc = zeroth_save_weights(e, w->weights);
	return rc;
}

int main(int argc, char **argv)
{
	struct wish w = { .ranks = 1 };
	const int options = read_options(argc, argv, &w);
	struct zeroth *e = zeroth_new();
	uint64_t losses = 0, parameters = 0;
	if (!e || options + 1 >= argc)
		return 2;

	zeroth_set_log(e, ZR_LOG_WARN, say, stderr);
	int rc = zeroth_set_ranks(e, w.ranks);
	if (!rc)
		rc = zeroth_set_file(e, argv[options + 1]);
	for (int i = options + 2; !rc && i < argc; i++)
		rc = zeroth_set(e, argv[i]);
	if (!rc)
		rc = zeroth_open(e);
	if (!rc)
		rc = train(e, &w);
	if (!rc)
		rc = zeroth_digest(e, &losses, &parameters);

	if (rc)
		fprintf(stderr, "embed_run: %s\n", zeroth_error(e));
	else
		printf("digest: losses=%016llx params=%016llx\n", (unsigned long long)losses,
		       (unsigned long long)parameters);
	zeroth_close(e);
	return rc != 0;
}
