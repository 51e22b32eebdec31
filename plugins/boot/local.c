/* SPDX-License-Identifier: Apache-2.0
 *
 * local.c - boot of one process: rank 0 of 1, on this machine.
 */
#include <zeroth/boot.h>

#include <stdlib.h>
#include <unistd.h>

struct zr_inst {
	const struct zr_host *h;
};

static int local_info(struct zr_inst *inst, struct zr_boot_info *info)
{
	(void)inst;
	info->rank = info->local_rank = info->node = 0;
	info->world = info->local_world = info->nodes = 1;
	if (gethostname(info->host, sizeof info->host))
		info->host[0] = 0;
	info->host[sizeof info->host - 1] = 0; /* a longer name is cut, perhaps without its end */
	return ZR_OK;
}

static int local_create(const struct zr_host *h, const void *opts, struct zr_inst **out)
{
	struct zr_inst *inst = malloc(sizeof *inst);
	(void)opts;
	if (!inst)
		return zr_fail(h, ZR_ENOMEM, "no memory");
	inst->h = h;
	*out = inst;
	return ZR_OK;
}

static void local_destroy(struct zr_inst *inst)
{
	free(inst);
}

static const struct zr_boot_v1 vtbl = { .size = sizeof vtbl, .info = local_info };
static const struct zr_iface ifaces[] = { { "zr.boot/1", &vtbl }, { NULL, NULL } };

static const struct zr_desc desc = {
	.size = sizeof desc,
	.role = "boot",
	.id = "local",
	.version = "1",
	.license = "Apache-2.0",
	.summary = "One process: rank 0 of 1.",
	.ifaces = ifaces,
	.create = local_create,
	.destroy = local_destroy,
};
ZR_PLUGIN(&desc);
