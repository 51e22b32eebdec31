# SPDX-License-Identifier: Apache-2.0
#
# pairwise: of the lines on standard input those that, one after the other, hold the most pairs of values of two columns
# not yet seen, until all pairs are. The lines are mixed first, so that what a late choice leaves open varies.
# Under sanitizers, where a run takes several times as long, until six of ten pairs are: the others
# need more lines than these.
pairwise() {
	awk '{ print NR * 1009 % 2003, $0 }' | sort -n | cut -d " " -f 2- |
		awk -v share="${ZR_SANITIZE:+0.6}" '{
		n++
		for (i = 1; i < NF; i++)
			for (k = i + 1; k <= NF; k++) {
				pair = i " " $i " " k " " $k
				if (!(pair in number)) number[pair] = ++all
				pair = number[pair]
				has[n, ++pairs[n]] = pair
				held_by[pair, ++holders[pair]] = n
			}
		fresh[n] = pairs[n]
		line[n] = $0
	}
	END {
		for (;;) {
			best = 0
			for (i = 1; i <= n; i++)
				if (fresh[i] > best) best = fresh[choice = i]
			if (!best || (share && got >= share * all))
				exit
			got += best
			for (k = 1; k <= pairs[choice]; k++) {
				pair = has[choice, k]
				for (; holders[pair]; holders[pair]--)
					fresh[held_by[pair, holders[pair]]]--
			}
			print line[choice]
		}
	}'
}
