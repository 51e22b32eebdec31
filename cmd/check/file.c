/* SPDX-License-Identifier: Apache-2.0
 *
 * file.c - the plugin's file as the linker made it, before any of its code runs.
 */
#include "cmd/check/check.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define ENTRY "zr_plugin_entry_v1"

struct object {
	const char *bytes;
	uint64_t n;
	const ElfW(Phdr) * part;
	int n_parts;
	const ElfW(Dyn) * dynamic;
	const ElfW(Sym) * symbol;
	uint64_t n_dynamic, n_symbols;
	const char *names; /* of symbols and libraries */
	uint64_t n_names;
};

/* [at, at + n) of the file, or the test ends: `what` does not lie in it. */
static const void *within(struct zr_check *c, const struct object *o, uint64_t at, uint64_t n,
			  const char *what)
{
	if (at > o->n || n > o->n - at)
		zr_check_fail(c, "the file is truncated: %s is not in it; build it again", what);
	return o->bytes + at;
}

static const char *name_at(struct zr_check *c, const struct object *o, uint64_t at)
{
	if (at >= o->n_names || !memchr(o->names + at, 0, o->n_names - at))
		zr_check_fail(c, "the file is damaged: a name is not in it; build it again");
	return o->names + at;
}

static void read_symbols(struct zr_check *c, struct object *o, const ElfW(Ehdr) * h)
{
	const ElfW(Shdr) *s =
		within(c, o, h->e_shoff, (uint64_t)h->e_shnum * sizeof *s, "the table of sections");
	for (int i = 0; i < h->e_shnum; i++) {
		if (s[i].sh_type != SHT_DYNSYM || s[i].sh_link >= h->e_shnum)
			continue;

		const ElfW(Shdr) *names = &s[s[i].sh_link];
		o->symbol = within(c, o, s[i].sh_offset, s[i].sh_size, "the table of symbols");
		o->n_symbols = s[i].sh_size / sizeof *o->symbol;
		o->names = within(c, o, names->sh_offset, names->sh_size, "the names of symbols");
		o->n_names = names->sh_size;
	}
}

static struct object read_object(struct zr_check *c)
{
	struct object o = { 0 };
	struct stat st;

	int fd = open(c->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st)) {
		zr_check_has_file(c);
		zr_check_fail(c, "the file cannot be read");
	}

	o.n = (uint64_t)st.st_size;
	if (o.n)
		o.bytes = mmap(NULL, o.n, PROT_READ, MAP_PRIVATE, fd, 0);
	else
		o.bytes = MAP_FAILED;
	close(fd);
	if (o.bytes == MAP_FAILED && errno == ENOMEM)
		zr_check_lacks(c, "memory");
	if (o.bytes == MAP_FAILED)
		zr_check_fail(c, "the file cannot be read");
	const ElfW(Ehdr) *h = within(c, &o, 0, sizeof *h, "its header");
	if (memcmp(h->e_ident, ELFMAG, SELFMAG) || h->e_type != ET_DYN)
		zr_check_fail(c, "it is no shared object; link it with -shared");
	o.part = within(c, &o, h->e_phoff, (uint64_t)h->e_phnum * sizeof *o.part,
			"the table of segments");
	o.n_parts = h->e_phnum;
	for (int i = 0; i < o.n_parts; i++)
		if (o.part[i].p_type == PT_DYNAMIC) {
			o.dynamic = within(c, &o, o.part[i].p_offset, o.part[i].p_filesz,
					   "the dynamic section");
			o.n_dynamic = o.part[i].p_filesz / sizeof *o.dynamic;
		}
	read_symbols(c, &o, h);
	return o;
}

void zr_test_symbols(struct zr_check *c)
{
	struct object o = read_object(c);
	int entry = 0;

	for (uint64_t i = 0; i < o.n_symbols; i++) {
		const ElfW(Sym) *s = &o.symbol[i];
		const char *name = name_at(c, &o, s->st_name);
		if (s->st_shndx == SHN_UNDEF || ELF64_ST_BIND(s->st_info) == STB_LOCAL ||
		    s->st_shndx == SHN_ABS)
			continue;
		if (!strcmp(name, ENTRY)) {
			entry = 1;
			if (ELF64_ST_TYPE(s->st_info) != STT_OBJECT)
				zr_check_fail(c, ENTRY " is no data; use ZR_PLUGIN(&descriptor)");
		} else if (strncmp(name, "__asan", 6) && strncmp(name, "__odr_asan", 10) &&
			   strncmp(name, "__sanitizer", 11)) {
			zr_check_fail(c,
				      "it exports %s, which could take the place of another "
				      "plugin's; compile with -fvisibility=hidden, or declare it "
				      "static",
				      name);
		}
	}

	if (!entry)
		zr_check_fail(c, "it does not export " ENTRY "; end its source with "
				 "ZR_PLUGIN(&descriptor)");
}

void zr_test_sections(struct zr_check *c)
{
	struct object o = read_object(c);
	for (int i = 0; i < o.n_parts; i++) {
		if (o.part[i].p_type == PT_GNU_STACK && o.part[i].p_flags & PF_X)
			zr_check_fail(c, "it asks for an executable stack; avoid nested functions, "
					 "and end assembly with a .note.GNU-stack section");
		if (o.part[i].p_type == PT_LOAD &&
		    (o.part[i].p_flags & (PF_W | PF_X)) == (PF_W | PF_X))
			zr_check_fail(c, "a segment of it is writable and executable");
	}

	for (uint64_t i = 0; i < o.n_dynamic && o.dynamic[i].d_tag != DT_NULL; i++)
		if (o.dynamic[i].d_tag == DT_TEXTREL ||
		    (o.dynamic[i].d_tag == DT_FLAGS && o.dynamic[i].d_un.d_val & DF_TEXTREL))
			zr_check_fail(c, "its code is changed when it is loaded (TEXTREL); compile "
					 "all of it with -fPIC");
}

static void look_at_directory(struct zr_check *c, const char *dir, size_t n)
{
	char path[4096];
	struct stat st;

	snprintf(path, sizeof path, "%.*s", (int)n, dir);
	if (*path != '/' && strncmp(path, "$ORIGIN", 7))
		zr_check_fail(c,
			      "it looks for libraries in \"%s\", which depends on the working "
			      "directory; link it without -rpath, or with an absolute one",
			      path);
	if (*path == '/' && !stat(path, &st) && st.st_mode & S_IWOTH)
		zr_check_fail(c,
			      "it looks for libraries in %s, where everybody can write; link it "
			      "without this -rpath",
			      path);
}

void zr_test_runpath(struct zr_check *c)
{
	struct object o = read_object(c);
	for (uint64_t i = 0; i < o.n_dynamic && o.dynamic[i].d_tag != DT_NULL; i++) {
		if (o.dynamic[i].d_tag != DT_RUNPATH && o.dynamic[i].d_tag != DT_RPATH)
			continue;

		const char *at = name_at(c, &o, o.dynamic[i].d_un.d_val);
		for (size_t n; n = strcspn(at, ":"), 1; at += n + 1) {
			look_at_directory(c, at, n);
			if (!at[n])
				break;
		}
	}
}

/* What no plugin may call, and what is there instead. */
static const struct {
	const char *name, *instead;
} forbidden[] = {
	{ "exit", "return zr_fail(...)" },
	{ "_exit", "return zr_fail(...)" },
	{ "_Exit", "return zr_fail(...)" },
	{ "quick_exit", "return zr_fail(...)" },
	{ "abort", "return zr_fail(...)" },
	{ "__assert_fail", "return zr_fail(...), or compile with -DNDEBUG" },
	{ "setenv", "options" },
	{ "putenv", "options" },
	{ "unsetenv", "options" },
	{ "setlocale", "functions that do not depend on the locale" },
	{ "chdir", "absolute paths" },
	{ "signal", "nothing: signals are the host's" },
	{ "sigaction", "nothing: signals are the host's" },
	{ "fork", "nothing: processes are the host's" },
	{ "fesetround", "round-to-nearest" },
	{ "fesetenv", "the mode there is" },
	{ "printf", "zr_log" },
	{ "puts", "zr_log" },
	{ "putchar", "zr_log" },
	{ "perror", "zr_fail" },
	{ "__printf_chk", "zr_log" },
	{ "vprintf", "zr_log" },
};

void zr_test_imports(struct zr_check *c)
{
	struct object o = read_object(c);
	for (uint64_t i = 0; i < o.n_symbols; i++) {
		const char *name = name_at(c, &o, o.symbol[i].st_name);
		for (size_t k = 0; k < sizeof forbidden / sizeof *forbidden; k++)
			if (o.symbol[i].st_shndx == SHN_UNDEF && !strcmp(name, forbidden[k].name))
				zr_check_fail(c,
					      "it calls %s(), which changes or ends the whole "
					      "process, or prints; use %s",
					      name, forbidden[k].instead);
	}
}
