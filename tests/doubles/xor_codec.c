/* SPDX-License-Identifier: Apache-2.0
 *
 * xor_codec.c - a toy codec on the gather of parameters: each share is sent with all its bits
 * turned over, and turned back where it arrives. It shows what a codec adds: an instruction before
 * the collective and one behind it, each with the bytes that it touches; what waits for what, the
 * proof and every tier follow by themselves. The linker puts it in front of what makes collectives
 * and of what casts (see local.mk: the program `xored` is zeroth otherwise).
 */
#include "core/exec/exec.h"
#include "core/lower/lower.h"

void __real_zr_low_collective(struct zr_lowering *l, int32_t kind, int32_t group, int32_t dtype,
			      int32_t root, int32_t n);
void __wrap_zr_low_collective(struct zr_lowering *l, int32_t kind, int32_t group, int32_t dtype,
			      int32_t root, int32_t n);
zr_call_fn __real_zr_begin_cast, __wrap_zr_begin_cast;

static void turn_over(struct zr_lowering *l, struct zr_operand from, struct zr_operand to)
{
	zr_low_emit(l,
		    (struct zr_instr){
			    .kind = ZR_I_CAST, .queue = ZR_Q_HOST, .dtype = ZR_U8, .from = ZR_U8 });
	zr_low_operand(l, ZR_O_CAST_FROM, from, ZR_READS);
	zr_low_operand(l, ZR_O_CAST_TO, to, ZR_WRITES);
}

/* Where the host can reach what is gathered. */
static int reaches(const struct zr_lowering *l, const struct zr_operand *o)
{
	return l->f->device_info.host_access || l->plan->region[o->region].store != ZR_STORE_DEVICE;
}

void __wrap_zr_low_collective(struct zr_lowering *l, int32_t kind, int32_t group, int32_t dtype,
			      int32_t root, int32_t n)
{
	int gather = l->op >= 0 && l->record->op[l->op].kind == ZR_P_GATHER &&
		     reaches(l, &l->part[0].recv);
	uint64_t rank = (uint64_t)l->f->mesh.group[group].rank;
	for (int32_t i = 0; gather && i < n; i++) {
		struct zr_sent_received *x = &l->part[i];
		struct zr_operand own =
			zr_operand_part(x->recv, rank * x->send.bytes, x->send.bytes);
		turn_over(l, x->send, own);
		x->send = own;
	}
	__real_zr_low_collective(l, kind, group, dtype, root, n);
	for (int32_t i = 0; gather && i < n; i++)
		turn_over(l, l->part[i].recv, l->part[i].recv);
}

int __wrap_zr_begin_cast(struct zr_session *s, const struct zr_call *c)
{
	if (c->i->dtype != ZR_U8)
		return __real_zr_begin_cast(s, c);
	for (uint64_t i = 0; i < c->o[ZR_O_CAST_FROM].bytes; i++)
		c->at[ZR_O_CAST_TO][i] = (char)~c->at[ZR_O_CAST_FROM][i];
	return 0;
}
