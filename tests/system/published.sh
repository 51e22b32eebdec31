#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
#
# Forecasts of training runs that others published, by data sheets of cards: none is further off than the table says, and the
# table in golden/published says what plan says.
. "$ZR_SRCDIR/tests/lib/tap.sh" || exit 99
golden=$ZR_SRCDIR/tests/golden/published
cd "$scratch" || exit 99

# Tokens per second of a card that plan forecasts. Whether it all fits is another question.
forecast() { # NAME CARDS CARD
	local rates=()
	[ ! -e "$golden/$1.rates" ] || rates=(--rates "$golden/$1.rates")
	"$ZEROTH" plan --json --no-compare --memory 4T --scale "$2" --card "$3" "${rates[@]}" "$golden/$1.ini" 2> err |
		sed -nE 's/^ *"tokens_per_s": ([0-9.e+]+),?$/\1/p' | awk -v n="$2" '{ print $1 / n }'
}

while read -r name cards published _ now most card; do
	ratio=$(awk "BEGIN { printf \"%.2f\", $(forecast "$name" "$cards" "$card") / $published }")
	is "$name on $cards $card is as the table says" "$ratio" "$now"
	[ "$most" = - ] ||
		ok "and at most $most off" awk "BEGIN { off = $ratio - 1; exit off * off > $most * $most }"
done < <(grep -v '^#' "$golden/runs.txt")
done_testing
