#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Writes offline.wandb here, with the package wandb 0.17 of PyPI: the log of an offline run that trained
# four steps and ended, whose first record fills more than a block. t_wandb.c goes on after its third.
from wandb.proto import wandb_internal_pb2 as pb
from wandb.sdk.internal.datastore import DataStore


def record(num, **parts):
    r = pb.Record(num=num)
    for name, part in parts.items():
        getattr(r, name).CopyFrom(part)
    return r


def history(step):
    h = pb.HistoryRecord()
    for key, value in (("train/loss", str(1 / step)), ("_step", str(step))):
        item = h.item.add()
        item.nested_key.append(key)
        item.value_json = value
    h.step.num = step
    return h


store = DataStore()
store.open_for_write("offline.wandb")
run = pb.RunRecord(run_id="goldenid", project="zeroth")
run.start_time.seconds = 1700000000
update = run.config.update.add(key="filler")
update.value_json = '"' + "x" * 33000 + '"'
store.write(record(1, run=run))
for step in range(1, 5):
    store.write(record(1 + step, history=history(step)))
store.write(record(6, exit=pb.RunExitRecord(exit_code=0)))
store.close()
