# SPDX-License-Identifier: Apache-2.0
"""zeroth.outside - an engine for a model that the program computes: ZEROTH_MODEL_OUTSIDE of
zeroth(3), by which zeroth.torch trains modules of PyTorch. The engine has parameters, gradients and
the optimizer, and says at which layer of which micro-batch what is where.

    engine = Outside([("one", [("w", (4, 3), False)])], [("first", [0])], text=text)
    engine.begin(0, True)                       # rank 0 of this process, one thread for each
    while (kind := engine.take(0)) != DONE:
        call = engine.call[0]                   # kind is FORWARD, LOSS or BACKWARD
        ...                                     # call.param[i], call.dparam[i]: addresses
        engine.give(0)
    print(engine.train_step()["loss"])
"""
import ctypes

from . import (Engine, Error, _AT, _CALL, _Call, _F64, _Facts, _I32, _I64, _Layer, _Tensor, _Unit,
               _VALUES, _lib, _whole, CONST)

DONE, FORWARD, LOSS, BACKWARD = range(4)
_OUTSIDE, _FROZEN = 1, 1
_NONE = ctypes.cast(None, _CALL)


class Outside(Engine):
    """units: (name, tensors) each, with (name, shape, frozen) for each tensor, of 1 to 4 dimensions;
    layers: (name, numbers of units) each, in the order of a forward pass; behind them the loss is
    one more layer. numbers: how many words of 32 bits the program keeps in checkpoints. The rest is
    as for zeroth.Engine."""

    def __init__(self, units, layers, config=None, options=None, *, numbers=0, **more):
        self._units, self._places, self._n_numbers = list(units), list(layers), numbers
        super().__init__(config, options, **more)
        self.call = [_Call(size=ctypes.sizeof(_Call)) for _ in range(self._ranks)]

    def _set_models(self):
        units = (_Unit * len(self._units))()
        layers = (_Layer * (len(self._places) + 1))()
        for i, (name, given) in enumerate(self._units):
            tensors = (_Tensor * len(given))()
            for t, (tensor, shape, frozen) in zip(tensors, given):
                t.name, t.ndim, t.init, t.flags = tensor.encode(), len(shape), CONST, 0
                dims = [_whole(_I64, d, "{}: {}".format(name, tensor)) for d in shape]
                t.dims[:] = (dims + [1] * 4)[:4]  # the library refuses more of them
                t.flags = _FROZEN if frozen else 0
            units[i] = _Unit(name.encode(), tensors, len(given), 0)
            self._kept.append(tensors)
        for i, (name, numbers) in enumerate(self._places + [("loss", [])]):
            used = (_I32 * len(numbers))(*numbers)
            layers[i] = _Layer(name.encode(), used, len(numbers), 0, 0, 0, 0, _NONE, _NONE)
            self._kept.append(used)
        self._give_model(units, layers, _OUTSIDE, self._n_numbers)

    # -- by the thread of a rank

    def _rank_call(self, name, *arguments):
        at = self._at
        if not at:
            raise Error(-7, "the engine is closed")
        rc = getattr(_lib, "zeroth_" + name)(at, *arguments)
        if rc < 0:
            raise Error(rc, _lib.zeroth_error(at).decode())
        return rc

    def _facts(self):  # threads of several ranks ask at once
        f = _Facts(size=ctypes.sizeof(_Facts))
        self._rank_call("facts", ctypes.byref(f))
        return f

    def begin(self, rank, training):
        """Begins a micro-batch of a rank of this process."""
        self._rank_call("begin", rank, training)

    def take(self, rank):
        """What the rank comes to next: FORWARD, LOSS or BACKWARD of layer call[rank].layer, or
        DONE."""
        return self._rank_call("take", rank, ctypes.byref(self.call[rank]))

    def give(self, rank, code=0):
        """The program is done with it; a code below 0 ends the engine."""
        self._rank_call("give", rank, code)

    def stream(self, rank):
        """The address of the CUDA stream on which the engine computes, None on other devices."""
        at = _AT()
        self._rank_call("stream", rank, ctypes.byref(at))
        return at.value

    # -- by one thread

    def visit(self, how, function):
        """Calls function(tensor, first, n, address) for fp32 values: "get": to read all of them,
        "put": to write those that this process has, "change": to write some of these."""
        def call(_, i, first, n, at):
            try:
                function(i, first, n, at)
                return 0
            except BaseException as e:
                self._raised = e
                return -8
        self._call(how, _VALUES(call), None)

    def numbers(self, rank):
        """The address of the numbers of a rank of this process, None if there are none."""
        at = _AT()
        self._call("numbers", rank, ctypes.byref(at))
        return at.value

    def sum(self, numbers):
        """numbers: a list of floats for each rank of this process. Returns their sums over all
        ranks."""
        n = len(numbers[0])
        rows = [(_F64 * n)(*row) for row in numbers]
        table = (ctypes.POINTER(_F64) * self._ranks)(*[ctypes.cast(r, ctypes.POINTER(_F64))
                                                       for r in rows])
        self._call("sum", table, n)
        return list(rows[0])

    @property
    def rank(self):
        """The first of this process among all ranks."""
        return self._facts().rank

    @property
    def accumulation(self):
        return self._facts().accumulation

    def frozen(self):
        """Whether each tensor is frozen, by name."""
        return {name: bool(flags & _FROZEN) for name, _, flags, _ in self._tensors()}

    @property
    def dtype(self):
        """The type in which parameters are there: 1 is fp32, 2 bf16, 3 fp16."""
        return self._tensors()[0][3]
