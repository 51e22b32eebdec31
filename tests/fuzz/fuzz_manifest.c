/* SPDX-License-Identifier: Apache-2.0
 *
 * fuzz_manifest.c - manifest.json of checkpoints. A right checksum makes nothing in it right.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "tests/lib/ckpt_fixture.h"

#define FIRST 28 /* bytes of the line with the checksum */

static struct zr_manifest here;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static uint8_t frozen[] = { 0, ZR_FROZEN_SAVED, 0, ZR_FROZEN_LEFT_OUT };
	static uint64_t source[4] = { [3] = UINT64_C(0x0123456789abcdef) };
	(void)argc, (void)argv;
	fuzz_quiet();
	ckpt_manifest(&here, 3);
	here.frozen = frozen;
	here.source = source;
	return 0;
}

/* What everyone does with a manifest that was read. */
static void use(const struct zr_manifest *m)
{
	char name[ZR_ENTRY_NAME];
	struct zr_error err = { 0 };
	int64_t n;
	if (zr_manifest_accepts(&here, m, 0, &err))
		fuzz_refused(&err);
	zr_ckpt_bytes(m);
	if (m->layout.parameters > 10000000)
		/* its files would be as large: zr_ckpt_open refuses those that are not there
		 * first */
		return;
	for (int32_t r = 0; r < m->world && r < 4; r++) {
		struct zr_ckpt_entry *e = zr_entries(m, r, &n);
		fuzz_check(e);
		for (int64_t i = 0; i < n && i < 100; i++)
			zr_entry_tensor(m, &e[i], name);
		free(e);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct zr_manifest m;
	struct zr_error err = { 0 };
	if (zr_manifest_parse((const char *)data, size, "manifest.json", &m, &err))
		return fuzz_refused(&err);
	use(&m);
	zr_manifest_free(&m);
	fuzz_usable++;
	return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t room, unsigned seed)
{
	if (size <= FIRST || seed % 16 == 0)
		return LLVMFuzzerMutate(data, size, room);
	size = FIRST + LLVMFuzzerMutate(data + FIRST, size - FIRST, room - FIRST);
	ckpt_sign((char *)data, size);
	return size;
}
