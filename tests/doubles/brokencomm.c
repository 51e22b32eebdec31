/* SPDX-License-Identifier: Apache-2.0
 *
 * brokencomm.c - comm/local that shows memory of another rank than it was asked for; built and run
 * by tests/system/plugin_check.sh.
 */
#include <zeroth/comm.h>

#include "wrapped.h"

WRAP(comm, "comm/local.so", "broken")

static void *mem_peer(struct zr_inst *inst, const void *mine, int32_t group, int32_t rank)
{
	return real_vtbl->mem_peer(inst, mine, group, (rank + 1) % host->world);
}

static int create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	host = h;
	return real->create(h, opts, out);
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.mem_peer = mem_peer;
}

ZR_PLUGIN(&desc);
