/* SPDX-License-Identifier: Apache-2.0
 *
 * groups.c - a stage whose groups SPLIT gives (in the environment) as digits: of parameters, of
 * gradients, of state. Where more follow, units take the digits of state in turn.
 */
#include <string.h>
#include <zeroth/zero.h>

#include "wrapped.h"

WRAP_MADE(zero, getenv("SPLIT")[0] == '0' ? "zero/stage1.so" : "zero/stage3.so", "groups")

static int groups(struct zr_inst *inst, const struct zr_groups_of *of, struct zr_groups *out)
{
	const char *split = getenv("SPLIT"), *state = split + 2;
	int rc = real_vtbl->groups(inst, of, out);
	if (out->param != ZR_GROUP_SELF)
		out->param = split[0] - '0';
	out->grad = split[1] - '0';
	out->state = state[(size_t)of->unit % strlen(state)] - '0';
	return rc;
}

__attribute__((constructor)) static void begin_wrapping(void)
{
	wrap();
	vtbl.groups = groups;
}

ZR_PLUGIN(&desc);
