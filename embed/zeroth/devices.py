# SPDX-License-Identifier: Apache-2.0
"""zeroth.devices - the device that a module of PyTorch is on: Zeroth's memory there as tensors,
without a copy, and the order of what both compute.
"""
import contextlib
import ctypes

import torch

from . import Error

_INVALID = -2


class Cpu:
    """Memory of Zeroth's on the CPU, as tensors of PyTorch."""

    device = torch.device("cpu")

    def complete(self, how, says, ranks):
        """Adds what a configuration lacks for parameters that are here; says(section, key): whether
        it has a key; ranks: of this process."""

    def begin(self, settings, stream, local):
        """The engine is open: checks that it computes where the module is. local: the number of the
        rank on this machine."""
        if stream:
            raise Error(_INVALID, "the module is on the CPU, and [device] has a GPU: "
                                  "model.to(\"cuda\"), or [device] plugin = cpu")

    def view(self, at, shape, dtype):
        """Memory at an address."""
        raw = (ctypes.c_char * (_elements(shape) * dtype.itemsize)).from_address(at)
        return torch.frombuffer(raw, dtype=dtype).view(shape)

    def generators(self):
        """Those that draw random numbers here, beside that of the CPU."""
        return []

    def computing(self):
        """What is computed within is in the order of what Zeroth computes."""
        return contextlib.nullcontext()

    def end(self):
        """What was computed is there."""


class Cuda(Cpu):
    """Memory of Zeroth's on a GPU. What the thread of a rank computes goes into the stream of the
    engine, by which each finds what the other one left."""

    def __init__(self, device):
        self.device, self.stream = device, None

    def complete(self, how, says, ranks):
        if not says("device", "plugin"):
            how["options"]["device.plugin"] = "cuda"
        if not says("device", "index") and ranks == 1:
            how["options"]["device.index"] = self.device.index

    def begin(self, settings, stream, local):
        if not stream:
            raise Error(_INVALID, "the module is on {}, and [device] computes on the CPU: [device] "
                                  "plugin = cuda, or model.to(\"cpu\")".format(self.device))
        index = settings.get("device.index")
        if (str(local) if index == "auto" else index) != str(self.device.index):
            raise Error(_INVALID, "the module of local rank {} is on {}, and [device] has index = "
                                  "{}, where auto is the number of the local rank".format(
                                      local, self.device, index))
        self.stream = torch.cuda.ExternalStream(stream, device=self.device)

    def view(self, at, shape, dtype):
        return torch.from_dlpack(Lent(at, shape, dtype, self.device))

    def generators(self):
        return [torch.cuda.default_generators[self.device.index]]

    @contextlib.contextmanager
    def computing(self):
        before = torch.cuda.current_stream(self.device)
        if before == self.stream:
            yield
            return
        self.stream.wait_stream(before)
        with torch.cuda.stream(self.stream):
            yield
        before.wait_stream(self.stream)

    def end(self):
        self.stream.synchronize()


def _elements(shape):
    n = 1
    for d in shape:
        n *= d
    return n


# DLPack, version 1: a capsule has a pointer to a struct that says what is lent. It has no deleter,
# as PyTorch may be done with it when Python has ended already: what a view needs stays in _KEPT.

class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device_type", ctypes.c_int32),
                ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32), ("code", ctypes.c_uint8),
                ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
                ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("byte_offset", ctypes.c_uint64)]


class _DLManaged(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32),
                ("manager_ctx", ctypes.c_void_p), ("deleter", ctypes.c_void_p), ("flags", ctypes.c_uint64),
                ("tensor", _DLTensor)]


_DL_DEVICES = {"cpu": 1, "cuda": 2}
_DL_TYPES = {torch.float32: (2, 32), torch.float16: (2, 16), torch.bfloat16: (4, 16)}
_KEPT, _CAPSULE = [], b"dltensor_versioned"


class Lent:
    """Memory that torch.from_dlpack() makes a tensor of, without a copy."""

    def __init__(self, at, shape, dtype, device):
        self._at, self._shape, self._dtype, self._device = at, shape, dtype, device

    def __dlpack_device__(self):
        return _DL_DEVICES[self._device.type], self._device.index or 0

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        # `stream` waits for nothing: all is computed in the one stream of the engine
        if max_version is None:
            raise BufferError("this PyTorch does not read DLPack of version 1; on GPUs zeroth.torch "
                              "needs one that does")
        n, kind = len(self._shape), _DL_TYPES[self._dtype]
        shape, strides = (ctypes.c_int64 * n)(*self._shape), (ctypes.c_int64 * n)()
        step = 1
        for i in reversed(range(n)):
            strides[i] = step
            step *= self._shape[i]
        tensor = _DLTensor(self._at, *self.__dlpack_device__(), n, *kind, 1, shape, strides, 0)
        managed = _DLManaged(1, 0, None, None, 0, tensor)
        _KEPT.append((managed, shape, strides))
        new = ctypes.pythonapi.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p,
                                                       ctypes.c_void_p]
        return new(ctypes.addressof(managed), _CAPSULE, None)


def place_of(pairs):
    """Where parameters are, by name, which is one device."""
    first, place = None, None
    for name, p in pairs:
        if p.device.type not in _DL_DEVICES:
            raise Error(_INVALID, "{} is on {}; Zeroth trains modules on the CPU or on a GPU of "
                                  "CUDA: model.to(\"cpu\")".format(name, p.device))
        if place is None:
            first, place = name, Cuda(p.device) if p.device.type == "cuda" else Cpu()
        if p.device != place.device:
            raise Error(_INVALID, "{} is on {}, {} on {}; a rank has one device: "
                                  "model.to(\"{}\")".format(first, place.device, name, p.device,
                                                             place.device))
    return place or Cpu()
