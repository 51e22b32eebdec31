/* SPDX-License-Identifier: Apache-2.0
 *
 * yaml.c - see import.h: a YAML document as JSON, by libyaml. Words are what YAML 1.1 takes them
 * for; 1e-4 is a number, as people mean it.
 */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/import/import.h"
#include "core/config/options.h"

#ifdef HAVE_YAML
#include <yaml.h>

#define DEEPEST 64
#define MOST    100000 /* values, those of aliases counted where they stand */

struct reader {
	yaml_document_t doc;
	const char *path;
	struct zr_tree *to;
	struct zr_error *err;
	int n;
};

static int is_word(const char *text, const char *const *words)
{
	while (*words && strcasecmp(text, *words))
		words++;
	return *words != NULL;
}

static json_t *scalar(const yaml_node_t *node)
{
	static const char *const no[] = { "false", "no", "off", NULL };
	static const char *const yes[] = { "true", "yes", "on", NULL };
	static const char *const none[] = { "", "~", "null", NULL };
	const char *text = (const char *)node->data.scalar.value;
	const size_t n = node->data.scalar.length;
	double v;
	char *end;

	if (node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE || strlen(text) != n)
		return json_stringn(text, n);
	if (is_word(text, none))
		return json_null();
	if (is_word(text, yes) || is_word(text, no))
		return json_boolean(is_word(text, yes));
	if (n < 18 && strspn(text, "+-0123456789_") == n && *text != '_') {
		char digits[18] = ""; /* YAML 1.1 has 500_000 */
		for (size_t i = 0, k = 0; i < n; i++)
			if (text[i] != '_')
				digits[k++] = text[i];
		const long long whole = strtoll(digits, &end, 10);
		if (end > digits && !*end)
			return json_integer(whole);
	}

	if (zr_parse_double(text, &v))
		return json_stringn(text, n);
	return json_real(v);
}

static json_t *value_of(struct reader *r, int index, int depth);

static json_t *refuse(struct reader *r, const yaml_node_t *at, const char *text)
{
	zr_err(r->err, ZR_EINVAL, "%s:%d: %s", r->path, (int)at->start_mark.line + 1, text);
	return NULL;
}

static json_t *mapping(struct reader *r, const yaml_node_t *node, int depth)
{
	json_t *to = json_object();
	const yaml_node_pair_t *p = node->data.mapping.pairs.start;

	for (; to && p < node->data.mapping.pairs.top; p++) {
		const yaml_node_t *key = yaml_document_get_node(&r->doc, p->key);
		const char *name = (const char *)key->data.scalar.value;
		json_t *value;
		if (key->type != YAML_SCALAR_NODE || json_object_get(to, name)) {
			refuse(r, key,
			       key->type == YAML_SCALAR_NODE ? "a key given twice" :
							       "a key that is no word");
			json_decref(to);
			return NULL;
		}

		if (zr_tree_add_line(r->to, (int)key->start_mark.line + 1))
			break;

		value = value_of(r, p->value, depth + 1);
		if (!value || json_object_set_new(to, name, value)) {
			json_decref(to);
			return NULL;
		}
	}

	return to;
}

static json_t *sequence(struct reader *r, const yaml_node_t *node, int depth)
{
	json_t *to = json_array();
	const yaml_node_item_t *item = node->data.sequence.items.start;

	for (; to && item < node->data.sequence.items.top; item++) {
		json_t *value = value_of(r, *item, depth + 1);
		if (!value || json_array_append_new(to, value)) {
			json_decref(to);
			return NULL;
		}
	}

	return to;
}

static json_t *value_of(struct reader *r, int index, int depth)
{
	const yaml_node_t *node = yaml_document_get_node(&r->doc, index);

	if (depth > DEEPEST || ++r->n > MOST)
		return refuse(r, node, "too deep or too large");
	if (node->type == YAML_MAPPING_NODE)
		return mapping(r, node, depth);
	if (node->type == YAML_SEQUENCE_NODE)
		return sequence(r, node, depth);
	return scalar(node);
}

static int parse_failed(const yaml_parser_t *parser, const char *path, struct zr_error *err)
{
	if (parser->error == YAML_MEMORY_ERROR)
		return zr_err(err, ZR_ENOMEM, "%s: out of memory", path);
	return zr_err(err, ZR_EINVAL, "%s:%d: not YAML: %s", path,
		      (int)parser->problem_mark.line + 1,
		      parser->problem ? parser->problem : "unreadable");
}

int zr_tree_yaml(const char *text, size_t bytes, const char *path, struct zr_tree *to,
		 struct zr_error *err)
{
	struct reader r = { .path = path, .to = to, .err = err };
	yaml_parser_t parser;
	int rc = 0;

	if (!yaml_parser_initialize(&parser))
		return zr_err(err, ZR_ENOMEM, "%s: out of memory", path);

	yaml_parser_set_input_string(&parser, (const unsigned char *)text, bytes);
	if (!yaml_parser_load(&parser, &r.doc)) {
		rc = parse_failed(&parser, path, err);
		yaml_parser_delete(&parser);
		return rc;
	}

	if (yaml_document_get_root_node(&r.doc))
		to->root = value_of(&r, 1, 0);
	if (!to->root && !err->code)
		rc = zr_err(err, ZR_EINVAL, "%s: empty, or out of memory", path);
	else if (!to->root)
		rc = err->code;
	else if (!json_is_object(to->root))
		rc = zr_err(err, ZR_EINVAL, "%s: expected lines of `key: value`", path);
	yaml_document_delete(&r.doc);
	yaml_parser_delete(&parser);
	return rc;
}

#else

int zr_tree_yaml(const char *text, size_t bytes, const char *path, struct zr_tree *to,
		 struct zr_error *err)
{
	(void)text, (void)bytes, (void)to;
	return zr_err(err, ZR_EINVAL,
		      "%s: this zeroth was built without libyaml, which reads YAML: "
		      "configure it again where that is (Debian: apt install "
		      "libyaml-dev)",
		      path);
}

#endif
