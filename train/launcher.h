/* SPDX-License-Identifier: Apache-2.0
 *
 * launcher.h - whether another program than zeroth started this process as one of several ranks.
 */
#ifndef ZR_TRAIN_LAUNCHER_H
#define ZR_TRAIN_LAUNCHER_H

/* The variable by which another launcher shows that it started several ranks,
 * "OMPI_COMM_WORLD_SIZE=4"; NULL: none. */
const char *zr_other_launcher(void);

#endif
