/* SPDX-License-Identifier: Apache-2.0
 *
 * t_act_moves.c - activations that wait in another tier: when they leave and return, that nothing
 * touches them on their way, bytes against formulas (I2), and the same bits (I1), through a store
 * that does everything as late as may be.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "activation_fixture.h"

#include <cmocka.h> /* last: it defines fail() */

/* As activation/offload answers with keep = `kept`. */
static void plant_offload(int kept)
{
	plant(0);
	for (int i = 0; i <= L - kept; i++)
		planted[i] = (struct zr_act_choice){ ZR_ACT_OFFLOAD, ZR_ACT_OFFLOAD };
}

static struct zr_setup *offloaded(const char *option, uint64_t align)
{
	struct zr_error err = { 0 };
	struct zr_setup *s = six(option);
	plant_store(s, align);
	if (ask_again(s, &err))
		fail_msg("%s", err.text);
	return s;
}

/* "f0 .. >s1 f2 <- .. <o3 .." : > leaves, < returns, / and \ the second hops of them, ) and ( the
 * waits. */
static void program_text(const struct zr_setup *s, char *buf)
{
	const struct zr_program *p = &s->programs.recorded[ZR_PROG_MICRO];
	*buf = 0;
	for (int32_t i = 0; i < p->n; i++) {
		int wait = p->op[i].kind == ZR_P_WAIT ? 1 : p->op[i].kind == ZR_P_HOP ? 2 : 0;
		const struct zr_pop *op = wait ? &p->op[p->op[i].target] : &p->op[i];
		if (op->kind == ZR_P_LAYER) {
			const struct zr_use *use = &s->programs.train_uses.use[op->use];
			buf += sprintf(buf, " %c%d", "frb"[use->phase], use -> layer);
		} else if (op->kind == ZR_P_SPILL || op->kind == ZR_P_FETCH) {
			const struct zr_act_move *m = &s->programs.train_act.move[op->use];
			buf += sprintf(buf, " %c%c%d",
				       "><)(/\\"[2 * wait + (op->kind == ZR_P_FETCH)],
				       m -> saved ? 's' : 'o', m->layer);
		}
	}
}

static void moves_run_beside_the_next_use(void **unused)
{
	(void)unused;
	char got[1024];
	plant(0);
	planted[2] = (struct zr_act_choice){ ZR_ACT_OFFLOAD, ZR_ACT_OFFLOAD };
	/* its output is back too soon: read 3 uses later */
	planted[5] = (struct zr_act_choice){ ZR_ACT_OFFLOAD, ZR_ACT_OFFLOAD };
	planted[6] = (struct zr_act_choice){ ZR_ACT_OFFLOAD, ZR_ACT_OFFLOAD }; /* both are */
	struct zr_setup *s = offloaded(NULL, 64);
	program_text(s, got);
	assert_string_equal(got, " f0 f1 f2 >s2 f3 )s2 >o2 f4 )o2 f5 >s5 f6 )s5 b7 <s5 b6 (s5 b5 "
				 "<o2 b4 (o2 <s2 b3 (s2 b2 b1 b0");
	walk_program(s, ZR_S_LAST);
	plan_close(s);
}

/* From a device that only copies reach to disk: host memory lies between, and no hop waits where it
 * was begun. What is back so soon that its way out is not over yet waits for it first. */
static void each_leg_runs_beside_a_use(void **unused)
{
	(void)unused;
	struct zr_error err = { 0 };
	char got[1024];
	plant(0);
	planted[2] = planted[5] = (struct zr_act_choice){ ZR_ACT_OFFLOAD, ZR_ACT_OFFLOAD };
	struct zr_setup *s = six(NULL);
	plant_store(s, 4096);
	s->facts.device_info.unified = s->facts.device_info.host_access = 0;
	assert_int_equal(ask_again(s, &err), 0);
	program_text(s, got);
	assert_string_equal(got, " f0 f1 f2 >s2 f3 /s2 >o2 f4 )s2 /o2 f5 )o2 >s5 f6 /s5 )s5 <s5 b7 "
				 "\\s5 b6 (s5 <o2 b5 \\o2 <s2 b4 (o2 \\s2 b3 (s2 b2 b1 b0");
	walk_program(s, ZR_S_LAST);
	plan_close(s);
}

/* Out of a segment's first recompute they are in until its last backward. */
static void outputs_return_before_their_segment_runs_again(void **unused)
{
	(void)unused;
	char got[1024];
	plant(0);
	for (int i = 1; i <= 4; i++)
		planted[i] = (struct zr_act_choice){ i % 2 ? ZR_ACT_RECOMPUTE : ZR_ACT_OFFLOAD,
						     ZR_ACT_RECOMPUTE };
	struct zr_setup *s = offloaded(NULL, 64);
	program_text(s, got);
	assert_string_equal(got, " f0 f1 f2 f3 >o2 f4 )o2 f5 >o4 f6 )o4 b7 <o4 b6 (o4 <o2 b5 (o2 "
				 "r3 r4 b4 b3 r1 r2 b2 b1 b0");
	walk_program(s, ZR_S_LAST);
	plan_close(s);

	/* there are enough uses between r4 and b4 to leave again: it stays */
	for (int i = 1; i <= L; i++)
		planted[i] = (struct zr_act_choice){ i == 3 ? ZR_ACT_OFFLOAD :
						     i < 3  ? ZR_ACT_KEEP :
							      ZR_ACT_RECOMPUTE,
						     i > 3 ? ZR_ACT_RECOMPUTE : ZR_ACT_KEEP };
	s = offloaded(NULL, 64);
	program_text(s, got);
	assert_string_equal(got, " f0 f1 f2 f3 f4 >o3 f5 )o3 f6 <o3 b7 (o3 r4 r5 r6 b6 b5 b4 b3 b2 "
				 "b1 b0");
	plan_close(s);
}

static void nothing_touches_what_moves(void **unused)
{
	(void)unused;
	struct zr_error err = { 0 };
	struct zr_setup *s = six("precision.plugin=bf16");
	int moves = 0;
	for (uint32_t seed = 0; seed < 300; seed++) {
		s->facts.device_info.unified = s->facts.device_info.host_access = seed % 4 < 2;
		plant_store(s, seed & 1 ? 64 : 4096);
		plant_any(seed);
		planted[1].saved = planted[1].saved == ZR_ACT_KEEP ? ZR_ACT_OFFLOAD :
								     planted[1].saved;
		if (ask_again(s, &err)) {
			assert_non_null(strstr(err.text, "[offload.activation] does nothing"));
			continue;
		}
		walk_program(s, ZR_S_LAST);
		walk_program(s, ZR_S_EVAL);
		moves += s->programs.train_act.n_moves;
	}
	assert_true(moves > 1000);
	plan_close(s);
}

static void the_program_counts_what_it_moves_apart(void **unused)
{
	(void)unused;
	plant_offload(2);
	struct zr_setup *s = offloaded(NULL, 64);
	uint64_t moved = 0;
	for (int32_t i = 0; i < s->programs.recorded[ZR_PROG_MICRO].n; i++)
		if (s->programs.recorded[ZR_PROG_MICRO].op[i].kind == ZR_P_SPILL ||
		    s->programs.recorded[ZR_PROG_MICRO].op[i].kind == ZR_P_FETCH)
			moved += s->programs.recorded[ZR_PROG_MICRO].op[i].bytes;
	assert_int_equal(moved,
			 2 * (5 * s->facts.layer_bytes[1].out + 4 * s->facts.layer_bytes[1].saved));
	assert_int_equal(program_bytes(&s->programs.recorded[ZR_PROG_MICRO]), 0);
	plan_close(s);
}

/* ---- bytes ---- */

/* Two of a layer's saved parts meet, with three outputs: what the last layer left still leaves.
 * Unless more are kept. */
static void I2_two_layers_are_on_the_device_however_many_there_are(void **unused)
{
	(void)unused;
	for (int kept = 2; kept < L; kept++)
		for (uint64_t align = 64; align <= 4096; align *= 64) {
			plant_offload(kept);
			struct zr_setup *s = offloaded("precision.plugin=bf16", align);
			uint64_t out = up(s->facts.layer_bytes[1].out, align),
				 saved = up(s->facts.layer_bytes[1].saved, align);
			uint64_t few = 2 * saved + 3 * out, stay = (uint64_t)kept * (saved + out),
				 away = (uint64_t)(L - kept);
			assert_int_equal(s->plan.region[ZR_R_ACT].bytes, few > stay ? few : stay);
			assert_int_equal(s->plan.region[ZR_R_ACT_OFFLOADED].bytes,
					 up(out + away * (out + saved), 4096));
			assert_int_equal(s->plan.region[ZR_R_ACT_OFFLOADED].tier, ZR_TIER_DISK);
			plan_close(s);
		}
}

/* ---- the same bits ---- */

static void I1_wherever_they_wait(void **unused)
{
	(void)unused;
	static const char *const precision[] = { "precision.plugin=fp32", "precision.plugin=bf16" };
	for (int p = 0; p < 2; p++) {
		struct bits want = train_bits((struct training){ .option = { precision[p] } });
		for (uint32_t seed = 0; seed < 8; seed++) {
			if (seed < 2)
				plant_offload(seed ? 1 : 2);
			else
				plant_any(seed);
			planted[1].saved = planted[1].saved == ZR_ACT_KEEP ? ZR_ACT_OFFLOAD :
									     planted[1].saved;
			planted[1].out = planted[1].out == ZR_ACT_KEEP ? ZR_ACT_OFFLOAD :
									 planted[1].out;
			struct bits got = train_bits((struct training){
				{ precision[p] }, 1, seed & 1 ? 64 : 4096, seed / 2 % 2 });
			assert_memory_equal(&got, &want, sizeof want);
			assert_true(store_moved() > 0);
		}
	}
}

static void a_failed_transfer_ends_the_step(void **unused)
{
	(void)unused;
	const char *o[] = { SIX, "device.threads=1", NULL };
	struct zr_error err = { 0 };
	struct zr_session *session = NULL;
	struct zr_step_result r;
	for (int nth = 1; nth < 18; nth += 4) {
		struct zr_setup *s = plan_try(0, 0, o, &err);
		assert_non_null(s);
		plant_store(s, 64);
		plant_offload(2);
		s->facts.device_info.unified = s->facts.device_info.host_access = nth % 8 == 1;
		assert_int_equal(ask_again(s, &err), 0);
		assert_int_equal(zr_session_open(s, &session, &err), 0);
		assert_int_equal(zr_session_begin(session, zr_init_values, session, &err), 0);
		store_fail(nth);
		assert_int_equal(zr_session_step(session, 0, &r, &err), ZR_EIO);
		zr_session_close(session);
		assert_int_equal(store_outstanding(), 0);
		plan_close(s);
	}
}

/* ---- refusals ---- */

static void refused(const char *const *options, const char *text)
{
	struct zr_error err;
	assert_null(plan_try(ZR_SETUP_ALONE, 1, options, &err));
	if (!strstr(err.text, text))
		fail_msg("refused with: %s; wanted: %s", err.text, text);
}

#define REFUSED(text, ...) refused((const char *const[]){ SIX, __VA_ARGS__, NULL }, text)

static void sections_that_cannot_act_are_refused(void **unused)
{
	(void)unused;
	struct zr_error err = { 0 };
	struct zr_setup *s = six(NULL);
	plant(0);
	plant_store(s, 64);
	assert_int_equal(ask_again(s, &err), ZR_EINVAL);
	assert_non_null(strstr(err.text, "[offload.activation] does nothing: with [activation] "
					 "keep every activation stays"));
	plan_close(s);

	REFUSED("[activation] offload: layer embed is to wait in another memory",
		"activation.plugin=offload");
	REFUSED("keep = 6: of the model's 7 layers before the loss none but the first would leave",
		"activation.plugin=offload", "activation.keep=6");
	REFUSED("with outputs = offload give every", "activation.plugin=recompute",
		"activation.max_bytes=1G", "activation.outputs=offload");
}

/* Without a section of the user's: that of the defaults, once something waits there. */
static void the_default_is_there_on_demand(void **unused)
{
	(void)unused;
	static const char *const policy[] = { "activation.plugin=keep",
					      "activation.plugin=recompute",
					      "activation.plugin=offload" };
	for (int i = 0; i < 3; i++) {
		struct zr_error err = { 0 };
		struct zr_setup *s = plan_try(
			ZR_SETUP_ALONE, 1,
			(const char *const[]){ SIX, "device.memory=1G", policy[i], NULL }, &err);
		if (!s)
			fail_msg("%s", err.text);
		assert_int_equal(zr_offloaded(&s->facts, ZR_STORE_ACTIVATION), i == 2);
		const char *place =
			i == 2 ? zr_config_source(s->cfg, "offload.activation", "plugin") : NULL;
		assert_true(i == 2 ? !strncmp(place, "defaults.ini:", 13) :
				     !zr_config_find(s->cfg, "offload.activation"));
		assert_true((s->plan.region[ZR_R_ACT_OFFLOADED].bytes > 0) == (i == 2));
		plan_close(s);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(moves_run_beside_the_next_use),
		cmocka_unit_test(each_leg_runs_beside_a_use),
		cmocka_unit_test(outputs_return_before_their_segment_runs_again),
		cmocka_unit_test(nothing_touches_what_moves),
		cmocka_unit_test(the_program_counts_what_it_moves_apart),
		cmocka_unit_test(I2_two_layers_are_on_the_device_however_many_there_are),
		cmocka_unit_test(I1_wherever_they_wait),
		cmocka_unit_test(a_failed_transfer_ends_the_step),
		cmocka_unit_test(sections_that_cannot_act_are_refused),
		cmocka_unit_test(the_default_is_there_on_demand),
	};
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, plan_data, plan_data_remove);
}
