#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# Writes events.bin here, with the `tensorboard` package of PyPI: the event file of a run that goes on
# after step 7 and trains steps 8 and 9, which t_tensorboard.c has the plugin write again.

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

STEPS = {
    8: [("train/loss", 5.5), ("train/lr", 3e-4), ("time/forward", 0.125), ("memory/process", 2147483648.0)],
    9: [("train/loss", float("nan")), ("val/loss", 1.875), ("eval/news_accuracy", 0.5),
        ("speed/tokens_per_s", 12345.678), ("time/step", 1e-30), ("train/loss_scale", float("inf"))],
}

with open("events.bin", "wb") as out:
    writer = RecordWriter(out)
    writer.write(Event(wall_time=1700000000.5, file_version="brain.Event:2").SerializeToString())
    writer.write(Event(wall_time=1700000000.5, step=8,
                       session_log=SessionLog(status=SessionLog.START)).SerializeToString())
    for step, values in STEPS.items():
        summary = Summary(value=[Summary.Value(tag=t, simple_value=v) for t, v in values])
        writer.write(Event(wall_time=1700000000.5 + (step - 8) * 0.25, step=step, summary=summary).SerializeToString())
    writer.flush()
