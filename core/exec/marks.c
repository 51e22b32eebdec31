/* SPDX-License-Identifier: Apache-2.0
 *
 * marks.c - when copies start on a device that computes later than it is told to. It computes in
 * order. What the thread that begins instructions does not wait for before a copy is:
 *
 *   - the one instruction of the compute queue among its dependencies. Earlier ones are over with
 *     it, and a later one that mattered would be the dependency.
 *   - what other programs computed: all of it was enqueued before this program began.
 *   - the rest of a collective on device memory. Its wait() need not wait for the device: it may
 *     let the device compute no further before the collective is over. So a mark that is made
 *     after wait() is after the collective. Beside a second comm, a collective of host memory waits
 *     for those of device memory without sharing a byte with them, and whatever depends on the
 *     former seems to be after the latter: there each copy comes after all collectives on device
 *     memory that were waited for.
 *
 * Each of these is a mark, and the copy starts after the latest one. All else that it depends on is
 * over. The device remembers the last ZR_MARKS marks: a copy that needs an older one takes the
 * oldest of these, which is later and thus safe.
 */
#include "core/base/numbers.h"
#include "core/exec/exec.h"

int zr_can_mark(const struct zr_session *s)
{
	const struct zr_device_v1 *dev = s->roles->device.vtbl;
	return ZR_HAS(dev, struct zr_device_v1, copy_after) && dev->mark && dev->copy_after;
}

int zr_mark(struct zr_session *s, uint64_t *mark, struct zr_error *err)
{
	if (!zr_can_mark(s))
		return 0;

	*mark = ++s->marks.made;
	return ZR_ASK(&s->roles->device, device, mark, err, (uint32_t)(*mark % ZR_MARKS));
}

uint32_t zr_mark_before(const struct zr_session *s, const struct zr_instr *copy)
{
	const struct zr_lowered *p = s->running;
	uint64_t mark = s->marks.program;

	if (s->facts->two_comms)
		mark = zr_max(mark, s->marks.collective);
	for (int32_t k = 0; k < copy->n_after; k++) {
		int32_t i = p->dep[copy->after + k];
		if (p->instr[i].queue == ZR_Q_COMPUTE)
			mark = zr_max(mark, s->bound[p->id].mark[i]);
		else if (p->instr[i].flags & ZR_F_DEVICE)
			mark = zr_max(mark, s->marks.collective);
	}

	if (s->marks.made - mark >= ZR_MARKS)
		mark = s->marks.made - ZR_MARKS + 1;
	return (uint32_t)(mark % ZR_MARKS);
}
