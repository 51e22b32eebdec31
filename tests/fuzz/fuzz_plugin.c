/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_plugin.c - plugin files as they are looked at before any of their code runs. What passes has
 * all that its headers promise, so that the dynamic linker does not fall behind its end.
 */
#include <link.h>
#include <string.h>

#include "core/plugin/plugin_file.h"
#include "fuzz.h"

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc, (void)argv;
	fuzz_quiet();
	return 0;
}

static int inside(size_t size, uint64_t at, uint64_t n)
{
	return at <= size && n <= size - at;
}

static void check_headers(const uint8_t *data, size_t size)
{
	ElfW(Ehdr) h;
	fuzz_check(size >= sizeof h);
	memcpy(&h, data, sizeof h);
	if (h.e_ident[EI_CLASS] != ELFCLASS64)
		return; /* dlopen refuses it by name */
	fuzz_check(!h.e_phnum || inside(size, h.e_phoff, (uint64_t)h.e_phnum * sizeof(ElfW(Phdr))));
	for (int i = 0; i < h.e_phnum; i++) {
		ElfW(Phdr) p;
		memcpy(&p, data + h.e_phoff + (size_t)i * sizeof p, sizeof p);
		fuzz_check(p.p_type != PT_LOAD || inside(size, p.p_offset, p.p_filesz));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zr_error err = { 0 };
	if (zr_plugin_file_check(fuzz_file("plugin.so", data, size), &err))
		return fuzz_refused(&err);
	check_headers(data, size);
	fuzz_usable++;
	return 0;
}
