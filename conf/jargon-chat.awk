# SPDX-License-Identifier: Apache-2.0
#
# Entries of the Jargon File as conversations, a line of JSON each: what is it, and the first
# sentence of its first sense.
function ask(    answer, end) {
	answer = text
	gsub(/[{}]/, "", answer)
	gsub(/\[[^]]*\] */, "", answer)
	sub(/^([0-9]+\.|[a-z]+\.(,[a-z]+\.)*) */, "", answer)
	end = match(answer, /[.!?]( |$)/)
	answer = substr(answer, 1, end)
	gsub(/"/, "\\\"", answer)
	gsub(/"/, "\\\"", name)
	if (name != "" && end > 15 && end <= 90 && (name answer) ~ /^[ -[\]-~]*(\\"[ -[\]-~]*)*$/)
		printf "{\"messages\": [{\"role\": \"user\", \"content\": \"What is %s?\"}, " \
			"{\"role\": \"assistant\", \"content\": \"%s\"}]}\n", name, answer
	name = ""
}
/^   :[^:]+:/ {
	ask()
	name = $0
	sub(/^   :/, "", name)
	sub(/:.*/, "", name)
	text = ""
	next
}
/^[^ ]/ { ask() }
/^ *$/ {
	if (length(text) > 15)
		ask()
	next
}
name != "" {
	line = $0
	sub(/^ +/, "", line)
	text = text == "" ? line : text " " line
}
END { ask() }
