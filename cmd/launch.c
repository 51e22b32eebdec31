/* SPDX-License-Identifier: Apache-2.0
 *
 * launch.c - zeroth launch --hosts a,b CONF: trains on several machines, on each of which a remote
 * shell starts zeroth.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/train.h"
#include "core/base/text.h"
#include "train/beat.h"
#include "train/launcher.h"
#include "train/run/agent.h"
#include "train/run/machines.h"
#include "train/run/outlet.h"

#ifndef PACKAGE_VERSION
#define PACKAGE_VERSION "unreleased"
#endif

#define SHELL_WORDS 64
#define VARIABLES   64
#define TRAIN_WORDS (2 * (ZR_CMD_OVERRIDES + ZR_RESTART_OVERRIDES) + 16)

struct launch_args {
	struct zr_train_args train;
	const char *hosts, *through, *program;
	const char *variables[VARIABLES];
	int n_variables, port;
};

#define AT(member) offsetof(struct launch_args, member)

static const struct zr_cmd_option options[] = {
	{ 0, "hosts", "HOST[:N],...",
	  "the machines, as a remote shell finds them; the first one has rank 0; N: ranks there",
	  .kind = ZR_CMD_TEXT, .at = AT(hosts), .place = ZR_CMD_REQUIRED },
	ZR_CMD_OPTION_RANKS(struct zr_train_args,
			    "ranks on each machine that has no N of its own (default 1)",
			    ZR_SUPERVISE_MAX),
	{ 0, "through", "COMMAND",
	  "starts zeroth on a machine: ssh (default), srun, mpirun, or words in which {host} is "
	  "its name, and behind which zeroth's follow",
	  .kind = ZR_CMD_TEXT, .at = AT(through) },
	{ 0, "program", "PATH", "zeroth on the other machines (default: the path of this one)",
	  .kind = ZR_CMD_TEXT, .at = AT(program) },
	{ 0, "env", "NAME[=VALUE]",
	  "a variable for the ranks, with its value here; may be given again", .kind = ZR_CMD_LIST,
	  .at = AT(variables), .most = VARIABLES, .count = AT(n_variables) },
	{ 0, "port", "PORT", "where ranks meet on the first machine (default: one that is free)",
	  .kind = ZR_CMD_INT, .at = AT(port), .least = 1, .most = 65535, .counts = "a port" },
#include "cmd/train_options.def"
	{ 0 },
};

const struct zr_cmd_usage zr_launch_usage = {
	.command = "launch",
	.form = { { NULL, "CONF", NULL } },
	.about = "Trains the model of CONF on several machines, as zeroth train does on one:\n"
		 "ranks start on each, meet over TCP with a secret of the launch, and end\n"
		 "together. CONF, data and this directory have the same paths on each.\n",
	.option = options,
	.is_long = 1,
};

/* ---- the machines ------------------------------------------------------------------ */

struct launch {
	struct launch_args a;
	struct zr_machine_name *name; /* [n] owned */
	int n, ranks;
	char *shell_text;
	char *shell[SHELL_WORDS];
	int n_shell;
	char *program;
	char *variable[VARIABLES + 2];
	int n_variables;
	struct zr_machines *machines;
};

static int refuse_host(const char *host, const char *why)
{
	return zr_cmd_refuse(&zr_launch_usage, "--hosts: %s: %s", host, why);
}

/* One of the list, "user@host:4". 0 or 2. */
static int take_host(struct launch *l, const char *text, size_t n)
{
	struct zr_machine_name *one = &l->name[l->n];
	const char *colon = memrchr(text, ':', n);
	const size_t letters = colon ? (size_t)(colon - text) : n;
	char whole[300], *end;

	snprintf(whole, sizeof whole, "%.*s", (int)n, text);
	if (!letters || letters >= sizeof one->host)
		return refuse_host(whole, "expected HOST or HOST:RANKS");
	if (*text == '-')
		return refuse_host(whole, "a host's name does not begin with -");

	snprintf(one->host, sizeof one->host, "%.*s", (int)letters, text);
	one->slots = l->a.train.ranks ? l->a.train.ranks : 1;
	if (colon) {
		const long slots = strtol(colon + 1, &end, 10);
		if (end != text + n || end == colon + 1 || slots < 1 || slots > ZR_SUPERVISE_MAX)
			return refuse_host(whole,
					   "expected a number of ranks from 1 to 256 behind :");
		one->slots = (int)slots;
	}

	for (int i = 0; i < l->n; i++)
		if (!strcmp(l->name[i].host, one->host))
			return refuse_host(one->host, "it is there twice: write HOST:RANKS once");
	l->ranks += one->slots;
	l->n++;
	return 0;
}

static int take_hosts(struct launch *l)
{
	const char *text = l->a.hosts;
	int most = 1, code = 0;

	for (const char *c = text; *c; c++)
		most += *c == ',';
	if (most > ZR_MACHINES_MOST)
		return zr_cmd_refuse(&zr_launch_usage, "--hosts: %d hosts are too many: at most %d",
				     most, ZR_MACHINES_MOST);

	l->name = calloc((size_t)most, sizeof *l->name);
	if (!l->name)
		return zr_cmd_refuse(&zr_launch_usage, "out of memory");

	for (const char *next = text; !code && next; next = strchr(next, ',')) {
		next += *next == ',';
		code = take_host(l, next, strcspn(next, ","));
	}
	if (code)
		return code;

	for (int i = 0; i < l->n && l->n > 1; i++)
		if (!strcmp(l->name[i].host, "localhost"))
			return refuse_host("localhost", "other machines reach this one by another "
							"name: write that");
	return 0;
}

/* ---- the remote shell -------------------------------------------------------------- */

/* The words of a short name. */
static const char *shell_of(const char *through)
{
	static const char *const known[][2] = {
		{ "ssh", "ssh -o BatchMode=yes" },
		/* otherwise it passes on whole lines, and an agent's answers are none */
		{ "srun", "srun --nodes=1 --ntasks=1 --overlap --unbuffered --nodelist={host}" },
		{ "mpirun", "mpirun -n 1 --host {host}" },
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (!strcmp(through, known[i][0]))
			return known[i][1];
	return through;
}

static int split_shell(struct launch *l)
{
	const char *through = l->a.through ? l->a.through : "ssh";
	char *save = NULL;

	l->shell_text = zr_text("%s", shell_of(through));
	if (!l->shell_text)
		return zr_cmd_refuse(&zr_launch_usage, "out of memory");

	for (char *w = l->shell_text; (w = strtok_r(w, " \t", &save)) != NULL; w = NULL) {
		if (l->n_shell == SHELL_WORDS)
			return zr_cmd_refuse(&zr_launch_usage, "--through: more than %d words",
					     SHELL_WORDS);
		l->shell[l->n_shell++] = w;
	}

	if (!l->n_shell)
		return zr_cmd_refuse(&zr_launch_usage, "--through: expected a command");
	return 0;
}

static int find_program(struct launch *l)
{
	char own[4096] = "zeroth";
	ssize_t n = readlink("/proc/self/exe", own, sizeof own - 1);
	if (n > 0)
		own[n] = 0;
	l->program = zr_text("%s", l->a.program ? l->a.program : own);
	return l->program ? 0 : zr_cmd_refuse(&zr_launch_usage, "out of memory");
}

/* ---- the environment --------------------------------------------------------------- */

static int add_variable(struct launch *l, const char *name, size_t n, const char *value)
{
	char *text = zr_text("%.*s=%s", (int)n, name, value);
	if (!text)
		return zr_cmd_refuse(&zr_launch_usage, "out of memory");

	l->variable[l->n_variables++] = text;
	return 0;
}

/* Those that say where plugins and defaults are, and what the user names. */
static int take_variables(struct launch *l)
{
	static const char *const ours[] = { "ZEROTH_PLUGIN_PATH", "ZEROTH_DATA_PATH" };
	int code = 0;

	for (size_t i = 0; i < sizeof ours / sizeof *ours && !code; i++)
		if (getenv(ours[i]))
			code = add_variable(l, ours[i], strlen(ours[i]), getenv(ours[i]));
	for (int i = 0; i < l->a.n_variables && !code; i++) {
		const char *name = l->a.variables[i], *equals = strchr(name, '=');
		const char *value = equals ? equals + 1 : getenv(name);
		if (!value)
			return zr_cmd_refuse(&zr_launch_usage,
					     "--env %s: it is not set here: write %s=VALUE", name,
					     name);
		code = add_variable(l, name, equals ? (size_t)(equals - name) : strlen(name),
				    value);
	}

	return code;
}

/* ---- an attempt -------------------------------------------------------------------- */

static void add_word(char **word, int *n, const char *text)
{
	word[(*n)++] = (char *)text;
}

/* One attempt, with the configuration as it is now. */
static int train_there(int ranks, void *arg, struct zr_crew_end *end)
{
	struct launch *l = arg;
	const struct zr_train_args *a = &l->a.train;
	char *word[TRAIN_WORDS], watchdog[40];
	int n = 0;

	add_word(word, &n, "train");
	for (int i = 0; i < a->n_overrides; i++) {
		add_word(word, &n, "-o");
		add_word(word, &n, a->overrides[i]);
	}
	if (a->watchdog > 0) {
		snprintf(watchdog, sizeof watchdog, "%.17g", a->watchdog);
		add_word(word, &n, "--watchdog");
		add_word(word, &n, watchdog);
	}
	if (a->resume) {
		add_word(word, &n, "--resume");
		add_word(word, &n, a->resume);
	}
	if (a->other_data)
		add_word(word, &n, "--other-data");
	if (a->verify)
		add_word(word, &n, "--verify");
	add_word(word, &n, "--");
	add_word(word, &n, a->conf);
	return zr_machines_train(l->machines, ranks, word, n, end);
}

static int run(struct launch *l)
{
	struct zr_train_args *a = &l->a.train;
	const struct zr_machines_how machines = { .name = l->name,
						  .n = l->n,
						  .shell = l->shell,
						  .n_shell = l->n_shell,
						  .program = l->program,
						  .version = PACKAGE_VERSION,
						  .port = l->a.port,
						  .variable = l->variable,
						  .n_variables = l->n_variables };
	const struct zr_restart_how restart = { .ranks = l->ranks,
						.restarts = a->restarts,
						.min_ranks = a->min_ranks,
						.resume = &a->resume,
						.overrides = a->overrides,
						.n_overrides = &a->n_overrides,
						.attempt = train_there,
						.arg = l };

	l->machines = zr_machines_open(&machines);
	if (!l->machines)
		return zr_cmd_refuse(&zr_launch_usage, "out of memory");

	zr_outlets_begin();
	int code = zr_restart_train(&restart);
	zr_machines_close(l->machines);
	return code;
}

static void finish(struct launch *l)
{
	free(l->name);
	free(l->shell_text);
	free(l->program);
	for (int i = 0; i < l->n_variables; i++)
		free(l->variable[i]);
}

/* ---- the other end ----------------------------------------------------------------- */

/* Ranks of an agent: see agent.h. */
static int train_for_launcher(int argc, char **argv, const struct zr_agent_place *place,
			      struct zr_crew_end *end)
{
	struct zr_train_args a = { .is_launched = 1 };
	struct zr_cmd_operands operands;

	int code = zr_cmd_parse(argc, argv, &zr_train_usage, NULL, &a, &operands);
	if (code >= 0)
		return code;

	a.conf = operands.at[0];
	a.overrides[a.n_overrides++] = "boot.plugin=env";
	code = zr_train_try(&a);
	if (code)
		return code;

	const struct zr_crew_how crew = { .n = place->n,
					  .rank_main = zr_train_rank,
					  .arg = &a,
					  .watchdog = a.watchdog,
					  .beat = &zr_beat_shared()->count,
					  .first = place->first,
					  .world = place->world };
	return zr_supervise_crew(&crew, end);
}

/* ---- the command ------------------------------------------------------------------- */

int zr_cmd_launch(int argc, char **argv)
{
	struct launch l = { .n = 0 };
	struct zr_cmd_operands operands;

	if (argc == 2 && !strcmp(argv[1], "--agent"))
		return zr_agent_main(train_for_launcher, PACKAGE_VERSION);

	int code = zr_cmd_parse(argc, argv, &zr_launch_usage, NULL, &l.a, &operands);
	if (code >= 0)
		return code;

	const char *other = zr_other_launcher();
	if (other)
		return zr_cmd_refuse(&zr_launch_usage,
				     "it starts ranks, but another launcher has done so (%s): drop "
				     "one of the two",
				     other);

	l.a.train.conf = operands.at[0];
	code = take_hosts(&l);
	if (!code)
		code = zr_train_check(&zr_launch_usage, &l.a.train, l.ranks);
	if (!code)
		code = split_shell(&l);
	if (!code)
		code = find_program(&l);
	if (!code)
		code = take_variables(&l);
	if (!code)
		code = run(&l);
	finish(&l);
	return code;
}
