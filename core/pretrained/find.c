/* SPDX-License-Identifier: Apache-2.0
 *
 * find.c - see pretrained.h: from a model_type to the plugin that reads it.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zeroth/model.h>

#include "core/base/child.h"
#include "core/base/text.h"
#include "core/pretrained/pretrained.h"

#define PATIENCE 20 /* s for all plugins to load */
#define KILLED   -1 /* in place of an errno */

/* In the child, for every model plugin that reads directories a line: "+ID", or "-ID" with the
 * count of what differs and what that is. "!TEXT" comes last, if a plugin cannot be looked at:
 * it may be the one that is needed. */
struct scan {
	FILE *out;
	const struct zr_model_json *f;
};

static int scan_one(void *arg, const char *role, const char *id, const char *path, int shadowed)
{
	const struct scan *s = arg;
	const struct zr_pretrained_v1 *v;
	const struct zr_plugin *p;
	struct zr_error unused = { 0 };
	char differences[512];

	(void)path;
	if (strcmp(role, "model") || shadowed || zr_plugin_load(role, id, &p, &unused) ||
	    !(v = zr_pretrained_of(p))) {
		if (unused.code != ZR_ENOMEM && unused.code != ZR_EIO)
			return 0;

		fprintf(s->out, "!%s\n", unused.text);
		return unused.code == ZR_ENOMEM ? ENOMEM : EIO;
	}

	int n = zr_pretrained_differences(s->f, v, differences, sizeof differences);
	fprintf(s->out, "%c%s %d %s\n", zr_pretrained_reads(v, s->f->type) ? '+' : '-', id, n,
		differences);
	return 0;
}

/* In the child. The last line is "=" and an errno: this process may not be able to see how its
 * children end. The exit status is an errno where that line cannot be written. */
static void scan_to(int fd, const struct zr_model_json *f)
{
	struct scan s = { fdopen(fd, "w"), f };
	int null = open("/dev/null", O_RDWR);
	dup2(null, 1);
	dup2(null, 2);
	zr_child_signals();
	alarm(PATIENCE);
	if (s.out)
		fprintf(s.out, "=%d\n", zr_plugin_scan(scan_one, &s));
	_exit(!s.out || fflush(s.out) ? errno & 255 : 0);
}

/* Takes the last line of the child away, and returns what it says; KILLED: there is none, and no
 * exit status in its place. */
static int take_errno(char *text, int status)
{
	char *end = text;
	if (*text != '=')
		end = strstr(text, "\n=");
	if (!end) {
		if (WIFEXITED(status) && WEXITSTATUS(status))
			return WEXITSTATUS(status);
		return KILLED;
	}
	end += *end == '\n';
	int no = atoi(end + 1);
	*end = 0;
	return no;
}

/* Why the child did not look at every plugin. */
static void say_why(char out[128], int no, int status)
{
	if (no != KILLED)
		snprintf(out, 128, "%s", strerror(no));
	else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		snprintf(out, 128, "they do not load within %d s", PATIENCE);
	else if (WIFSIGNALED(status))
		snprintf(out, 128, "the process that loads them ended: %s",
			 strsignal(WTERMSIG(status)));
	else
		snprintf(out, 128, "the process that loads them ended early");
}

/* The text of the child's last line, "!TEXT"; NULL: it has none. */
static const char *what_failed(char *lines)
{
	char *last = NULL;
	if (lines)
		last = strrchr(lines, '!');
	if (!last || (last != lines && last[-1] != '\n'))
		return NULL;

	last[strcspn(last, "\n")] = 0;
	return last + 1;
}

/* The lines of the child in *out, owned. */
static int scan(const struct zr_model_json *f, char **out, struct zr_error *err)
{
	int fd[2], status = 0, c, no = 0;
	size_t n = 0, room = 65536;
	char ended[128];
	if (pipe2(fd, O_CLOEXEC))
		return zr_err(err, ZR_EIO, "cannot look for plugins: %s", strerror(errno));

	fflush(NULL);
	pid_t child = fork();
	if (!child)
		scan_to(fd[1], f);
	if (child < 0)
		no = errno;
	close(fd[1]);
	FILE *in = fdopen(fd[0], "r");
	*out = calloc(1, room);
	if (!no && (!in || !*out))
		no = ENOMEM;
	while (in && *out && (c = getc(in)) != EOF)
		if (n + 1 < room)
			(*out)[n++] = (char)c;
	if (in)
		fclose(in);
	if (child > 0)
		zr_child_wait(child, &status);
	if (!no)
		no = take_errno(*out, status);
	if (!no)
		return 0;

	const char *why = what_failed(*out);
	if (!why) {
		say_why(ended, no, status);
		why = ended;
	}
	zr_err(err, ZR_EIO,
	       "cannot look for a plugin that reads model_type %.80s (%.600s): name "
	       "one by [model] plugin",
	       f->type, why);
	free(*out);
	return ZR_EIO;
}

int zr_pretrained_find(const struct zr_model_json *f, char id[ZR_PLUGIN_ID], struct zr_error *err)
{
	char *text = NULL, *line, *rest, fits[256] = "", *nearest = "", *differs = "";
	int n = 0, named = 0, least = INT_MAX, rc = scan(f, &text, err);
	if (rc)
		return rc;

	for (line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
		char *count = strchr(line, ' '), *what;
		*count++ = 0;
		long differences = strtol(count, &what, 10);
		if (*line == '-' && differences < least) {
			least = (int)differences;
			nearest = line + 1;
			differs = what;
		}
		if (*line == '-' || (named && strcmp(line + 1, f->type)))
			continue;
		named |= !strcmp(line + 1, f->type);
		zr_text_add(fits, sizeof fits, ", ", line + 1);
		snprintf(id, ZR_PLUGIN_ID, "%s", line + 1);
		n++;
	}

	if (named)
		snprintf(id, ZR_PLUGIN_ID, "%s", f->type);
	if (!n)
		rc = zr_err(err, ZR_EINVAL,
			    "%s: model_type = %.80s: no plugin reads it. The "
			    "nearest is [model] plugin = %s, %s%s",
			    f->path, f->type, nearest,
			    least ? "which does not compute" : "whose keys are the same",
			    least ? differs : "");
	else if (n > 1 && !named)
		rc = zr_err(err, ZR_EINVAL,
			    "%s: model_type = %.80s: several plugins read it: name "
			    "one by [model] plugin: %s",
			    f->path, f->type, fits);
	free(text);
	return rc;
}
