# SPDX-License-Identifier: Apache-2.0
#
# conf: configurations, installed beside the lowest layer of all, defaults.ini.
dist_pkgdata_DATA = \
	%D%/defaults.ini \
	%D%/quickstart.ini \
	%D%/chat-demo.ini \
	%D%/bytes.json \
	%D%/jargon-chat.awk \
	%D%/finetune-gpt2.ini \
	%D%/gpt2-124m.ini \
	%D%/gpt2-355m.ini \
	%D%/gpt2-774m.ini \
	%D%/gpt2-1558m.ini \
	%D%/gpt2-1.3b-disk.ini \
	%D%/llama-text.ini \
	%D%/llama-tinyllama-1.1b.ini \
	%D%/llama2-13b.ini \
	%D%/llama3-70b-qlora.ini \
	%D%/llama3-8b-lora.ini \
	%D%/llama3-8b-qlora.ini \
	%D%/llama3-8b.ini \
	%D%/qwen3-30b-a3b-qlora.ini
