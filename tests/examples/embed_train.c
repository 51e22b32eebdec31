/* SPDX-License-Identifier: Apache-2.0
 *
 * embed_train.c - what `zeroth train CONF` trains, by the library: the same digest.
 *
 *   cc $(pkg-config --cflags zeroth) embed_train.c $(pkg-config --libs zeroth)
 *   ./a.out RANKS CONF section.key=value ...
 */
#include <stdio.h>
#include <stdlib.h>
#include <zeroth/zeroth.h>

static void say(void *arg, int level, const char *topic, const char *text)
{
	(void)level;
	fprintf(arg, "log: %s%s%s\n", topic, *topic ? ": " : "", text);
}

int main(int argc, char **argv)
{
	struct zeroth_facts facts = { .size = sizeof facts };
	struct zeroth *e = zeroth_new();
	uint64_t losses, parameters;
	int rc = argc < 3 || !e;
	zeroth_set_log(e, ZR_LOG_WARN, say, stderr);
	rc = rc || zeroth_set_ranks(e, atoi(argv[1])) || zeroth_set_file(e, argv[2]);
	for (int i = 3; !rc && i < argc; i++)
		rc = zeroth_set(e, argv[i]);
	rc = rc || zeroth_open(e);
	do
		rc = rc || zeroth_step(e, NULL) || zeroth_facts(e, &facts);
	while (!rc && facts.step < facts.steps);
	rc = rc || zeroth_digest(e, &losses, &parameters);
	if (rc)
		fprintf(stderr, "embed_train: %s\n", zeroth_error(e));
	else
		printf("digest: losses=%016llx params=%016llx\n", (unsigned long long)losses,
		       (unsigned long long)parameters);
	zeroth_close(e);
	return rc != 0;
}
