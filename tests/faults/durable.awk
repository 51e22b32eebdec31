# SPDX-License-Identifier: Apache-2.0
#
# durable.awk - reads the log of tests/faults (ZR_FAULT_LOG) and says what a cut of the power could take away.
#
# Assumed is what POSIX promises and no more: what was written to a file is on disk after an fsync of it that began later;
# a name that was made, moved or removed is on disk after an fsync of its directory that began later; until then each may
# be there or not, in any order. So, at each line:
#   D1  a name that lasts (X.tmp is renamed to X, or exchanged with it) is taken only by what is on disk, whole: its
#       data, and for a directory all names in it
#   D2  what has such a name is not written to any more
#   D3  `latest` is moved only when the names beside it, step-N, are on disk
#   D4  a checkpoint loses its name, or a file in it is removed, only when all other names beside it and `latest` are
#   D5  a save begins (step-N.tmp), and the log ends, when all names that were taken are on disk, and the directories
#       above them that this run made
# Prints a line per violation, and at last the numbers of names and of syncs that were looked at.

BEGIN { FS = "\t"; ids = 0 }

function dir_of(p) { return match(p, /\/[^\/]*$/) ? substr(p, 1, RSTART - 1) : "" }
function base_of(p) { return match(p, /\/[^\/]*$/) ? substr(p, RSTART + 1) : p }
function is_step(p) { return base_of(p) ~ /^step-[0-9]+$/ }
function bad(rule, text) { print rule ": " text " (line " NR ")" }

# The number of what has this path now.
function id_of(p) {
	if (!(p in id))
		id[p] = ++ids
	return id[p]
}

# The name p changed: not on disk until its directory is synced.
function touch(p) { loose[p] = ++time; delete begun[p] }

function on_disk(p) { return !(p in loose) }

# Text of what is not on disk of the data and names below p, "" if nothing.
function missing_below(p,    q, i) {
	i = id_of(p)
	if (written[i] > synced[i])
		return "the data of " p
	for (q in id)
		if (index(q, p "/") == 1) {
			if (written[id[q]] > synced[id[q]])
				return "the data of " q
			if (!on_disk(q))
				return "the name " q
		}
	for (q in loose)
		if (index(q, p "/") == 1)
			return "the name " q
	return ""
}

function loose_beside(p, except,    q, d) {
	d = dir_of(p)
	for (q in loose)
		if (dir_of(q) == d && q != except && (is_step(q) || base_of(q) == "latest"))
			return q
	return ""
}

# Names that were taken, and directories above them that were made, must be on disk by now.
function all_taken(when,    p, d) {
	for (p in taken)
		for (d = p; d != ""; d = dir_of(d))
			if (!on_disk(d) && !((d, p) in said)) {
				said[d, p] = 1
				bad("D5", when ": the name " d " is not on disk" (d == p ? "" : ", and " p " is below it"))
			}
}

function take(from, to,    m) {
	names++
	m = missing_below(from)
	if (m != "")
		bad("D1", to " gets its name before " m " is on disk")
	if (base_of(to) == "latest") {
		m = loose_beside(to, to)
		if (m != "")
			bad("D3", to " moves before the name " m " is on disk")
	}
}

function lose(p,    m) {
	m = loose_beside(p, "")
	if (m != "")
		bad("D4", p " goes before the name " m " is on disk")
}

# All that is known of what lies at a, or below it, lies at b from now on.
function move(a, b,    q, n, list, i) {
	n = 0
	for (q in id)
		if (q == b || index(q, b "/") == 1)
			list[++n] = q
	for (i = 1; i <= n; i++) {
		delete id[list[i]]
		delete loose[list[i]]
		delete taken[list[i]]
	}
	n = 0
	for (q in id)
		if (q == a || index(q, a "/") == 1)
			list[++n] = q
	for (i = 1; i <= n; i++) {
		q = b substr(list[i], length(a) + 1)
		id[q] = id[list[i]]
		if (list[i] in loose)
			loose[q] = loose[list[i]]
		if (list[i] in taken)
			taken[q] = 1
		delete loose[list[i]]
		delete taken[list[i]]
		delete id[list[i]]
	}
	touch(a)
	touch(b)
}

function forget(p) { delete id[p]; delete taken[p]; touch(p) }

{ call = $2; path = $3 }

call == "mkdir" && $4 == 0 {
	if (base_of(path) ~ /^step-[0-9]+\.tmp$/)
		all_taken("a save begins")
	id_of(path)
	touch(path)
}
call == "open" || call == "open-empty" {
	if (!(path in id)) {
		id_of(path)
		touch(path)
	}
	if (call == "open-empty")
		written[id_of(path)] = ++time
}
call == "write" && $4 >= 0 {
	written[id_of(path)] = ++time
	for (p in taken)
		if (path == p || index(path, p "/") == 1)
			bad("D2", path " is written after it has its name")
}
call == "sync-begin" { began[$1, path] = ++time }
call == "sync" && $4 == 0 {
	syncs++
	t = began[$1, path]
	i = id_of(path)
	if (synced[i] < t)
		synced[i] = t
	n = 0
	for (q in loose)
		if (dir_of(q) == path && loose[q] < t)
			gone[++n] = q
	for (; n; n--)
		delete loose[gone[n]]
}
(call == "rename-begin" || call == "exchange-begin") && $3 == $4 ".tmp" { take($3, $4) }
call == "rename-begin" && is_step($3) { lose($3) }
(call == "rename" || call == "exchange") && $5 == 0 {
	if (call == "exchange")
		delete id[$4]
	move($3, $4)
	if ($3 == $4 ".tmp" && base_of($4) != "summary.json") # a report may be lost
		taken[$4] = 1
}
call == "unlink" && $4 == 0 {
	if (is_step(dir_of(path)))
		lose(dir_of(path))
	forget(path)
}

END {
	all_taken("the end")
	print "looked at " names + 0 " names and " syncs + 0 " syncs"
}
