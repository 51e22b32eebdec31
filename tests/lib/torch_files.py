#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
#
# torch_files.py universal|dcp|dcp-safetensors DIR MODEL.safetensors STEP: reads what `zeroth checkpoint export --to` wrote as torch
# does, with Python's own libraries alone: zip archives whose checksums, places and sizes are right, and pickles of the known
# classes. The weights are those of the file, and each parameter has what an optimizer keeps of it. Prints what was found.
import collections
import io
import json
import pickle
import struct
import sys
import zipfile

TYPES = {"FloatStorage": 4, "BFloat16Storage": 2, "HalfStorage": 2}


class Thing:
    """An object of a class that only torch or DeepSpeed has."""

    def __init__(self, *args):
        self.args = args

    def __setstate__(self, state):
        self.state = state
        if isinstance(state, dict):
            self.__dict__.update(state)


class Tensor(collections.namedtuple("Tensor", "storage offset size stride")):
    pass


def size(values=()):
    return tuple(values)


def find(module, name):
    if (module, name) == ("collections", "OrderedDict"):
        return collections.OrderedDict
    if (module, name) == ("torch", "Size"):
        return size
    if (module, name) == ("torch._utils", "_rebuild_tensor_v2"):
        return lambda storage, offset, shape, stride, grad, hooks: Tensor(storage, offset, shape, stride)
    if module == "torch" and name in TYPES:
        return name
    if module == "torch" or module.startswith(("torch.distributed.checkpoint.", "torch.serialization", "deepspeed.")):
        return type(name, (Thing,), {"__hash__": lambda self: id(self)})
    raise AssertionError(f"{module}.{name}")


class Unpickler(pickle.Unpickler):
    find_class = staticmethod(find)

    def persistent_load(self, id):
        assert id[0] == "storage" and id[3] == "cpu", id
        return id[1:]


class Archive:
    def __init__(self, data):
        self.zip = zipfile.ZipFile(io.BytesIO(data))
        assert self.zip.testzip() is None
        for e in self.zip.infolist():
            assert e.compress_type == zipfile.ZIP_STORED and e.filename.startswith("archive/"), e
            name, extra = struct.unpack("<HH", data[e.header_offset + 26:e.header_offset + 30])
            assert (e.header_offset + 30 + name + extra) % 64 == 0, e
        names = [e.filename[8:] for e in self.zip.infolist()]
        assert names[:2] == ["data.pkl", "byteorder"] and names[-1] == "version", names
        assert self.read("byteorder") == b"little" and self.read("version") == b"3\n"
        pickled = self.read("data.pkl")
        assert pickled[:2] == b"\x80\x02"
        self.root = Unpickler(io.BytesIO(pickled)).load()

    def read(self, name):
        return self.zip.read("archive/" + name)

    def values(self, t):
        kind, key, _, elements = t.storage
        data = self.read("data/" + key)
        assert len(data) == TYPES[kind] * elements and t.offset == 0
        stride = 1
        for n, s in zip(reversed(t.size), reversed(t.stride)):
            assert s == stride, t
            stride *= n
        assert stride == elements, t
        return data


def archive(path):
    with open(path, "rb") as f:
        return Archive(f.read())


def safetensors(path):
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        header, data = json.loads(f.read(n)), f.read()
    meta = header.pop("__metadata__", {})
    return {k: (tuple(v["shape"]), data[v["data_offsets"][0]:v["data_offsets"][1]]) for k, v in header.items()}, meta


def named(model, prefix="transformer."):
    """The weights by what they are called in transformers, where the file has no prefix."""
    has = any(name.startswith("h.") for name in model)
    return {prefix + name if has else name: x for name, x in model.items()}


def check_states(name, states, step, shape):
    kept = {"exp_avg", "exp_avg_sq"} if "exp_avg" in states else {"momentum_buffer"}
    assert set(states) == kept | ({"step"} if "exp_avg" in states else set()), (name, set(states))
    assert all(len(states[k]) == 4 * shape for k in kept), name
    assert any(states[k].strip(b"\0") for k in kept), name
    if "step" in states:
        assert struct.unpack("<f", states["step"]) == (step,), name


def count(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def universal(path, model, step):
    import os
    with open(f"{path}/latest_universal") as f:
        path = f"{path}/{f.read()}"
    assert path.endswith(f"/global_step{step}_universal")
    names = sorted(n for n in os.listdir(f"{path}/zero") if n != "optimizer_state.pt")
    assert names == sorted(model), set(names) ^ set(model)
    for name, (shape, data) in model.items():
        states = {}
        for file in os.listdir(f"{path}/zero/{name}"):
            a = archive(f"{path}/zero/{name}/{file}")
            tensor = a.root if file == "step.pt" else a.root["param"]
            if file != "step.pt":
                assert a.root["cat_dim"] == 0 and tuple(tensor.size) == shape, (name, a.root)
            states[file[:-3]] = a.values(tensor)
        assert states.pop("fp32") == data, name
        check_states(name, states, step, count(shape))
    a = archive(f"{path}/zero/optimizer_state.pt")
    assert len(a.root["param_groups"]) == len(model)
    assert a.root["optimizer_state_dict"]["param_groups"][0]["lr"] == a.root["param_groups"][-1]["lr"]
    assert struct.unpack("<f", a.values(a.root["optimizer_state_dict"]["state"][0]["step"])) == (step,)
    for file in ("mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt"):
        a = archive(f"{path}/{file}")
        assert (a.root["global_steps"], a.root["skipped_steps"], a.root["mp_world_size"]) == (step, 0, 1)
        assert a.root["lr_scheduler"]["last_batch_iteration"] == step - 1
        shapes = {k: tuple(v) for group in a.root["param_shapes"] for k, v in group.items()}
        assert shapes == {k: v[0] for k, v in model.items()}
        for name, tensor in a.root["module"].items():
            of = a.root["shared_params"].get(name, name)
            assert tensor.storage == a.root["module"][of].storage
            if tensor.storage[0] == "FloatStorage":
                assert a.values(tensor) == model[of][1], name
    return f"{len(model)} parameters, {len(archive(f'{path}/mp_rank_00_model_states.pt').root['module'])} weights"


def check_both(weights, states, model, step):
    for name, data in weights.items():
        of = name if name in model else next(iter(model))  # a tied head
        assert data == model[of][1], name
    assert set(model) <= set(weights) and len(weights) - len(model) <= 1
    for name, kept in states.items():
        check_states(name, kept, step, count(model[name][0]))
    return f"{len(states)} parameters, {len(weights)} weights"


def split(tensors):
    weights, states = {}, collections.defaultdict(dict)
    for key, data in tensors.items():
        if key.startswith("model."):
            weights[key[len("model."):]] = data
            continue
        assert key.startswith("optim.state."), key
        name, _, state = key[len("optim.state."):].rpartition(".")
        states[name][state] = data
    return weights, states


def dcp(path, model, step):
    with open(f"{path}/.metadata", "rb") as f:
        m = Unpickler(f).load()
    with open(f"{path}/__0_0.distcp", "rb") as f:
        data = f.read()
    tensors, options = {}, {}
    places = {}
    for index, info in m.storage_data.items():
        assert info.relative_path == "__0_0.distcp"
        places[index.fqn] = info
        a = Archive(data[info.offset:info.offset + info.length])
        of = m.state_dict_metadata[index.fqn]
        if type(of).__name__ == "BytesStorageMetadata":
            options[m.planner_data[index.fqn]] = a.root
            continue
        assert of.size == tuple(a.root.size) == of.chunks[0].sizes and index.offset == of.chunks[0].offsets
        assert len(of.chunks) == 1 and len(of.properties.state) == 5
        assert ".".join(m.planner_data[index.fqn]) == index.fqn
        tensors[index.fqn] = a.values(a.root)
    assert set(places) == set(m.planner_data) == set(m.state_dict_metadata)
    weights, states = split(tensors)
    names = [n for (_, _, k, option), value in sorted(options.items()) if option == "params" for n in value]
    assert sorted(names) == sorted(states), "params"
    return check_both(weights, states, model, step) + f", {max(k for _, _, k, _ in options) + 1} groups"


def parts(path, model, step):
    import os
    tensors, groups = {}, None
    for file in sorted(os.listdir(path)):
        some, meta = safetensors(f"{path}/{file}")
        assert file.startswith("shard-00001-model-") and not set(some) & set(tensors), file
        assert {k: [0] * len(shape) for k, (shape, _) in some.items()} == {
            k: v["saved_offsets"] for k, v in json.loads(meta["DCP_SHARDING_INFO"]).items()}
        groups = json.loads(meta["zeroth_param_groups"])
        tensors.update({k: data for k, (_, data) in some.items()})
    weights, states = split(tensors)
    assert sorted(n for g in groups for n in g["params"]) == sorted(states)
    return check_both(weights, states, model, step) + f", {len(groups)} groups"


def main():
    form, path, weights, step = sys.argv[1:]
    model = named(safetensors(weights)[0])
    print({"universal": universal, "dcp": dcp, "dcp-safetensors": parts}[form](path, model, int(step)))


if __name__ == "__main__":
    main()
