/* SPDX-License-Identifier: Apache-2.0
 *
 * tag.h - the name of a metric with the group that dashboards show it in: train/loss, val/loss,
 * time/forward, memory/process. [pure]
 */
#ifndef ZR_MONITOR_TAG_H
#define ZR_MONITOR_TAG_H

#define TAG_ROOM 128

/* A longer name is cut. */
void tag_of(const char *metric, char tag[TAG_ROOM]);

#endif
