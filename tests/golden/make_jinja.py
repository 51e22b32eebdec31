#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# tests/golden/chat/jinja.jsonl, for tests/unit/chat/t_jinja.c: small templates, one for each
# construct that chat templates use, and what Hugging Face's transformers makes of them: a text and
# what its generation blocks wrote, as bytes, or that it fails. All templates were written for this.
#
#   make_jinja.py tests/golden/chat/jinja.jsonl      needs transformers (5.24.0) and jinja2 (3.1.6)
#   make_jinja.py --turns tests/golden/chat/turns.jsonl
#   make_jinja.py --compare PROGRAM COUNT TEMPLATE.jinja...
#   make_jinja.py --compare-turns PROGRAM COUNT TEMPLATE.jinja...
#   make_jinja.py --twins COUNT TEMPLATES
#
# turns.jsonl has texts of conversations, and what is learned of them, by the rule of
# files/chat/turns.h, which texts_of() below states once more: for tests/unit/chat/t_turns.c.
# --compare compares PROGRAM, t_jinja, which renders lines of JSON with ZR_JINJA_TEMPLATE, over COUNT
# conversations drawn at random, for templates of models: these are not part of this repository.
# --compare-turns does so with t_turns. --twins counts how often the rule learns of NAME.jinja what
# TRL's NAME_training.jinja says is learned, where both write the same text.
import datetime
import json
import os
import random
import subprocess
import sys

import transformers.utils.chat_template_utils as chat

DAY = datetime.date(2026, 11, 29)


class Clock(datetime.datetime):
	@classmethod
	def now(cls, tz=None):
		return cls(DAY.year, DAY.month, DAY.day)


chat.datetime = Clock

T = [  # texts with what is hard in them
	"", "hi", " a \n", "\n\nx\n", "日本語 テスト", "é\u00a0\u3000", "🙂b", "q\"uo'te\\", "<b>&amp;</b>",
	"{{ x }}", "a\r\nb\x7f\u2028c", "\u200bzw\ufeff", "it's", "say \"hi\"", "mixed 'a' \"b\"", "\x00\x01",
]
LIST = [1, "two", None, True, [3.5], {"k": "v"}]
DICT = {"b": 1, "A": "x", "c": [1, 2], "items": "an item", "get": None}
NUMBERS = [0, -7, 3, 12345678901, 0.1, 1e100, 1e-7, 2.0, -0.0, 123456789.123, 1e16, 1e22, 5e-324, 1e15, 0.0001, 1.5e-5]
MESSAGES = [
	{"role": "system", "content": " be kind "}, {"role": "user", "content": "hi\n"},
	{"role": "assistant", "content": "<think>\nwell\n</think>\n\nyes"},
	{"role": "user", "content": ""}, {"role": "assistant", "content": "no"},
]
V = {"t": T, "l": LIST, "d": DICT, "n": NUMBERS, "m": MESSAGES, "e": [], "s": "abc", "empty": "",
     "none": None, "messages": MESSAGES}

# Each is a template; some draw on all texts at once.
CASES = [
	# white space
	"a\n{% if true %}\nb\n{% endif %}\nc\n", "a  {% if true %}  b  {% endif %}  c", "a\n  {%- if true -%}\n  b  \n {%- endif -%} \n c",
	"  {%+ if true %}x{% endif +%}\n y", "{# c #}\nx {# d #}y\n  {# e #}  \nz", "a {#- b -#} c\n{#+ d +#}\n e", "{{ 1 }}\n\n{{ 2 -}}  \n x {{- 3 }}",
	"  {% set a = 1 %}  \n  {{ a }}", "\r\na\r{% if true %}\r\nb{% endif %}\r\n", "x\n\n", "x\n", "\n", "", " {% raw %} {{ x }} {% if %} {% endraw %} y",
	"a {%- raw -%}  {{ b }}\n {%- endraw -%}  c", "\u3000{%- if true %}a{% endif -%}\u3000b", "{% if true %}\n\n\na{% endif %}\n\n\nb",
	"{{ 'a' }}\n  {% if true %}x{% endif %}", "a{# {{ x #}b", "{{ '{{' }}{{ '%}' }}{{ \"}}\" }}", "\t{% if true %}\ta{% endif %}",
	# values and literals
	"{% for x in l %}{{ x }}|{% endfor %}", "{% for x in n %}{{ x }} {{ x|tojson }} {% endfor %}", "{{ l }} {{ d }} {{ e }} {{ {} }} {{ () }} {{ (1,) }} {{ (1, 2) }}",
	"{{ t }}", "{{ 'a\\n\\t\\'\\\"\\\\\\x41\\u00e9\\U0001F642\\d' }}", "{{ 'a' 'b' \"c\" }}", "{{ 1.5 }} {{ 2e3 }} {{ 1.0e-10 }}",
	"{{ true }} {{ True }} {{ none }} {{ None }} {{ false }}", "{{ [1, 'a', none, [2, {'k': 1}],] }} {{ {'a': 1, 'b': {'c': 2},} }}", "{{ x }}|{{ x.y is defined if false else 'no' }}",
	"{{ 1, 2 }}", "{{ undefined_one }}", "{{ [undefined_one] }}",
	# operators
	"{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % 3 }} {{ -7 % 3 }} {{ 7 / 2 }} {{ 2 ** 10 }} {{ 2 * 3 + 4 }} {{ 2 + 3 * 4 }} {{ (2 + 3) * 4 }} {{ -2 ** 2 }}", "{{ 'a' * 3 }} {{ 'a' + 'b' }} {{ [1] + [2] }} {{ 'x' ~ 1 ~ none ~ true ~ 1.0 }}",
	"{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 }} {{ true == 1 }} {{ 'a' < 'b' }} {{ [1, 2] == [1, 2] }} {{ (1, 2) == [1, 2] }} {{ {'a': 1} == {'a': 1} }}",
	"{{ 'a' in 'abc' }} {{ 'a' in ['a'] }} {{ 'a' in d }} {{ 'A' in d }} {{ 'x' not in 'abc' }} {{ not 'x' in 'abc' }} {{ 1 in [true] }} {{ 'a' in undefined_one }}",
	"{{ 1 and 0 }} {{ 0 or 'x' }} {{ not 0 }} {{ '' or none or 'y' }} {{ 1 if 0 }}|{{ 1 if 0 else 2 }} {{ 1 if true else 2 if false else 3 }}", "{{ -n[1] }} {{ +n[2] }} {{ --3 }} {{ -s|length }}",
	"{{ a is not defined and 1 + 1 is odd }}", "{{ 1 + 2 ~ 3 + 4 }}", "{{ 'a' ~ 'b' | upper }}", "{{ not m is string }} {{ (not m) is string }}",
	# places, attributes, slices
	"{{ s[0] }}{{ s[-1] }}{{ s[5] }}{{ t[4][0] }}{{ t[6][0] }}{{ t[6][-1] }}{{ l[1][0] }}", "{{ s[1:] }} {{ s[:2] }} {{ s[:-1] }} {{ s[::-1] }} {{ s[-2:] }} {{ s[5:] }} {{ s[::2] }} {{ t[4][1:3] }} {{ t[4][::-1] }}",
	"{{ l[1:] }} {{ l[::-1] }} {{ l[:-1] }} {{ l[10:] }} {{ l[-100:2] }} {{ l[3:1:-1] }} {{ e[0] }}|", "{{ d.b }} {{ d['A'] }} {{ d.zz }} {{ d['zz'] }} {{ d['items'] }} {{ m[0].content }} {{ m.0.role }} {{ d.c[1] }}",
	"{{ none_such }}{{ none.x }}{{ s.x }}{{ n.x }}", "{{ (1, 2)[0] }} {{ 'abc'[1] }} {{ [1, 2][-1] }} {{ {'a': 'b'}.a }}",
	# statements
	"{% if s == 'abc' %}1{% elif true %}2{% else %}3{% endif %}{% if e %}1{% elif l %}2{% else %}3{% endif %}{% if none %}1{% elif 0 %}2{% else %}3{% endif %}",
	"{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for (a, b) in [(1, 2), [3, 4]] %}{{ a }}{{ b }}{% endfor %}",
	"{% for x in l if x is string or x is none %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.revindex }}{{ x }} {% else %}none{% endfor %}",
	"{% for x in e %}a{% else %}b{% endfor %}{% for x in [1, 2] %}{% continue %}{% else %}c{% endfor %}{% for x in [1] %}{% break %}{% else %}d{% endfor %}{% for x in [1] %}x{% else %}e{% endfor %}",
	"{% for x in [1, 2, 3, 4] %}{% if x == 2 %}{% continue %}{% endif %}{% if x == 4 %}{% break %}{% endif %}{{ x }}{% endfor %}", "{% for c in 'añ🙂' %}[{{ c }}]{% endfor %}{% for x in undefined_one %}x{% endfor %}",
	"{% for a in [1, 2, 3] %}{{ loop.previtem }}<{{ a }}>{{ loop.nextitem }}{{ loop.previtem is defined }}{{ loop.nextitem is undefined }} {% endfor %}", "{% for a in [1, 2] %}{% for b in [3, 4] %}{{ loop.index }}{{ a }}{{ b }}{% endfor %}{{ loop.last }}{% endfor %}",
	"{% set x = 1 %}{% for i in [1, 2] %}{{ x }}{% set x = x + i %}{{ x }} {% endfor %}{{ x }}", "{% for i in [1, 2] %}{% if i == 2 %}{{ y }}{% endif %}{% set y = 5 %}{% endfor %}{{ y }}|",
	"{% if true %}{% set z = 3 %}{% endif %}{{ z }}", "{% set a, b = 1, 'x' %}{{ a }}{{ b }}{% set c = 1, 2 %}{{ c }}", "{% set ns = namespace(a=1, b=[]) %}{% for i in [1, 2, 3] %}{% set ns.a = ns.a + i %}{% set ns.b = ns.b + [i] %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.c }}|",
	"{% set ns = namespace({'q': 2}, r=3) %}{{ ns.q }}{{ ns.r }}{% set ns.new = 1 %}{{ ns.new }}", "{% set x %}a{{ 1 }}\n b{% endset %}[{{ x }}]{% set y | upper | trim %} abc {% endset %}[{{ y }}]", "{% set x %}{% set w = 2 %}{{ w }}{% endset %}{{ x }}{{ w }}|",
	"{% macro f(a, b='x', c=a) %}[{{ a }}{{ b }}{{ c }}]{% endmacro %}{{ f(1) }}{{ f(1, 2) }}{{ f(1, c=3) }}{{ f(b=2, a=1) }}{{ f() }}", "{% macro r(n) %}{{ n }}{% if n > 0 %}{{ r(n - 1) }}{% endif %}{% endmacro %}{{ r(4) }}",
	"{% set g = 1 %}{% macro f() %}{{ g }}{% set g = 7 %}{{ g }}{% endmacro %}{{ f() }}{{ g }}{% set g = 2 %}{{ f() }}", "{% macro f(x) -%}\n  {{ x }}\n{%- endmacro %}{% set a = f('q') %}{{ a|length }}{{ f(f('z')) }}{{ f is callable }}", "{% for i in [1, 2] %}{% macro q() %}{{ i }}{% endmacro %}{{ q() }}{% endfor %}",
	"{% macro f(a, b, c=9) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(*[1, 2]) }}{{ f(*(1, 2, 3)) }}{{ f(1, *[2]) }}{{ f(*'xy', c=0) }}", "{% macro f(a) %}{% endmacro %}{{ f(*[1, 2]) }}", "{{ range(*[1, 3])|list }}",
	"{% macro f(a) %}{{ a.b }}{% endmacro %}{{ f({'b': 'c'}) }}", "{{ raise_exception('no ' ~ s) }}", "{% if false %}{{ raise_exception('no') }}{% endif %}ok", "{{ range(3)|list }}{% for i in range(1, 4) %}{{ i }}{% endfor %}{% for i in range(5, 0, -2) %}{{ i }}{% endfor %}{{ range(3)|length }}{{ range(4)[1] }}{% for i in range(0) %}x{% endfor %}",
	"{{ strftime_now('%d %b %Y|%Y-%m-%d|%A %B %j %y %%') }}{{ strftime_now is defined }}", "{{ dict(a=1, b='x') }}{{ dict({'q': 1}, r=2) }}",
	# generation
	"{% for x in messages %}{{ x.role }}:{% if x.role == 'assistant' %}{% generation %}{{ x.content }}<e>{% endgeneration %}{% else %}{{ x.content }}{% endif %}\n{% endfor %}", "é{%- generation -%} 🙂 {%- endgeneration -%}日{% generation %}{% set q = 1 %}{{ q }}{% endgeneration %}{{ q }}",
	"{% generation %}{% for i in [1, 2] %}{{ i }}{% if i == 1 %}{% continue %}{% endif %}{% endfor %}{% endgeneration %}",
	# filters
	"{% for x in t %}[{{ x|trim }}][{{ x|length }}][{{ x|tojson }}][{{ x|tojson(ensure_ascii=true) }}]{% endfor %}", "{{ d|tojson }}\n{{ d|tojson(indent=2) }}\n{{ l|tojson(indent=4) }}\n{{ l|tojson(separators=(',', ':')) }}\n{{ d|tojson(sort_keys=true) }}\n{{ {'a': [], 'b': {}}|tojson(indent=1) }}{{ [1,(2,3)]|tojson(indent='  ') }}",
	"{{ x|default('y') }}{{ none|default('y') }}{{ none|default('y', true) }}{{ ''|default('z', boolean=true) }}{{ x|d }}|{{ 0|default(1) }}", "{{ s|upper }}{{ 'ABC'|lower }}{{ 'hELLO wORLD'|capitalize }}{{ 'ÀÉ'|lower }}{{ 'x-y z'.title() }}{{ 1|string + 'a' }}{{ none|string }}{{ l|string }}", "{{ [1, 2, 3]|join(', ') }}{{ ['a', none, 1.0]|join }}{{ m|join('/', attribute='role') }}{{ 'abc'|join('-') }}",
	"{{ [3, 1]|first }}{{ [3, 1]|last }}{{ e|first }}{{ 'ab'|last }}{{ d|first }}{{ 'abc'|reverse }}{{ [1, 2]|reverse|list }}{{ d|list }}{{ 'ab'|list }}{{ (1, 2)|list }}", "{% for k, v in d|items %}{{ k }}{{ v }}{% endfor %}{% for k, v in d|dictsort %}{{ k }}{{ v }}{% endfor %}{% for k, v in {'b': 1, 'a': 2}|dictsort(by='value', reverse=true) %}{{ k }}{% endfor %}{% for k, v in x|items %}x{% endfor %}",
	"{{ 'aXbX'|replace('X', '-') }}{{ 'aXbX'|replace('X', '-', 1) }}{{ 'ab'|replace('', '.') }}{{ 12|replace('1', 'z') }}", "{{ m|map(attribute='role')|list }}{{ ['a', 'b']|map('upper')|join }}{{ [{'a': {'b': 1}}]|map(attribute='a.b')|list }}{{ [{}]|map(attribute='q', default='z')|list }}{{ [1, none]|map('default', 'x', true)|list }}",
	"{{ m|selectattr('role', 'equalto', 'user')|list|length }}{{ m|rejectattr('role', 'in', ['user'])|map(attribute='role')|join(',') }}{{ [0, 1, '', 'a']|select|list }}{{ [1, 2, 3]|select('odd')|list }}{{ [1, none]|reject('none')|list }}{{ [1, 'a']|reject('equalto', 'a')|list }}{{ m|selectattr('nothing')|list }}",
	"{% set q = m|selectattr('role', 'equalto', 'nobody') %}{% if q %}yes{% else %}no{% endif %}{{ q|list }}{% set z = [1, 2]|map('string') %}{{ z|list }}{{ z|list }}", "{{ '<b>'|safe }}{{ '<b>'|safe + '<i>' }}{{ '<i>' + '<b>'|safe }}{{ '<b>'|safe ~ '<i>' }}{{ ('<b>'|safe)|length }}{{ '<&\"\\'>'|escape }}{{ '<'|e }}{{ {'a': 1}|tojson|safe }}", "{{ [3, 1, 2]|sort }}{{ ['b', 'A', 'c']|sort }}{{ [1, 2]|sort(reverse=true) }}{{ ['a', 'A', 'b']|unique|list }}{{ -3|abs }}{{ (-3)|abs }}{{ '12'|int + 1 }}{{ 3.9|int }}{{ '  x '|trim|length }}{{ 'xxaxx'|trim('x') }}",
	"{{ 'hello wORLD-x (a) <b'|title }}{{ none|map('upper')|list }}{{ false|selectattr('a')|list }}{{ none|reject('none')|list }}{{ 0|map(attribute='x')|list }}",
	"{% for x in t + ['a\n\nb\r\nc', 'a\n', '\n', 'x\x0by\x1cz'] %}[{{ x|indent }}][{{ x|indent(2, true) }}][{{ x|indent('> ', first=true, blank=true) }}][{{ x.splitlines() }}]{% endfor %}{{ 1|indent }}", "{% for x in t + ['a\n\nb\r\nc', 'a\n', '\n', 'x\x0by\x1cz'] %}[{{ x|indent }}][{{ x|indent(2, true) }}][{{ x|indent('> ', first=true, blank=true) }}][{{ x.splitlines() }}]{% endfor %}",
	"{{ [3, 1, 2]|min }}{{ [3, 1, 2]|max }}{{ ['b', 'A']|min }}{{ ['b', 'A']|max(true) }}{{ []|min }}|{{ m|sort(attribute='role')|map(attribute='content')|list }}{{ [{'a': {'b': 2}}, {'a': {'b': 1}}]|sort(attribute='a.b', reverse=true) }}", "{{ [1, 'a']|min }}",
	"{% filter upper %}a{{ s }}{% set q = 1 %}{% endfilter %}{{ q }}{% filter replace('a', 'b')|trim %} a a {% endfilter %}", "{% filter nosuch %}{% endfilter %}", "{% filter upper %}",
	# tests
	"{% for x in l + [1.5, false, '', {}, (1, 2)] %}{{ x is string }}{{ x is mapping }}{{ x is iterable }}{{ x is sequence }}{{ x is none }}{{ x is boolean }}{{ x is true }}{{ x is false }}{{ x is number }}{{ x is integer }}{{ x is float }}\n{% endfor %}", "{{ q is defined }}{{ q is undefined }}{{ q is string }}{{ q is iterable }}{{ q is sequence }}{{ q is mapping }}{{ q is none }}{{ d.items is callable }}",
	"{{ 4 is divisibleby 2 }}{{ 3 is odd }}{{ 3 is even }}{{ 1 is eq 1 }}{{ 1 is equalto(2) }}{{ 2 is gt 1 }}{{ 'a' is in 'abc' }}{{ 'a' is in ['b'] }}{{ 1 is not eq 1 }}{{ 1 is ne 2 }}{{ m[0] is mapping and m[0].role is string }}",
	# methods
	"{% for x in t %}[{{ x.strip() }}][{{ x.lstrip() }}][{{ x.rstrip() }}][{{ x.rstrip('\\n') }}][{{ x.strip('aé ') }}]{% endfor %}", "{% for x in t %}{{ x.split() }}{{ x.split('a') }}{{ x.split(' ', 1) }}{% endfor %}{{ 'a  b c '.split(none, 1) }}{{ 'a,b,c'.rsplit(',', 1) }}",
	"{{ m[2].content.split('</think>')[-1].lstrip('\\n') }}|{{ m[2].content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') }}", "{{ s.startswith('a') }}{{ s.endswith(('x', 'c')) }}{{ s.replace('b', 'BB') }}{{ s.find('c') }}{{ 'é🙂x'.find('x') }}{{ s.rfind('z') }}{{ 'aXa'.count('a') }}{{ s.upper() }}{{ 'Q'.lower() }}{{ 'aBC'.capitalize() }}{{ '12'.isdigit() }}{{ ' '.isspace() }}{{ 'ab'.isalpha() }}{{ ', '.join(['a', 'b']) }}{{ 'abc'.removeprefix('a') }}{{ 'abc'.removesuffix('c') }}{{ 'a\\nb\\n'.splitlines() }}",
	"{{ d.get('b') }}{{ d.get('q') }}{{ d.get('q', 'z') }}{{ d.keys()|list }}{{ d.values()|list|length }}{{ d.items()|list }}{{ d.items()|length }}{{ [1, 2].index(2) }}{{ [1, 1].count(1) }}{{ d['get']('b') if false else '' }}",
	# what fails
	"{{ 'a' + 1 }}", "{{ x.y }}", "{{ x.y.z }}", "{{ none + 'a' }}", "{{ 1 in 'abc' }}", "{{ none|length }}", "{% for i in none %}{% endfor %}", "{{ 'a' < 1 }}", "{{ l.append(1) }}", "{{ d.update({}) }}", "{{ x() }}", "{{ 1 // 0 }}", "{% set a, b = [1] %}", "{% set d.x = 1 %}", "{{ x|tojson }}", "{{ none|items|list }}", "{{ s.__class__ }}", "{{ ''.__class__.__mro__ }}", "{{ d['__class__'].x }}",
	"{{ x + 'a' }}", "{{ x < 1 }}", "{% macro f() %}{% endmacro %}{{ f(1) }}", "{% macro f() %}{% endmacro %}{{ f(a=1) }}", "{{ [1, 'a']|sort }}", "{{ s.split('') }}", "{{ range(200000)|length }}", "{{ d.c.d.e }}", "{{ m|map(attribute='role')|length }}", "{{ ns.x }}{% set ns = namespace(__x=1) %}", "{% set ns = namespace() %}{% set ns._y = 1 %}",
	"{{ [1][0:1:0] }}", "{{ -s }}", "{{ ', '.join([1]) }}", "{{ d.get() }}", "{{ s.strip(1) }}", "{{ [].index(1) }}", "{{ x|last }}", "{{ x|dictsort }}", "{{ 1|reverse }}", "{{ 1|list }}", "{{ none|first }}", "{{ 1|join }}", "{{ 1|unique|list }}", "{{ 1|sort }}", "{{ 1|map('upper')|list }}", "{{ 1|select|list }}",
	# what is no template
	"{% if true %}", "{{ 1 +", "{% endif %}", "{{ 'a }}", "{{ (1 }}", "{% for x %}{% endfor %}", "{% else %}", "{{ }}", "{{ a b }}", "{% break %}", "{% macro f(%}{% endmacro %}", "{# no end", "{% raw %}x", "{{ 1 ! 2 }}", "{% set = 1 %}", "{{ a. }}", "{{ [1, }}", "{% for true in l %}{% endfor %}", "{{ x|nosuchfilter }}", "{{ x is nosuchtest }}", "{% nosuchtag %}",
]


def reference(template, variables):
	"""A text and spans of bytes, or None."""
	try:
		compiled = chat._compile_jinja_template(template)
		v = dict(variables)
		text, spans = chat._render_with_assistant_indices(
			compiled, v.pop("messages"), v.pop("tools", None), v.pop("documents", None),
			v.pop("add_generation_prompt", False), **v)
	except Exception:
		return None

	at = [[len(text[:a].encode()), len(text[:b].encode())] for a, b in spans]
	return text, [s for s in at if s[0] < s[1]]


def make(path):
	with open(path, "w") as out:
		out.write(json.dumps({"variables": V, "days": (DAY - datetime.date(1970, 1, 1)).days}) + "\n")
		for template in CASES:
			got = reference(template, V)
			line = {"template": template}
			if got:
				line.update(text=got[0], spans=got[1])
			out.write(json.dumps(line) + "\n")


# ---- conversations drawn at random, for the templates of models ----

CALLS = ["get_weather", "f", "search_web"]
SAID = T[:-1] + ["<think>a</think>b", "<think>\nplan\n</think>\n\nanswer", "x</think>y", "None", '{"a": 1}']


def text(r):
	return r.choice(SAID) if r.random() < .7 else " ".join(r.choice(SAID) for _ in range(3))


def value(r, depth=0):
	kind = r.randrange(9 if depth < 3 else 6)
	if kind < 4:
		return r.choice([None, True, False, 0, 1, -5] + NUMBERS)
	if kind < 6:
		return text(r)
	if kind == 6:
		return [value(r, depth + 1) for _ in range(r.randrange(3))]
	return {r.choice(["a", "city", "Zeta", "ключ", "x y", "items", "get"]): value(r, depth + 1) for _ in range(r.randrange(4))}


def schema(r, depth=0):
	kind = r.choice(["string", "integer", "number", "boolean", "array", "object", ["string", "null"]])
	s = {"type": kind}
	if r.random() < .7:
		s["description"] = text(r)
	if r.random() < .2:
		s["enum"] = r.choice([["a", "b"], [1, 2]])
	if r.random() < .2:
		s["default"] = value(r, 2)
	if r.random() < .1:
		s["nullable"] = True
	if kind == "array" and r.random() < .8:
		s["items"] = schema(r, depth + 1) if depth < 2 else {"type": "string"}
	if kind == "object" and depth < 2:
		s["properties"] = {r.choice(["p", "Q", "name", "type"]): schema(r, depth + 1) for _ in range(r.randrange(1, 3))}
		s["required"] = list(s["properties"])[:r.randrange(2)]
	return s


def tool(r):
	f = {"name": r.choice(CALLS), "description": text(r)}
	if r.random() < .9:
		names = r.sample(["city", "unit", "Days", "opts"], r.randrange(4))
		f["parameters"] = {"type": "object", "properties": {k: schema(r) for k in names}, "required": names[:r.randrange(3)]}
	return {"type": "function", "function": f} if r.random() < .9 else f


def call(r):
	given = {k: value(r) for k in r.sample(["city", "unit", "n"], r.randrange(3))}
	function = {"name": r.choice(CALLS), "arguments": json.dumps(given) if r.random() < .3 else given}
	c = {"type": "function", "function": function}
	if r.random() < .6:
		c["id"] = r.choice(["call_1", "abcdefghi", "123456789"])
	return c if r.random() < .9 else function


def message(r, role):
	m = {"role": role, "content": text(r)}
	if r.random() < .12:
		m["content"] = [{"type": "text", "text": text(r)} for _ in range(r.randrange(3))]
	if role == "assistant":
		if r.random() < .3:
			m["tool_calls"] = [call(r) for _ in range(r.randrange(1, 3))]
		if r.random() < .25:
			m[r.choice(["reasoning_content", "thinking", "reasoning"])] = text(r)
		if r.random() < .1:
			m["content"] = None
		if r.random() < .05:
			m.pop("content", None)
	if role == "tool":
		m.update(name=CALLS[0], tool_call_id=r.choice(["call_1", "abcdefghi"]))
		if r.random() < .15:
			m["content"] = value(r)
	return m


def turns(r):
	m = [message(r, r.choice(["system", "system", "developer"]))] if r.random() < .4 else []
	if r.random() < .45:
		return m + [message(r, r.choice(["user", "assistant", "user", "assistant", "tool", "system"])) for _ in range(r.randrange(1, 6))]
	for i in range(r.randrange(1, 5)):
		m.append(message(r, "user"))
		if r.random() < .3:
			m += [dict(message(r, "assistant"), tool_calls=[call(r)]), message(r, "tool")]
		if i < 3 or r.random() < .7:
			m.append(message(r, "assistant"))
	return m


def conversation(seed):
	r = random.Random(seed)
	v = {"messages": turns(r), "add_generation_prompt": r.random() < .5, "tools": None, "documents": None}
	if r.random() < .4:
		v["tools"] = [tool(r) for _ in range(r.randrange(4))]
	if r.random() < .2:
		v["enable_thinking"] = r.choice([True, False])
	for name, v_of in (("reasoning_effort", "high"), ("builtin_tools", ["python"]), ("thinking", True), ("preserve_thinking", True)):
		if r.random() < .1:
			v[name] = v_of
	v = json.loads(json.dumps(v))
	v["messages"] = chat._alias_reasoning_fields(chat._normalize_chat_messages(v["messages"]))
	return dict(v, bos_token="<s>", eos_token="</s>", pad_token="<pad>", unk_token="<unk>")


# ---- what is learned ----


def is_wanted(m):
	return m["role"] == "assistant" and m.get("weight") != 0


def texts_of(template, messages, mode, trl, more):
	"""Texts with spans of bytes, or None where that fails: the rule of files/chat/turns.h."""
	def render(n, prompt):
		got = reference(template, dict(more, messages=messages[:n], add_generation_prompt=prompt))
		if got is None:
			raise ValueError
		return got[0].encode(), got[1]

	wanted = [i for i, m in enumerate(messages) if is_wanted(m)]
	out = []
	try:
		if "generation %}" in template or "generation -%}" in template:
			if not wanted:
				return [[render(len(messages), False)[0].decode(), []]]
			for last in (reversed(wanted) if mode == "each" else [None]):
				end = len(messages) if last is None else last + 1
				text, spans = render(end, False)
				blocks, at = {}, 0
				if last is not None or any(m["role"] == "assistant" and not is_wanted(m) for m in messages):
					for i in range(end):
						if messages[i]["role"] == "assistant":
							n = len(render(i + 1, False)[1])
							if n < at or n > len(spans):
								break
							blocks[i] = spans[at:n]
							at = n
					if at < len(spans):
						return None
					spans = [s for i in ([last] if last is not None else wanted) for s in blocks.get(i, [])]
				out.append([text.decode(), spans])
			return out

		if not wanted:
			return [[render(len(messages), False)[0].decode(), []]]
		while wanted:
			last = wanted[-1]
			for end in ([last + 1] if mode == "each" else [len(messages), last + 1]):
				text = render(end, False)[0]
				spans = {}
				for i in ([last] if mode == "each" else [w for w in wanted if w < end]):
					before = render(i, True)[0]
					if not text.startswith(before) and i:
						before = render(i, False)[0]
					if not text.startswith(before):
						continue
					through = render(i + 1, False)[0]
					if text.startswith(through) and len(through) > len(before):
						to = len(through)
						if not trl:
							to = len(before) + len(through[len(before):].rstrip(b" \t\n\r")) or to
							to = len(through) if to == len(before) else to
						spans[i] = [len(before), to]
				if mode == "whole" and len(spans) < len(wanted):
					return None
				if last in spans:
					break
			else:
				return None
			out.append([text.decode(), [spans[i] for i in sorted(spans)]])
			wanted = [i for i in wanted if i not in spans]
		return out
	except ValueError:
		return None


HEAD = "{{ '<' + m.role + '>' }}"
PROMPT = "{% if add_generation_prompt %}<assistant>{% endif %}"
LAST = "{% set ns = namespace(n=-1) %}{% for m in messages %}{% if m.role == 'user' %}{% set ns.n = loop.index0 %}{% endif %}{% endfor %}"
TURNS = [
	"{% for m in messages %}" + HEAD + "{{ m.content }}<e>\n{% endfor %}" + PROMPT,
	"{% for m in messages %}" + HEAD + "{{ m.content }}<e> \n\t{% endfor %}" + PROMPT + "{% if not add_generation_prompt %}<end>{% endif %}",
	LAST + "{% for m in messages %}" + HEAD + "{% if m.reasoning_content and loop.index0 > ns.n %}<t>{{ m.reasoning_content }}</t>{% endif %}{{ m.content }}<e>\n{% endfor %}" + PROMPT,
	"{% for m in messages %}" + HEAD + "{{ m.content }}{% endfor %}" + PROMPT.replace("<assistant>", "<assistant><t>"),
	"{% for m in messages %}" + HEAD + "{% if m.role == 'assistant' %}{% generation %}{{ m.content }}<e>{% endgeneration %}\n{% else %}{{ m.content }}{% endif %}{% endfor %}",
	"{% for m in messages %}{% if m.role == 'assistant' %}" + HEAD + "{% if m.reasoning_content %}{% generation %}<t>{{ m.reasoning_content }}</t>{% endgeneration %}{% endif %}-{% generation %}{{ m.content }}{% endgeneration %}{% else %}{{ m.content }}{% endif %}{% endfor %}",
	"{{ raise_exception('no') if messages[0].role == 'assistant' }}{% for m in messages %}" + HEAD + "{{ m.content|trim }}  {% endfor %}" + PROMPT,
]


def said(r):
	m = []
	for _ in range(r.randrange(1, 7)):
		role = r.choice(["user", "assistant", "user", "assistant", "tool"])
		m.append({"role": role, "content": r.choice(T[:9])})
		if role == "assistant" and r.random() < .4:
			m[-1]["reasoning_content"] = r.choice(["so", "é\n"])
		if role == "assistant" and r.random() < .15:
			m[-1]["weight"] = 0
	return m


def make_turns(path):
	with open(path, "w") as out:
		for k, template in enumerate(TURNS):
			for seed in range(30):
				r = random.Random(1000 * k + seed)
				m, mode, trl = said(r), r.choice(["auto", "auto", "whole", "each"]), r.random() < .3
				line = {"template": k, "messages": m, "turns": mode, "trl": trl, "texts": texts_of(template, m, mode, trl, {})}
				if not seed:
					line["text"] = template
				out.write(json.dumps(line) + "\n")


def compare_turns(program, count, paths):
	total = {}
	for path in paths:
		with open(path, newline="") as f:
			template = f.read()
		asked, wanted = [], []
		for seed in range(count):
			v = conversation(seed)
			r = random.Random(seed)
			mode, trl = r.choice(["auto", "auto", "whole", "each"]), r.random() < .3
			m = v.pop("messages")
			v.pop("add_generation_prompt")
			asked.append(json.dumps({"messages": m, "turns": mode, "trl": trl, "variables": v}))
			wanted.append(texts_of(template, m, mode, trl, v))
		env = dict(os.environ, ZR_TURNS_TEMPLATE=path, ZR_JINJA_DAYS=str((DAY - datetime.date(1970, 1, 1)).days))
		run = subprocess.run([program], input="\n".join(asked) + "\n", capture_output=True, text=True, env=env)
		got = [json.loads(line) for line in run.stdout.split("\n")[:-1]]
		tally = {"equal": sum(w is not None and w == g for w, g in zip(wanted, got)),
			 "both refuse": sum(w is None and g is None for w, g in zip(wanted, got)),
			 "differ": sum(w != g for w, g in zip(wanted, got)) + abs(len(got) - len(wanted))}
		print(os.path.basename(path), tally, flush=True)
		for k, n in tally.items():
			total[k] = total.get(k, 0) + n
	print(total)


def twins(count, folder):
	for name in sorted(os.listdir(folder)):
		base = name.replace("_training.jinja", ".jinja")
		if base == name or not os.path.exists(os.path.join(folder, base)):
			continue
		texts = []
		for n in (base, name):
			with open(os.path.join(folder, n), newline="") as f:
				texts.append(f.read())
		tally = {"same text": 0, "same mask": 0, "but for white space": 0}
		for seed in range(count):
			v = conversation(seed)
			m = v.pop("messages")
			v.pop("add_generation_prompt")
			ours, theirs = texts_of(texts[0], m, "auto", True, v), texts_of(texts[1], m, "auto", True, v)
			if not ours or not theirs or ours[0][0] != theirs[0][0] or len(ours) > 1 or not ours[0][1]:
				continue
			raw = ours[0][0].encode()
			tally["same text"] += 1
			joined = [[]]
			for s in theirs[0][1]:  # blocks that touch are one
				if joined[-1] and joined[-1][1] == s[0]:
					joined[-1][1] = s[1]
				else:
					joined.append(list(s))
			tally["same mask"] += joined[1:] == ours[0][1]
			tally["but for white space"] += [raw[a:b].strip() for a, b in joined[1:]] == [raw[a:b].strip() for a, b in ours[0][1]]
		print(base, tally, flush=True)


def compare(program, count, paths):
	drawn = [conversation(i) for i in range(count)]
	asked = "".join(json.dumps(v) + "\n" for v in drawn)
	for path in paths:
		with open(path, newline="") as f:
			template = f.read()
		env = dict(os.environ, ZR_JINJA_TEMPLATE=path, ZR_JINJA_DAYS=str((DAY - datetime.date(1970, 1, 1)).days))
		run = subprocess.run([program], input=asked, capture_output=True, text=True, env=env)
		said = [json.loads(line) for line in run.stdout.split("\n")[:-1]]
		if len(said) != count:
			print(os.path.basename(path), "is not read:", run.stderr.strip())
			continue
		tally = {"equal": 0, "both refuse": 0, "differ": 0}
		for v, got in zip(drawn, said):
			wanted = reference(template, v)
			if not wanted and "error" in got:
				tally["both refuse"] += 1
			elif wanted and got.get("text") == wanted[0] and (got["lost"] or got["spans"] == wanted[1]):
				tally["equal"] += 1
			else:
				tally["differ"] += 1
		print(os.path.basename(path), tally)


def main():
	if len(sys.argv) > 3 and sys.argv[1] == "--compare":
		compare(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
	elif len(sys.argv) > 3 and sys.argv[1] == "--compare-turns":
		compare_turns(sys.argv[2], int(sys.argv[3]), sys.argv[4:])
	elif len(sys.argv) == 4 and sys.argv[1] == "--twins":
		twins(int(sys.argv[2]), sys.argv[3])
	elif sys.argv[1] == "--turns":
		make_turns(sys.argv[2])
	else:
		make(sys.argv[1])


if __name__ == "__main__":
	main()
