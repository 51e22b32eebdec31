/* SPDX-License-Identifier: Apache-2.0
 *
 * lacking.c - the plugin $LACKING (boot/local, device/cpu, offload/cpu) without something that only
 * its answers show to be needed: put and get with several ranks, an operation that core calls, the
 * addresses of objects; or a model/ without a backward that works. Run by tests/system/contract.sh.
 */
#include <string.h>
#include <zeroth/boot.h>
#include <zeroth/device.h>
#include <zeroth/model.h>
#include <zeroth/offload.h>

#include "wrapped.h"

static struct zr_desc desc;
static struct zr_boot_v1 boot;
static struct zr_device_v1 device;
static struct zr_model_v1 model;
static struct zr_offload_v1 offload;
static struct zr_iface ifaces[2];
static struct zr_ops ops;
static const struct zr_device_v1 *real_device;

static const struct zr_ops *fewer(struct zr_inst *inst)
{
	ops = *real_device->ops(inst);
	ops.fold = NULL;
	return &ops;
}

static int fall(struct zr_inst *inst, const struct zr_layer_call *c)
{
	int *volatile nowhere = NULL;
	(void)inst;
	*nowhere = c->layer;
	return 0;
}

__attribute__((constructor)) static void wrap(void)
{
	char file[64];
	const char *id = getenv("LACKING") ? getenv("LACKING") : "boot/local";
	snprintf(file, sizeof file, "%s.so", id);
	const struct zr_desc *real = wrapped(file);
	const void *vtbl = real->ifaces[0].vtbl;
	desc = *real;
	desc.id = "lacking";
	desc.ifaces = ifaces;
	ifaces[0] = real->ifaces[0];
	if (!strcmp(real->role, "boot")) {
		boot = *(const struct zr_boot_v1 *)vtbl;
		boot.put = NULL, boot.get = NULL;
		ifaces[0].vtbl = &boot;
	} else if (!strcmp(real->role, "device")) {
		real_device = vtbl;
		device = *real_device;
		device.ops = fewer;
		ifaces[0].vtbl = &device;
	} else if (!strcmp(real->role, "model")) {
		model = *(const struct zr_model_v1 *)vtbl;
		model.backward = fall;
		ifaces[0].vtbl = &model;
	} else {
		offload = *(const struct zr_offload_v1 *)vtbl;
		offload.map = NULL;
		ifaces[0].vtbl = &offload;
	}
}

ZR_PLUGIN(&desc);
