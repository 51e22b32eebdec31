/* SPDX-License-Identifier: Apache-2.0
 *
 * engine.c - see zeroth.h: what a program says before an engine is opened, its log, its end.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/log.h"
#include "embed/engine.h"

enum { MOST_STRUCT = 4096 }; /* bytes of a struct of a later version */

/* recursive: a log function, which has it, may make an engine */
static pthread_mutex_t engines_lock = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static struct zeroth *engines; /* all of them, for lines of log */

/* ---- failures -------------------------------------------------------------------- */

/* Of calls that this thread made while another had the engine, and of its log function. */
static _Thread_local struct {
	const struct zeroth *engine; /* whose failure the text is of; NULL: none */
	char text[sizeof(((struct zeroth *)0)->error)];
	int logs; /* log functions that it is in */
} here;

static int is_elsewhere(const struct zeroth *e)
{
	return e->running || here.logs || e->pid != getpid();
}

int engine_fail_here(struct zeroth *e, int code, const char *fmt, ...)
{
	va_list ap;

	here.engine = e;
	va_start(ap, fmt);
	vsnprintf(here.text, sizeof here.text, fmt, ap);
	va_end(ap);
	return code;
}

int engine_fail(struct zeroth *e, int code, const char *fmt, ...)
{
	va_list ap;

	if (!e) /* what zeroth_new() returned was not looked at */
		return ZR_ENOMEM;

	char *text = e->error;
	if (is_elsewhere(e)) {
		here.engine = e;
		text = here.text;
	}

	va_start(ap, fmt);
	vsnprintf(text, sizeof e->error, fmt, ap);
	va_end(ap);
	return code;
}

int engine_enter(struct zeroth *e, const char *what)
{
	if (!e)
		return ZR_ENOMEM;
	if (here.engine == e)
		here.engine = NULL;
	if (!is_elsewhere(e))
		return 0;
	if (e->pid != getpid())
		return engine_fail(e, ZR_ESTATE, "%s: the engine is one of the process that forked",
				   what);
	if (here.logs)
		return engine_fail(e, ZR_ESTATE, "%s: log functions do not call this", what);
	return engine_fail(e, ZR_ESTATE,
			   "%s: another call of this engine runs; callbacks, and other threads "
			   "meanwhile, do not call this",
			   what);
}

int engine_sized(struct zeroth *e, const void *given, size_t least, const char *what)
{
	const uint32_t size = given ? *(const uint32_t *)given : UINT32_MAX;

	if (size >= least)
		return 0;
	return engine_fail(e, ZR_EINVAL,
			   "%s: size is %u; expected sizeof of "
			   "the struct, %zu or more",
			   what, size, least);
}

const char *zeroth_error(const struct zeroth *e)
{
	if (!e)
		return "out of memory";
	return here.engine == e ? here.text : e->error;
}

const char *zeroth_version(void)
{
	return PACKAGE_VERSION;
}

/* ---- log ------------------------------------------------------------------------- */

static void tell(struct zeroth *e, int level, const char *topic, const char *text)
{
	pthread_mutex_lock(&e->log_lock);
	here.logs++;
	if (e->log && level <= e->log_level)
		e->log(e->log_arg, level, topic ? topic : "", text);
	here.logs--;
	pthread_mutex_unlock(&e->log_lock);
}

/* What each rank has to say, the first one says. */
static int take_line(int level, const char *topic, const char *text)
{
	if (rank_here) {
		if (!rank_here->number || level == ZR_LOG_ERROR)
			tell(rank_here->engine, level, topic, text);
		return 1;
	}

	pthread_mutex_lock(&engines_lock);
	for (struct zeroth *e = engines; e; e = e->next)
		tell(e, level, topic, text);
	pthread_mutex_unlock(&engines_lock);
	return 1;
}

int zeroth_set_log(struct zeroth *e, int level, zeroth_log_fn *fn, void *arg)
{
	int rc = engine_enter(e, "zeroth_set_log");
	if (rc)
		return rc;

	pthread_mutex_lock(&e->log_lock);
	e->log_level = level;
	e->log = fn;
	e->log_arg = arg;
	pthread_mutex_unlock(&e->log_lock);
	return 0;
}

/* ---- plugins inside the program -------------------------------------------------- */

static int has(const struct zr_entry *entry, const char *role, const char *id)
{
	for (int i = 0; entry->descs && entry->descs[i]; i++) {
		const struct zr_desc *d = entry->descs[i];
		if (d->role && d->id && role && !strcmp(d->role, role) && !strcmp(d->id, id))
			return 1;
	}

	return 0;
}

static const struct zr_entry *find_entry(const char *role, const char *id)
{
	const struct zeroth *e = rank_here ? rank_here->engine : NULL;

	for (int i = 0; e && i < e->n_entries; i++)
		if (has(e->entry[i], role, id))
			return e->entry[i];
	if (e && e->n > 1 && has(&threads_entry, role, id))
		return &threads_entry;
	return e && e->model.size && has(&functions_entry, role, id) ? &functions_entry : NULL;
}

/* ---- before it is opened --------------------------------------------------------- */

static void take_hooks(void)
{
	zr_log_taker = take_line;
	zr_plugin_inside = find_entry;
}

struct zeroth *zeroth_new(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	struct zeroth *e = calloc(1, sizeof *e);
	if (!e)
		return NULL;

	pthread_once(&once, take_hooks);
	e->n = 1;
	e->text_fd = -1;
	e->pid = getpid();
	pthread_mutex_init(&e->lock, NULL);
	pthread_mutex_init(&e->put_lock, NULL);
	pthread_mutex_init(&e->log_lock, NULL);
	pthread_cond_init(&e->asked, NULL);
	pthread_cond_init(&e->answered, NULL);
	pthread_mutex_lock(&engines_lock);
	e->next = engines;
	engines = e;
	pthread_mutex_unlock(&engines_lock);
	return e;
}

int engine_given(struct zeroth *e, int there, const char *what)
{
	return there ? 0 : engine_fail(e, ZR_EINVAL, "%s is NULL", what);
}

int engine_is_new(struct zeroth *e, const char *what)
{
	int rc = engine_enter(e, what);
	if (rc)
		return rc;

	*e->error = 0;
	return !e->rank ? 0 : engine_fail(e, ZR_ESTATE, "%s comes before zeroth_open", what);
}

/* Copies the configuration, which replaces a file or text of before. */
static int set_config(struct zeroth *e, int is_file, const char *from)
{
	int rc = engine_is_new(e, is_file ? "zeroth_set_file" : "zeroth_set_text");
	if (!rc)
		rc = engine_given(e, from != NULL,
				  is_file ? "zeroth_set_file: path" : "zeroth_set_text: text");
	char *copy = rc ? NULL : strdup(from);
	if (rc || !copy)
		return rc ? rc : engine_fail(e, ZR_ENOMEM, "out of memory");

	free(e->path);
	free(e->text);
	e->path = is_file ? copy : NULL;
	e->text = is_file ? NULL : copy;
	return 0;
}

int zeroth_set_file(struct zeroth *e, const char *path)
{
	return set_config(e, 1, path);
}

int zeroth_set_text(struct zeroth *e, const char *text)
{
	return set_config(e, 0, text);
}

int zeroth_set(struct zeroth *e, const char *option)
{
	int rc = engine_is_new(e, "zeroth_set");
	if (!rc)
		rc = engine_given(e, option != NULL, "zeroth_set: option");
	if (rc)
		return rc;

	char **more = realloc(e->option, ((size_t)e->n_options + 1) * sizeof *more);
	e->option = more ? more : e->option;
	if (!more || !(e->option[e->n_options] = strdup(option)))
		return engine_fail(e, ZR_ENOMEM, "out of memory");

	e->n_options++;
	return 0;
}

int zeroth_add_plugins(struct zeroth *e, const struct zr_entry *entry)
{
	int rc = engine_is_new(e, "zeroth_add_plugins");
	if (!rc)
		rc = engine_given(e, entry != NULL, "zeroth_add_plugins: entry");
	if (rc)
		return rc;
	if (entry->magic != ZR_MAGIC || !ZR_HAS(entry, struct zr_entry, descs))
		return engine_fail(e, ZR_EINVAL,
				   "zeroth_add_plugins: magic is 0x%08x and size %u; "
				   "expected 0x%08x and %zu or more: the entry of ZR_PLUGIN",
				   entry->magic, entry->size, ZR_MAGIC,
				   offsetof(struct zr_entry, descs) + sizeof entry->descs);

	const struct zr_entry **more = realloc(e->entry, ((size_t)e->n_entries + 1) * sizeof *more);
	if (!more)
		return engine_fail(e, ZR_ENOMEM, "out of memory");

	e->entry = more;
	e->entry[e->n_entries++] = entry;
	return 0;
}

int zeroth_set_ranks(struct zeroth *e, int ranks)
{
	int rc = engine_is_new(e, "zeroth_set_ranks");
	if (!rc && (ranks < 1 || ranks > ZEROTH_MAX_RANKS))
		rc = engine_fail(e, ZR_EINVAL, "zeroth_set_ranks: %d; expected 1 to %d", ranks,
				 ZEROTH_MAX_RANKS);
	if (!rc)
		e->n = ranks;
	return rc;
}

/* Of the structs that tables consist of, as the program's compiler knew them. */
static int check_struct_sizes(struct zeroth *e, const struct zeroth_model *m)
{
	const struct {
		const char *field;
		uint32_t size;
		size_t least;
	} all[] = {
		{ "tensor_size", m->tensor_size, offsetof(struct zeroth_tensor, flags) },
		{ "unit_size", m->unit_size, sizeof(struct zeroth_unit) },
		{ "layer_size", m->layer_size, sizeof(struct zeroth_layer) },
	};
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		if (all[i].size < all[i].least || all[i].size > MOST_STRUCT ||
		    all[i].size % sizeof(void *))
			return engine_fail(e, ZR_EINVAL,
					   "zeroth_set_model: %s is %u; expected "
					   "sizeof of the struct, %zu to %d",
					   all[i].field, all[i].size, all[i].least, MOST_STRUCT);
	return 0;
}

int zeroth_set_model(struct zeroth *e, const struct zeroth_model *m)
{
	int rc = engine_is_new(e, "zeroth_set_model");
	if (!rc)
		rc = engine_given(e, m != NULL, "zeroth_set_model: model");
	if (rc)
		return rc;

	rc = ENGINE_SIZED(e, m, struct zeroth_model, held_out, "zeroth_set_model: zeroth_model");
	if (!rc)
		rc = check_struct_sizes(e, m);
	if (rc)
		return rc;

	rc = engine_given(e, m->units || !m->n_units, "zeroth_set_model: units");
	if (!rc)
		rc = engine_given(e, m->layers || !m->n_layers, "zeroth_set_model: layers");
	if (rc)
		return rc;

	memcpy(&e->model, m, m->size < sizeof *m ? m->size : sizeof *m);
	return 0;
}

/* ---- the end --------------------------------------------------------------------- */

static void end_threads(struct zeroth *e)
{
	pthread_mutex_lock(&e->lock);
	for (int i = 0; i < e->started; i++)
		e->rank[i].asked = CMD_END;
	pthread_cond_broadcast(&e->asked);
	pthread_mutex_unlock(&e->lock);
	for (int i = 0; i < e->started; i++)
		pthread_join(e->rank[i].thread, NULL);
}

void zeroth_close(struct zeroth *e)
{
	if (engine_enter(e, "zeroth_close"))
		return;

	e->running = 1;
	end_threads(e);
	pthread_mutex_lock(&engines_lock);
	struct zeroth **at = &engines;
	while (*at != e)
		at = &(*at)->next;
	*at = e->next;
	pthread_mutex_unlock(&engines_lock);
	if (e->text_fd >= 0)
		close(e->text_fd);
	for (int i = 0; i < e->n_options; i++)
		free(e->option[i]);
	meeting_free(e->meeting);
	free(e->rank);
	free(e->option);
	free(e->entry);
	free(e->path);
	free(e->text);
	free(e->whole);
	pthread_cond_destroy(&e->answered);
	pthread_cond_destroy(&e->asked);
	pthread_mutex_destroy(&e->log_lock);
	pthread_mutex_destroy(&e->put_lock);
	pthread_mutex_destroy(&e->lock);
	free(e);
}
