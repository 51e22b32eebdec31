/* SPDX-License-Identifier: Apache-2.0
 *
 * template.c - see template.h: the templates that are known, and the Jinja texts that they render
 * like, by the hash of those, without a line end behind them: tests/golden/make_chat.py --hash.
 * That script compares all of these texts where it makes the golden files, and reads this list.
 */
#include "files/chat/template.h"

#include <string.h>
#include <xxhash.h>

#define CHATML_FORMS                                                                               \
	.system = "<|im_start|>system\n{content}<|im_end|>\n",                                     \
	.later = "<|im_start|>system\n{content}<|im_end|>\n",                                      \
	.user = "<|im_start|>user\n{content}<|im_end|>\n",                                         \
	.assistant = "<|im_start|>assistant\n{content}<|im_end|>\n"
#define CHATML(name_, begin_, system_, rules_)                                                     \
	{                                                                                          \
		.name = name_, .begin = begin_, CHATML_FORMS,                                      \
		.no_system = "<|im_start|>system\n" system_ "<|im_end|>\n", .eos = "<|im_end|>",   \
		.rules = rules_                                                                    \
	}

#define LLAMA3_HEAD "<|start_header_id|>{role}<|end_header_id|>\n\n"
#define LLAMA3_TURN LLAMA3_HEAD "{content|trim}<|eot_id|>"
#define LLAMA3_DATE "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"

#define LLAMA4_HEAD "<|header_start|>{role}<|header_end|>\n\n"

#define COHERE(role, content)                                                                      \
	"<|START_OF_TURN_TOKEN|><|" role "_TOKEN|>" content "<|END_OF_TURN_TOKEN|>"

#define INST " [INST] {content} [/INST]"
#define ALPACA                                                                                     \
	"Below is an instruction that describes a task. Write a response that appropriately "      \
	"completes the request."
#define ALPACA_INPUT                                                                               \
	"Below is an instruction that describes a task, paired with an input that provides "       \
	"further context. Write a response that appropriately completes the request."

static const struct zr_chat_template templates[] = {
	{ .name = "chatml", CHATML_FORMS, .bos = "", .eos = "<|im_end|>" },
	{ .name = "chatml-bos", .begin = "{bos}", CHATML_FORMS, .eos = "<|im_end|>" },
	CHATML("qwen2", NULL, "You are a helpful assistant.", 0),
	CHATML("qwen2.5", NULL,
	       "You are Qwen, created by Alibaba Cloud. You are a helpful assistant.",
	       ZR_CHAT_TRL_LINE),
	CHATML("hermes3", "{bos}", "You are a helpful assistant.", 0),
	CHATML("smollm", NULL,
	       "You are a helpful AI assistant named SmolLM, trained by Hugging Face", 0),
	{ .name = "llama2",
	  .user = "{bos}[INST] {content|trim} [/INST]",
	  .first = "{bos}[INST] {trim}<<SYS>>\n{system}\n<</SYS>>\n\n{content}{/trim} [/INST]",
	  .assistant = " {content|trim} {eos}",
	  .bos = "<s>",
	  .eos = "</s>",
	  .rules = ZR_CHAT_ALTERNATES },
	{ .name = "llama3",
	  .begin = "{bos}",
	  .system = LLAMA3_TURN,
	  .later = LLAMA3_TURN,
	  .user = LLAMA3_TURN,
	  .assistant = LLAMA3_TURN,
	  .bos = "<|begin_of_text|>",
	  .eos = "<|eot_id|>" },
	{ .name = "llama3.1",
	  .begin = "{bos}",
	  .system = LLAMA3_HEAD LLAMA3_DATE "{content|trim}<|eot_id|>",
	  .no_system = "<|start_header_id|>system<|end_header_id|>\n\n" LLAMA3_DATE "<|eot_id|>",
	  .later = LLAMA3_TURN,
	  .user = LLAMA3_TURN,
	  .assistant = LLAMA3_TURN,
	  .bos = "<|begin_of_text|>",
	  .eos = "<|eot_id|>" },
	{ .name = "mistral-v0.1",
	  .begin = "{bos}",
	  .user = "[INST] {content} [/INST]",
	  .assistant = "{content}{eos} ",
	  .bos = "<s>",
	  .eos = "</s>",
	  .rules = ZR_CHAT_ALTERNATES | ZR_CHAT_NO_SYSTEM },
	{ .name = "mistral-v0.2",
	  .begin = "{bos}",
	  .user = "[INST] {content} [/INST]",
	  .assistant = "{content}{eos}",
	  .bos = "<s>",
	  .eos = "</s>",
	  .rules = ZR_CHAT_ALTERNATES | ZR_CHAT_NO_SYSTEM },
	{ .name = "mistral-v1",
	  .begin = "{bos}",
	  .user = INST,
	  .first = " [INST] {system}\n\n{content} [/INST]",
	  .assistant = " {content}{eos}",
	  .bos = "<s>",
	  .eos = "</s>",
	  .rules = ZR_CHAT_ALTERNATES },
	{ .name = "mistral-v3",
	  .begin = "{bos}",
	  .user = "[INST] {content}[/INST]",
	  .first = "[INST] {system}\n\n{content}[/INST]",
	  .assistant = " {content|trim}{eos}",
	  .bos = "<s>",
	  .eos = "</s>",
	  .rules = ZR_CHAT_ALTERNATES | ZR_CHAT_SYSTEM_LAST },
	{ .name = "mistral-v3-tekken",
	  .begin = "{bos}",
	  .user = "[INST]{content}[/INST]",
	  .first = "[INST]{system}\n\n{content}[/INST]",
	  .assistant = "{content}{eos}",
	  .bos = "<s>",
	  .eos = "</s>",
	  .rules = ZR_CHAT_ALTERNATES | ZR_CHAT_SYSTEM_LAST },
	{ .name = "mistral-v7",
	  .begin = "{bos}",
	  .system = "[SYSTEM_PROMPT] {content}[/SYSTEM_PROMPT]",
	  .later = "[SYSTEM_PROMPT] {content}[/SYSTEM_PROMPT]",
	  .user = "[INST] {content}[/INST]",
	  .assistant = " {content}{eos}",
	  .bos = "<s>",
	  .eos = "</s>" },
	{ .name = "mistral-v7-tekken",
	  .begin = "{bos}",
	  .system = "[SYSTEM_PROMPT]{content}[/SYSTEM_PROMPT]",
	  .later = "[SYSTEM_PROMPT]{content}[/SYSTEM_PROMPT]",
	  .user = "[INST]{content}[/INST]",
	  .assistant = "{content}{eos}",
	  .bos = "<s>",
	  .eos = "</s>" },
	{ .name = "gemma",
	  .begin = "{bos}",
	  .user = "<start_of_turn>user\n{content|trim}<end_of_turn>\n",
	  .assistant = "<start_of_turn>model\n{content|trim}<end_of_turn>\n",
	  .bos = "<bos>",
	  .eos = "<eos>",
	  .rules = ZR_CHAT_ALTERNATES | ZR_CHAT_NO_SYSTEM },
	{ .name = "gemma3",
	  .begin = "{bos}",
	  .user = "<start_of_turn>user\n{content|trim}<end_of_turn>\n",
	  .first = "<start_of_turn>user\n{system}\n\n{content|trim}<end_of_turn>\n",
	  .assistant = "<start_of_turn>model\n{content|trim}<end_of_turn>\n",
	  .bos = "<bos>",
	  .eos = "<eos>",
	  .rules = ZR_CHAT_ALTERNATES },
	{ .name = "phi3",
	  .system = "<|system|>\n{content}<|end|>\n",
	  .later = "<|system|>\n{content}<|end|>\n",
	  .user = "<|user|>\n{content}<|end|>\n",
	  .assistant = "<|assistant|>\n{content}<|end|>\n",
	  .end = "{eos}",
	  .bos = "<s>",
	  .eos = "<|endoftext|>" },
	{ .name = "phi3.5",
	  .system = "<|system|>\n{content}<|end|>\n",
	  .later = "<|system|>\n{content}<|end|>\n",
	  .user = "<|user|>\n{content}<|end|>\n",
	  .assistant = "<|assistant|>\n{content}<|end|>\n",
	  .end = "{eos}",
	  .bos = "<s>",
	  .eos = "<|endoftext|>",
	  .rules = ZR_CHAT_NO_EMPTY_SYSTEM },
	{ .name = "phi4",
	  .system = "<|im_start|>system<|im_sep|>{content}<|im_end|>",
	  .later = "<|im_start|>system<|im_sep|>{content}<|im_end|>",
	  .user = "<|im_start|>user<|im_sep|>{content}<|im_end|><|im_start|>assistant<|im_sep|>",
	  .assistant = "{content}<|im_end|>",
	  .eos = "<|im_end|>" },
	{ .name = "phi4-mini",
	  .system = "<|system|>{content}<|end|>",
	  .later = "<|system|>{content}<|end|>",
	  .user = "<|user|>{content}<|end|>",
	  .assistant = "<|assistant|>{content}<|end|>",
	  .end = "{eos}",
	  .eos = "<|endoftext|>" },
	{ .name = "zephyr",
	  .system = "<|system|>\n{content}{eos}\n",
	  .later = "<|system|>\n{content}{eos}\n",
	  .user = "<|user|>\n{content}{eos}\n",
	  .assistant = "<|assistant|>\n{content}{eos}\n",
	  .bos = "<s>",
	  .eos = "</s>" },
	{ .name = "alpaca",
	  .begin = "{bos}",
	  .no_system = ALPACA "\n\n",
	  .system = "{content}",
	  .between = "\n\n",
	  .user = "### Instruction:\n{content}",
	  .assistant = "### Response:\n{content}{eos}",
	  .bos = "" },
	{ .name = "alpaca-plain",
	  .begin = "{bos}",
	  .system = "{content}",
	  .between = "\n\n",
	  .user = "### Instruction:\n{content}",
	  .assistant = "### Response:\n{content}{eos}",
	  .bos = "" },
	{ .name = "alpaca-input",
	  .no_system = ALPACA "\n\n",
	  .with_input = ALPACA_INPUT "\n\n",
	  .user = "### Instruction:\n{content}\n\n",
	  .assistant = "### Response:\n{content}{eos}",
	  .bos = "",
	  .rules = ZR_CHAT_NO_SYSTEM | ZR_CHAT_APART },
	{ .name = "user-input",
	  .no_system = "SYSTEM: " ALPACA "\n",
	  .with_input = "SYSTEM: " ALPACA_INPUT "\n",
	  .user = "USER: {content}\nASSISTANT:",
	  .assistant = "{content}{eos}",
	  .bos = "",
	  .rules = ZR_CHAT_NO_SYSTEM | ZR_CHAT_APART },
	{ .name = "llama4",
	  .begin = "{bos}",
	  .system = LLAMA4_HEAD "{content|trim}<|eot|>",
	  .later = LLAMA4_HEAD "{content}<|eot|>",
	  .user = LLAMA4_HEAD "{content}<|eot|>",
	  .assistant = LLAMA4_HEAD "{content}<|eot|>",
	  .bos = "<|begin_of_text|>",
	  .eos = "<|eot|>" },
	{ .name = "cohere",
	  .begin = "{bos}",
	  .system = COHERE("SYSTEM", "{content}"),
	  .user = COHERE("USER", "{content|trim}"),
	  .assistant = COHERE("CHATBOT", "{content|trim}"),
	  .bos = "<BOS_TOKEN>",
	  .eos = "<|END_OF_TURN_TOKEN|>",
	  .rules = ZR_CHAT_ALTERNATES },
	{ .name = "deepseek-v2",
	  .begin = "{bos}",
	  .system = "{content}\n\n",
	  .later = "{content}\n\n",
	  .user = "<｜User｜>{content}",
	  .assistant = "<｜Assistant｜>{content}{eos}" },
	{ .name = "falcon-h1",
	  .begin = "{bos}",
	  .system = "<|im_start|>system\n{content}<|im_end|>\n",
	  .later = "",
	  .user = "<|im_start|>user\n{content}<|im_end|>\n",
	  .assistant = "<|im_start|>assistant\n{content}<|im_end|>\n",
	  .bos = "<|begin_of_text|>",
	  .eos = "<|end_of_text|>" },
	{ .name = "phi3-short",
	  .begin = "{bos}",
	  .system = "<|system|>\n{content}<|end|>\n",
	  .later = "<|system|>\n{content}<|end|>\n",
	  .user = "<|user|>\n{content}<|end|>\n<|assistant|>\n",
	  .assistant = "{content}<|end|>\n",
	  .bos = "<s>",
	  .eos = "<|endoftext|>" },
	{ .name = "none",
	  .system = "{content}",
	  .later = "{content}",
	  .user = "{content}",
	  .assistant = "{content}{eos}" },
	{ .name = NULL },
};

static const struct {
	uint64_t hash;
	const char *name;
} known[] = {
	{ UINT64_C(0xda206a9e46a4ac01), "chatml" },
	{ UINT64_C(0x4a8163316d06f462), "chatml" },
	{ UINT64_C(0xa04f41d813a07b13), "chatml" },
	{ UINT64_C(0x40f48cea39f88d70), "chatml" },
	{ UINT64_C(0xcb74434bff709dd9), "chatml" },
	{ UINT64_C(0x8fb5d937b1e8f5d0), "chatml" }, /* Qwen3-Instruct-2507 */
	{ UINT64_C(0xcfe9acb2abfa8022), "chatml-bos" },
	{ UINT64_C(0xc0abd2b1a4abe5ad), "chatml-bos" },
	{ UINT64_C(0x203ccc43ca77a32e), "chatml-bos" },
	{ UINT64_C(0xd63c0ab8ac046a45), "qwen2" },
	{ UINT64_C(0xd5d943bd0bd9082f), "qwen2" },
	{ UINT64_C(0x41420706576a45ea), "qwen2" },
	{ UINT64_C(0x2469c9508f79506e), "qwen2.5" },
	{ UINT64_C(0xef2b96adf9b87224), "qwen2.5" },
	{ UINT64_C(0x4c1f3557de33e6ff), "hermes3" },
	{ UINT64_C(0x99ab995e9629dacd), "smollm" },
	{ UINT64_C(0x24f6d97f87d647f5), "llama2" },
	{ UINT64_C(0x3ec23d8d21f962b0), "llama2" },
	{ UINT64_C(0x8e30cf11bd23649b), "llama2" },
	{ UINT64_C(0xc620ae2775866bfb), "llama3" },
	{ UINT64_C(0x9799ad6e2dea0594), "llama3" },
	{ UINT64_C(0x6ca7779b7730196a), "llama3.1" },
	{ UINT64_C(0xc3d57e38f5ff0756), "llama3.1" },
	{ UINT64_C(0xb7f52373b11c60d7), "mistral-v0.1" },
	{ UINT64_C(0xa5d004210ebce758), "mistral-v0.2" },
	{ UINT64_C(0x98326487e3b467bd), "mistral-v1" },
	{ UINT64_C(0xf89cfc57f651ff3d), "mistral-v1" },
	{ UINT64_C(0xb091cda72d40416a), "mistral-v3" },
	{ UINT64_C(0x9d869133a4d56603), "mistral-v3-tekken" },
	{ UINT64_C(0x7d7f4fd94211f2e6), "mistral-v3-tekken" },
	{ UINT64_C(0x6a6adf55847af499), "mistral-v3-tekken" },
	{ UINT64_C(0x11381d1c62000f60), "mistral-v7" },
	{ UINT64_C(0x02cdc546cb24cabe), "mistral-v7-tekken" },
	{ UINT64_C(0x92fad981bd11bd05), "gemma" },
	{ UINT64_C(0x2c2e86beabccd2a4), "gemma" },
	{ UINT64_C(0xa31f39eb53a7a523), "gemma3" },
	{ UINT64_C(0x07ef275748ae0182), "gemma3" },
	{ UINT64_C(0xd9c620dcaf86f38d), "gemma3" },
	{ UINT64_C(0x4492a04126c91a95), "gemma3" },
	{ UINT64_C(0x82fc89c04c54ba66), "phi3" },
	{ UINT64_C(0xcd8aff863abd4554), "phi3.5" },
	{ UINT64_C(0xbc5711ad3f99d670), "phi4" },
	{ UINT64_C(0x1c0680782a7c9316), "phi4-mini" },
	{ UINT64_C(0x1db34e9fc60441d8), "zephyr" },
	{ UINT64_C(0x8f4b7a76da3e3c3f), "alpaca-plain" },
	{ UINT64_C(0xf5f041d98b34a826), "alpaca" },
	{ UINT64_C(0x6fd54bd37f7cb45d), "none" },
	{ UINT64_C(0x0f07278d3208c8c3), "falcon-h1" },
	{ UINT64_C(0xb4abd11926045a2a), "phi3-short" },
	{ UINT64_C(0x74473af5a320e007), "llama4" },
	{ UINT64_C(0xcbe1fb1355c00728), "cohere" },
	{ UINT64_C(0x62507bcd2e3bf746), "cohere" }, /* Aya */
	{ UINT64_C(0x0e8a901d836671d4), "cohere" },
	{ UINT64_C(0x79b6641f8e8e0fdc), "deepseek-v2" },
	{ 0, NULL },
};

const struct zr_chat_template *zr_chat_template_find(const char *name)
{
	for (const struct zr_chat_template *t = templates; t->name; t++)
		if (!strcmp(t->name, name))
			return t;
	return NULL;
}

const char *zr_chat_template_name(size_t i)
{
	return templates[i].name;
}

const struct zr_chat_template *zr_chat_recognize(const char *jinja, size_t n, uint64_t *hash)
{
	n -= n && jinja[n - 1] == '\n'; /* Jinja drops it */
	*hash = XXH3_64bits(jinja, n);
	for (size_t i = 0; known[i].name; i++)
		if (known[i].hash == *hash)
			return zr_chat_template_find(known[i].name);

	return NULL;
}
