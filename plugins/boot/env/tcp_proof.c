/* SPDX-License-Identifier: Apache-2.0
 *
 * tcp_proof.c - proofs that a rank knows the token: see tcp.h.
 */
#define _GNU_SOURCE
#include "tcp.h"

#include <crypt.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define METHOD "$5$rounds=1000$" /* SHA-256, as short as crypt does it */

int zt_draw_salt(char salt[ZT_SALT + 1])
{
	static const char letters[] = "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
				      "abcdefghijklmnopqrstuvwxyz";
	unsigned char drawn[ZT_SALT];
	if (getrandom(drawn, sizeof drawn, 0) != sizeof drawn)
		return -1;

	for (int i = 0; i < ZT_SALT; i++)
		salt[i] = letters[drawn[i] % 64];
	salt[ZT_SALT] = 0;
	return 0;
}

int zt_prove(const char *side, const char *token, const char *salt, char proof[ZT_PROOF])
{
	char phrase[ZT_TOKEN + 32], setting[sizeof METHOD + ZT_SALT];
	snprintf(phrase, sizeof phrase, "%s %s", side, token);
	snprintf(setting, sizeof setting, METHOD "%s", salt);

	struct crypt_data *room = calloc(1, sizeof *room);
	if (!room)
		return -1;

	/* not crypt_r(): sanitizers put theirs before it, which finds none in a program without
	 * libcrypt */
	const char *made = crypt_rn(phrase, setting, room, sizeof *room);
	int ok = made && *made == '$' && strlen(made) < ZT_PROOF;
	if (ok)
		strcpy(proof, made);
	explicit_bzero(room, sizeof *room);
	explicit_bzero(phrase, sizeof phrase);
	free(room);
	return ok ? 0 : -1;
}

int zt_is_proof(const char *a, const char *b)
{
	unsigned differs = 0;
	for (int i = 0; i < ZT_PROOF; i++) {
		differs |= (unsigned)(a[i] ^ b[i]);
		if (!b[i])
			break;
	}
	return !differs;
}
