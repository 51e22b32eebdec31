/* SPDX-License-Identifier: Apache-2.0
 *
 * new_plugin.h - zeroth plugin new.
 */
#ifndef ZR_CMD_NEW_PLUGIN_H
#define ZR_CMD_NEW_PLUGIN_H

int zr_cmd_plugin_new(int argc, char **argv);

#endif
