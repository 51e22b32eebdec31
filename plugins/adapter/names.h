/* SPDX-License-Identifier: Apache-2.0
 *
 * names.h - how PEFT 0.21 compares names of modules with those in adapter_config.json, rule by
 * rule. A module's name is that of its weight in PyTorch without ".weight"; its parents are modules
 * too: "model.layers.0.mlp" is one of "model.layers.0.mlp.up_proj". In lists of an INI * and ?
 * stand for letters; names that PEFT writes have neither.
 */
#ifndef ZR_ADAPTER_NAMES_H
#define ZR_ADAPTER_NAMES_H

#include <stddef.h>

#define LORA_NAME 512 /* room for the name of a tensor or a module, or for a word of a list */

/* The next word of *text, which commas and blanks end, in word. Returns 0 behind the last one. */
int lora_next_word(const char **text, char word[LORA_NAME]);

/* The next module on the way from the root to `module`, whose name has *at letters; *at is 0 at
 * first. The last one is the module itself. Returns 0 behind it. */
int lora_next_parent(const char *module, size_t *at, char parent[LORA_NAME]);

/* Whether a list of target_modules or exclude_modules has the module: its name, or what its name
 * ends with behind a dot. */
int lora_is_listed(const char *list, const char *module);

/* Whether such a list has the module's whole name. */
int lora_is_spelled_out(const char *list, const char *module);

/* Whether one name of such a list means the module. */
int lora_is_called(const char *name, const char *module);

/* Whether a name of modules_to_save has the module trained: the name of the module, or of a parent,
 * ends with it, behind a dot or not. */
int lora_is_kept(const char *name, const char *module);

/* Whether a name of modules_to_save keeps the module from being a target: it is among the parts
 * between the module's dots. A dot of `name` stands for any letter: to PEFT it is a regular
 * expression. */
int lora_is_withheld(const char *name, const char *module);

/* Whether a key of rank_pattern or alpha_pattern that is no regular expression means the module. A
 * dot of `key` stands for any letter, likewise. */
int lora_key_fits(const char *key, const char *module);

/* The number of the layer that a module is in, -1: none. patterns: a list of layers_pattern; "":
 * the first number between dots that two names precede. */
long lora_layer_number(const char *patterns, const char *module);

#endif
