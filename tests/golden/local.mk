# SPDX-License-Identifier: Apache-2.0
#
# Values that others computed, and the scripts that made them.
EXTRA_DIST += %D%/attention.txt %D%/gpt2.bin %D%/head.txt %D%/kernels.txt %D%/llama.bin \
	%D%/moments8.txt %D%/muon.txt %D%/optim.txt %D%/right.txt %D%/schedules.txt %D%/split24.txt %D%/warmup.txt %D%/checkpoint %D%/pretrained
EXTRA_DIST += %D%/documents.py %D%/make_attention.py %D%/make_categories.py \
	%D%/make_decoded.py \
	%D%/make_gpt2.py %D%/make_head.py \
	%D%/make_kernels.py %D%/make_llama.py %D%/make_moments8.py %D%/make_muon.py %D%/make_optim.py %D%/make_pretrained.py %D%/make_right.py %D%/make_split24.py \
	%D%/make_schedules.py \
	%D%/make_tokenizers.py %D%/make_warmup.py %D%/make_words.py
EXTRA_DIST += %D%/tokenizers/decoded.json %D%/tokenizers/words.txt
EXTRA_DIST += %D%/tokenizers/text %D%/tokenizers/utf8 $(foreach f,gpt2 llama3 qwen2 gpt4 joined llama2 mistral gemma \
	metaspace across behind behind_whole neox lacking \
	falcon digits t5 albert fallback plain bert cased wordpiece fused unknown, \
	%D%/tokenizers/$f.json %D%/tokenizers/$f.ids)
EXTRA_DIST += %D%/make_chat.py %D%/make_jinja.py %D%/make_trl_masks.py %D%/chat
EXTRA_DIST += %D%/make_adaptive.py %D%/adaptive.txt
EXTRA_DIST += %D%/make_soap.py %D%/soap.txt
EXTRA_DIST += %D%/make_codes.py %D%/codes.txt
EXTRA_DIST += %D%/make_added.py %D%/added
EXTRA_DIST += %D%/make_padding.py %D%/padding
EXTRA_DIST += %D%/make_adapters.py %D%/make_adapter_rules.py %D%/adapters
EXTRA_DIST += %D%/make_configs.py %D%/make_resaved.py %D%/resaved
EXTRA_DIST += %D%/make_experts.py %D%/experts.txt
EXTRA_DIST += %D%/make_events.py %D%/events.bin
EXTRA_DIST += %D%/make_wandb.py %D%/offline.wandb
EXTRA_DIST += %D%/import
EXTRA_DIST += %D%/make_checkpoints.py %D%/compare_exports.py %D%/checkpoints
EXTRA_DIST += %D%/abi %D%/layout.txt %D%/make_layout.py
EXTRA_DIST += %D%/make_transformers_schedules.py %D%/transformers_schedules.txt
EXTRA_DIST += %D%/make_mixes.py %D%/mixes.txt
EXTRA_DIST += %D%/make_qk_clip.py %D%/qk_clip.safetensors
EXTRA_DIST += %D%/make_slices.py %D%/slices
EXTRA_DIST += %D%/published
EXTRA_DIST += %D%/make_gguf.py %D%/gguf
