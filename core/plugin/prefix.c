/* SPDX-License-Identifier: Apache-2.0
 *
 * prefix.c - see prefix.h.
 */
#include "core/plugin/prefix.h"

#include <dlfcn.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/log.h"

static pthread_once_t once = PTHREAD_ONCE_INIT;
static char own[PATH_MAX];     /* the file that this code is in; "": not known */
static char plugins[PATH_MAX]; /* "": as configured */
static char data[PATH_MAX];

/* The program, or the library, whichever has this function. */
static void find_own(void)
{
	struct link_map *map = NULL;
	Dl_info info;
	const char *name = "/proc/self/exe";

	if (dladdr1((const void *)zr_installed_plugins, &info, (void **)&map, RTLD_DL_LINKMAP) &&
	    map && *map->l_name)
		name = map->l_name;
	if (!realpath(name, own))
		*own = 0;
}

int zr_owner_is_trusted(uid_t owner, uid_t *program)
{
	struct stat st;

	pthread_once(&once, find_own);
	if (!*own || stat(own, &st))
		*program = geteuid();
	else
		*program = st.st_uid;
	return owner == 0 || owner == geteuid() || owner == *program;
}

/* What of a configured directory comes behind the configured prefix, as "/lib"; NULL: it lies
 * elsewhere. */
static const char *below_prefix(const char *dir)
{
	const size_t n = strlen(ZR_PREFIX);
	return !strncmp(dir, ZR_PREFIX, n) && dir[n] == '/' ? dir + n : NULL;
}

/* Cuts a directory off the end of a path. */
static int cut(char *path, const char *dir)
{
	const size_t n = strlen(path), end = dir ? strlen(dir) : 0;
	if (!dir || end >= n || strcmp(path + n - end, dir) != 0)
		return 0;
	path[n - end] = 0;
	return 1;
}

/* The prefix that this file would be in as installed. */
static int find_prefix(char prefix[PATH_MAX])
{
	snprintf(prefix, PATH_MAX, "%s", own);
	char *slash = strrchr(prefix, '/');
	if (!slash)
		return 0;
	*slash = 0;
	return cut(prefix, below_prefix(ZR_BINDIR)) || cut(prefix, below_prefix(ZR_LIBDIR));
}

/* Whether nobody else can change what is found there. */
static int is_safe(const char *path)
{
	uid_t program;
	struct stat st;

	if (stat(path, &st))
		return 0;

	const int open_to_others = (st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX);
	if (!open_to_others && zr_owner_is_trusted(st.st_uid, &program))
		return 1;

	zr_logf(ZR_LOG_WARN, NULL,
		"%s: uid %u or others can change it, so that plugins and data are not looked for "
		"in the prefix of this program; its owner must be root, you or the owner of this "
		"program",
		path, (unsigned)st.st_uid);
	return 0;
}

/* From the prefix down to a directory or file in it, each on the way. */
static int is_safe_below(const char *prefix, const char *rest, char path[PATH_MAX])
{
	if ((size_t)snprintf(path, PATH_MAX, "%s%s", prefix, rest) >= PATH_MAX)
		return 0;

	for (char *at = path + strlen(prefix); *at; at++) {
		char *next = strchrnul(at + 1, '/'), kept = *next;
		*next = 0;
		const int safe = is_safe(path);
		*next = kept;
		if (!safe)
			return 0;

		at = next - 1;
	}
	return 1;
}

static void look(void)
{
	const char *plugins_at = below_prefix(ZR_PLUGINDIR), *data_at = below_prefix(ZR_DATADIR);
	char prefix[PATH_MAX], defaults[PATH_MAX], path[2][PATH_MAX];

	if (!*own || getauxval(AT_SECURE) || !plugins_at || !data_at || !find_prefix(prefix))
		return;
	if ((size_t)snprintf(defaults, sizeof defaults, "%s%s/defaults.ini", prefix, data_at) >=
		    sizeof defaults ||
	    access(defaults, F_OK))
		return; /* a tree in which it was built, or a program that has the library inside */
	if (!is_safe(prefix) || !is_safe(own) || !is_safe(defaults) ||
	    !is_safe_below(prefix, plugins_at, path[0]) || !is_safe_below(prefix, data_at, path[1]))
		return;

	memcpy(plugins, path[0], sizeof plugins);
	memcpy(data, path[1], sizeof data);
}

static void find_both(void)
{
	static pthread_once_t looked = PTHREAD_ONCE_INIT;
	pthread_once(&once, find_own);
	pthread_once(&looked, look);
}

const char *zr_installed_plugins(void)
{
	find_both();
	return *plugins ? plugins : ZR_PLUGINDIR;
}

const char *zr_installed_data(void)
{
	find_both();
	return *data ? data : ZR_DATADIR;
}
