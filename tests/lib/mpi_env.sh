# SPDX-License-Identifier: Apache-2.0
#
# Sourced by tests that start ranks through MPI: $mpirun, an environment in which it works for any user and any number of
# ranks, and
#   no_mpi   prints why nothing can be started through MPI here, and nothing if it can

mpirun=${MPIRUN:-mpirun}
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe # of Open MPI from 5 on
export OMPI_MCA_btl_base_warn_component_unused=0
export ASAN_OPTIONS="$ASAN_OPTIONS${ASAN_OPTIONS:+:}detect_leaks=0" # MPI's own

no_mpi() {
	local out
	if [ ! -e "$ZR_TEST_PLUGINS/comm/mpi.so" ]; then
		echo "built without MPI (configure --with-mpi)"
	elif ! command -v "$mpirun" > /dev/null; then
		echo "there is no mpirun"
	elif [[ $ZR_SANITIZE = thread ]]; then
		echo "MPI libraries are not built for the thread sanitizer"
	elif ! out=$(timeout 60 "$mpirun" -n 1 true 2>&1); then
		echo "$mpirun does not work here: $(head -n 1 <<<"$out")"
	fi
}
