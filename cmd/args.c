/* SPDX-License-Identifier: Apache-2.0
 *
 * args.c - see cmd.h.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cmd.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "train/run/outlet.h"
#include "train/run/supervise.h"

/* A configuration of another program where an INI is expected. */
static int is_foreign(const char *path)
{
	const char *dot = strrchr(path, '.');
	char text[256] = "";

	int fd = zr_file_open(AT_FDCWD, path, 1);
	if (fd < 0)
		return 0;
	if (read(fd, text, sizeof text - 1) < 0)
		*text = 0;
	close(fd);
	if (text[strspn(text, " \t\r\n")] == '{')
		return 1;
	return dot && (!strcmp(dot, ".json") || !strcmp(dot, ".yml") || !strcmp(dot, ".yaml"));
}

/* A directory where an INI is expected: often that of a run, which has one. */
static int is_directory(const char *path)
{
	char ini[PATH_MAX];
	struct stat st;

	if (stat(path, &st) || !S_ISDIR(st.st_mode))
		return 0;

	fprintf(stderr, "zeroth: %s: Is a directory", path);
	int n = snprintf(ini, sizeof ini, "%s/config.ini", path);
	if (n < (int)sizeof ini && !access(ini, F_OK))
		fprintf(stderr, " of a run, whose configuration is %s\n", ini);
	else
		fputs("; name an INI file\n", stderr);
	return 1;
}

int zr_cmd_check_conf(const char *path, int is_file)
{
	if (is_foreign(path)) {
		fprintf(stderr,
			"zeroth: %s is no INI but a configuration of another program: "
			"zeroth config import %s -o imported.ini\n",
			path, path);
		return 2;
	}

	return is_file && is_directory(path) ? 2 : 0;
}

int zr_cmd_failed(const struct zr_error *err)
{
	zr_outlet_push();
	fprintf(stderr, "zeroth: %s\n", err->text);
	return zr_exit_code(err->code);
}

void zr_cmd_log(const struct zr_config *cfg)
{
	zr_log_level(((const struct zr_log_opts *)zr_config_find(cfg, "log")->opts)->level);
}
