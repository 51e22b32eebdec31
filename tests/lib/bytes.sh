# SPDX-License-Identifier: Apache-2.0
#
# What a rank allocates: as a plan says, and as a run has counted. To be sourced.

# Bytes on the device, on the host and on disk, from JSON without spaces.
planned_bytes() { # planned_bytes < plan
	tr -d ' \n' | grep -oE '"(total|held_by_plugins)":\{[^}]*' | tr '{,' '\n\n' | awk -F: '
		NF == 2 && $2 == "" { part = $1; next }
		part == "\"total\"" { bytes[$1] = $2 }
		part != "\"total\"" { bytes["\"host\""] += $2 }
		END { print bytes["\"device\""] + 0, bytes["\"host\""] + 0, bytes["\"disk\""] + 0 }'
}
taken_bytes() { # taken_bytes < summary
	tr -d ' \n' | grep -oE '"(device|host|disk)":\{"[a-z]|"peak":[0-9]+' | awk -F: '
		$1 != "\"peak\"" { tier = $1; next }
		{ bytes[tier] += $2 }
		END { print bytes["\"device\""] + 0, bytes["\"host\""] + 0, bytes["\"disk\""] + 0 }'
}
