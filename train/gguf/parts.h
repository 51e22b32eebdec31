/* SPDX-License-Identifier: Apache-2.0
 *
 * parts.h - what the files of this folder share:
 *
 *   family.c       which models there are, and what llama.cpp calls their tensors
 *   family_keys.c  what the model computes, as keys; family_rope.c: its rotary positions
 *   tokens.c       which kind of tokenizer the model has
 *   bpe.c          byte-level BPE, as of GPT-2; pre.c: how it cuts text, by the names of known.c
 *   pieces.c       SentencePiece's BPE, of the bytes that proto.c reads
 *   special.c      the tokens that mark places, and chat templates
 *   beside.c       files of the tokenizer
 *   gguf.c         the file, see gguf.h
 */
#ifndef ZR_TRAIN_GGUF_PARTS_H
#define ZR_TRAIN_GGUF_PARTS_H

#include <jansson.h>

#include "core/model/layout.h"
#include "files/gguf/gguf.h"

/* ---- models ---- */

enum zr_gguf_family_id {
	ZR_GGUF_LLAMA,
	ZR_GGUF_MISTRAL,
	ZR_GGUF_QWEN2,
	ZR_GGUF_QWEN3,
	ZR_GGUF_GEMMA2,
	ZR_GGUF_GEMMA3,
	ZR_GGUF_PHI3
};

struct zr_gguf_family {
	const char *architecture; /* in config.json */
	const char *name;         /* of llama.cpp; it begins the keys */
	enum zr_gguf_family_id id;
	int turned;  /* rows of q and k: the halves of each head become pairs */
	int shifted; /* norms: their weights are one more */
};

/* ZR_EINVAL: there is none for the model. */
int zr_gguf_family(const json_t *meta, const struct zr_gguf_family **out, struct zr_error *err);

/* Name of a tensor, as config.json's class has it, for llama.cpp. ZR_EINVAL: it has none. */
int zr_gguf_name(const struct zr_gguf_family *f, const char *name, char out[128],
		 struct zr_error *err);

/* What the keys of a model say, by the texts of its description. */
struct zr_gguf_shape {
	int64_t layers, heads, kv_heads, head_dim, width, ffn, context, vocabulary;
	double norm_eps, theta;
	json_t *rope;     /* its rope_scaling, owned; NULL: none */
	const char *rule; /* "linear"; "default" where there is none */
};

int zr_gguf_shape_of(const json_t *meta, struct zr_gguf_shape *s, struct zr_error *err);
void zr_gguf_shape_free(struct zr_gguf_shape *s);

/* A value of the description: NULL is none. */
const char *zr_gguf_word(const json_t *meta, const char *key);
/* Numbers of it; 0 for what is not there or null. */
int64_t zr_gguf_whole(const json_t *meta, const char *key);
double zr_gguf_real(const json_t *meta, const char *key);

struct zr_gguf_describe {
	const struct zr_gguf_family *family;
	const struct zr_gguf_shape *shape;
	const json_t *meta;
	const struct zr_layout *layout;
	struct zr_gguf_keys *keys;
};

/* Keys that begin with the family's name. */
void zr_gguf_own_u32(const struct zr_gguf_describe *d, const char *key, int64_t value);
void zr_gguf_own_f32(const struct zr_gguf_describe *d, const char *key, double value);
void zr_gguf_own_text(const struct zr_gguf_describe *d, const char *key, const char *value);

/* All keys of what the model computes. ZR_EINVAL: llama.cpp would compute another one. */
int zr_gguf_family_keys(const struct zr_gguf_describe *d, struct zr_error *err);

/* Keys of rotary positions. */
int zr_gguf_rope_keys(const struct zr_gguf_describe *d, struct zr_error *err);
/* Tensors of factors of wavelengths, at most two; their values are owned. */
struct zr_gguf_factors {
	const char *name;
	float *value;
	int64_t n;
};
int zr_gguf_rope_factors(const struct zr_gguf_describe *d, struct zr_gguf_factors out[2], int *n,
			 struct zr_error *err);

/* ---- tokenizers ---- */

struct zr_gguf_tokens {
	const char *dir;
	json_t *json;         /* tokenizer.json; NULL: there is none, as of the next one */
	json_t *settings;     /* tokenizer_config.json */
	const json_t *config; /* config.json */
	int64_t vocabulary;
	struct zr_gguf_keys *keys;
	int32_t turn_end; /* the token that ends a turn, where no file says it; negative: none */
	int never_begins; /* no token is put before a text, whatever the files say */
	int *as_phi3;     /* set where it has the tokens that llama.cpp looks for in a Phi-3 */
};

/* The types of tokens, by their numbers in the file. */
enum {
	ZR_TOKEN_NORMAL = 1,
	ZR_TOKEN_UNKNOWN = 2,
	ZR_TOKEN_CONTROL = 3,
	ZR_TOKEN_DEFINED = 4,
	ZR_TOKEN_UNUSED = 5,
	ZR_TOKEN_BYTE = 6
};

/* One token of each number. */
struct zr_gguf_token {
	char *text; /* owned */
	size_t bytes;
	float score;
	int32_t type;
};

/* tokens.c: all keys of the tokenizer. added: [model] add_tokens; NULL: none.
 * *as_phi3: see above. */
int zr_gguf_tokenizer(const char *dir, const char *added, const struct zr_gguf_family *f,
		      const json_t *config, int64_t vocabulary, struct zr_gguf_keys *keys,
		      int *as_phi3, struct zr_error *err);

/* beside.c: the object of a file in the directory; *out NULL: there is none. */
int zr_gguf_beside(const char *dir, const char *name, json_t **out, struct zr_error *err);
/* All of a file in the directory, owned; *text NULL: there is none. */
int zr_gguf_beside_text(const char *dir, const char *name, char **text, size_t *bytes,
			struct zr_error *err);
/* A list in which number i is [PADi], unused. */
struct zr_gguf_token *zr_gguf_list_new(int64_t n, float score, struct zr_error *err);
void zr_gguf_list_free(struct zr_gguf_token *list, int64_t n); /* NULL is fine */
int zr_gguf_list_set(struct zr_gguf_token *t, const char *text, size_t bytes, float score,
		     int32_t type, struct zr_error *err);
/* The same, with a space for each sign that SentencePiece has for one. */
int zr_gguf_list_set_spaced(struct zr_gguf_token *t, const char *text, float score, int32_t type,
			    struct zr_error *err);
/* Whether a token is one of control although its file does not say so. */
int zr_gguf_looks_special(const char *text);
void zr_gguf_list_keys(struct zr_gguf_keys *k, const struct zr_gguf_token *list, int64_t n,
		       int scores);

/* bpe.c */
int zr_gguf_bpe(const struct zr_gguf_tokens *t, struct zr_error *err);
/* pre.c: the name for how the tokenizer cuts text. *said: nobody has given that name to a tokenizer
 * of these tokens; it is the one of others that cut text in the same way. */
int zr_gguf_pre(const struct zr_gguf_tokens *t, const char **name, int *said, struct zr_error *err);

/* known.c: the name of a digest; NULL: nobody has given one. */
const char *zr_gguf_known(const char *digest);

/* pieces.c: `phi`: Phi-3 takes added tokens from tokenizer.json, too. */
int zr_gguf_pieces(const struct zr_gguf_tokens *t, int phi, struct zr_error *err);

/* proto.c: the pieces of tokenizer.model. */
struct zr_gguf_piece {
	const char *text; /* not ended by a 0 */
	size_t bytes;
	float score;
	int32_t type; /* as SentencePiece numbers them: those above, without DEFINED's meaning */
};

struct zr_gguf_proto {
	struct zr_gguf_piece *piece; /* owned; texts are those of the file */
	int64_t n;
	int32_t model; /* 1: Unigram, 2: BPE, 3: words, 4: characters */
};

int zr_gguf_proto_read(const char *data, size_t n, const char *path, struct zr_gguf_proto *out,
		       struct zr_error *err);

/* special.c: special tokens, whether they are added to a text, the chat template. begins: whether
 * the first one is, where the files do not say it; negative: nothing is written then. */
int zr_gguf_special(const struct zr_gguf_tokens *t, int begins, struct zr_error *err);

#endif
