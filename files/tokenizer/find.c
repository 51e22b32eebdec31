/* SPDX-License-Identifier: Apache-2.0
 *
 * find.c - where the tokenizer.json is that a path means, and what a tokenizer is that has none;
 * see tokenizer.h.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "files/tokenizer/tokenizer.h"

/* What other files of tokenizers are, the most telling first. */
static const struct {
	const char *name, *family;
} others[] = {
	{ "tekken.json", "a tokenizer of Mistral's own, Tekken" },
	{ "tokenizer.model", "a model of SentencePiece, as of Llama 2, Mistral and Gemma" },
	{ "spiece.model", "a model of SentencePiece, as of T5 and ALBERT" },
	{ "sentencepiece.bpe.model", "a model of SentencePiece, as of XLM-R and NLLB" },
	{ "spm.model", "a model of SentencePiece, as of DeBERTa" },
	{ "tiktoken.model", "a vocabulary of tiktoken" },
	{ "qwen.tiktoken", "a vocabulary of tiktoken" },
	{ "vocab.txt", "a vocabulary of WordPiece, as of BERT" },
	{ "vocab.json", "half of a byte-level BPE, as of GPT-2" },
	{ "merges.txt", "half of a byte-level BPE, as of GPT-2" },
};

/* A file of tiktoken has a token in base64 and its number on each line. */
static int is_tiktoken(const char *path)
{
	static const char base64[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=";
	char text[256] = "";
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = 0;

	if (fd >= 0) {
		n = read(fd, text, sizeof text - 1);
		close(fd);
	}

	size_t token = 0;
	if (n > 0)
		token = strspn(text, base64);

	return token && text[token] == ' ' && text[token + 1] >= '0' && text[token + 1] <= '9';
}

/* NULL: nothing that is known. */
static const char *family_of(const char *path)
{
	const char *name = strrchr(path, '/'), *end = strrchr(path, '.');
	name = name ? name + 1 : path;
	if (end && (!strcmp(end, ".tiktoken") || !strcmp(end, ".model")) && is_tiktoken(path))
		return "a vocabulary of tiktoken";

	for (size_t i = 0; i < sizeof others / sizeof *others; i++)
		if (!strcmp(name, others[i].name))
			return others[i].family;
	if (end && !strcmp(end, ".model"))
		return "a model of SentencePiece";

	return NULL;
}

/* dir: where the model is, of n bytes. */
static int refuse(const char *path, const char *dir, size_t n, struct zr_error *err)
{
	return zr_err(err, ZR_ENOTSUP,
		      "%s: is %s, which is not read; this writes its tokenizer.json: python3 -c "
		      "\"from transformers import AutoTokenizer as A; "
		      "A.from_pretrained('%.*s').save_pretrained('%.*s')\"",
		      path, family_of(path), (int)n, dir, (int)n, dir);
}

static int in_directory(const char *dir, char file[ZR_TOKENIZER_PATH], struct zr_error *err)
{
	size_t n = strlen(dir);
	while (n > 1 && dir[n - 1] == '/')
		n--;
	snprintf(file, ZR_TOKENIZER_PATH, "%.*s/tokenizer.json", (int)n, dir);
	if (!access(file, F_OK))
		return 0;

	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		snprintf(file, ZR_TOKENIZER_PATH, "%.*s/%s", (int)n, dir, others[i].name);
		if (!access(file, F_OK))
			return refuse(file, dir, n, err);
	}

	return zr_err(err, ZR_EINVAL, "%s: is a directory without a tokenizer.json", dir);
}

int zr_tokenizer_find(const char *path, char file[ZR_TOKENIZER_PATH], struct zr_error *err)
{
	const char *slash = strrchr(path, '/');
	struct stat st;

	if (strlen(path) + 64 > ZR_TOKENIZER_PATH)
		return zr_err(err, ZR_EINVAL, "the path of a tokenizer is too long");
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		return in_directory(path, file, err);
	if (family_of(path) && !access(path, F_OK))
		return refuse(path, slash ? path : ".", slash ? (size_t)(slash - path) : 1, err);

	strcpy(file, path);
	return 0;
}
