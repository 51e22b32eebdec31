# SPDX-License-Identifier: Apache-2.0
"""zeroth.torch - trains a module of PyTorch with Zeroth: its ZeRO stages, tiers, optimizers,
clipping, loss scaling and checkpoints.

    import zeroth.torch
    engine = zeroth.torch.initialize(model, "train.ini")
    for batch in batches:
        loss = engine(batch)
        engine.backward(loss)
        engine.step()
    engine.save()

The module's parameters are then memory of Zeroth's, and are there while a module that uses them
computes: between, and outside of `with engine.gathered(module)`, they are NaN. Gradients go to
Zeroth as they are computed, and p.grad is None. Activations are PyTorch's.

The first batch is run once without learning, to see which module uses which parameters in which
order. Later batches follow that order, or are refused by the name of the module that does not.
"""
import contextlib
import ctypes
import fnmatch
import functools
import hashlib
import json
import logging
import os
import shutil
import subprocess
import tempfile
import threading
import zlib

try:
    import torch
except ImportError as e:
    raise ImportError("zeroth.torch trains modules of PyTorch, which this python lacks: pip install "
                      "torch ({})".format(e)) from e
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.checkpoint import checkpoint

from . import Error, _lib
from .devices import place_of
from .outside import BACKWARD, DONE, FORWARD, LOSS, Outside

_INVALID, _PEER, _STATE, _FAILED = -2, -6, -7, -8
_MOST_NUMBERS, _MOST_SUMS = 1 << 20, 65536
_DTYPES = {1: torch.float32, 2: torch.bfloat16, 3: torch.float16}
_CONTAINERS = (torch.nn.ModuleList, torch.nn.ModuleDict, torch.nn.Sequential)


# ---- ranks ------------------------------------------------------------------------------

_thread = threading.local()


class _Ranks:
    """Ranks that are threads of this process, and what they have in common."""

    def __init__(self, n):
        self.n, self.engine, self.kept, self._out = n, None, [None] * n, None
        self._barrier = threading.Barrier(n)

    def once(self, rank, function):
        """All ranks call it, and the first of them calls the function; all return what it does."""
        if self.n == 1:
            return function()
        self._barrier.wait()
        if rank == 0:
            try:
                self._out = function(), None
            except BaseException as e:
                self._out = None, e
        self._barrier.wait()
        out, raised = self._out
        self._barrier.wait()
        if raised is not None:
            raised = Error(raised.code, str(raised)) if isinstance(raised, Error) else raised
            raise raised
        return out

    def gather(self, rank, value):
        """The values that the ranks give, on each of them."""
        if self.n == 1:
            return [value]
        self.kept[rank] = value
        self._barrier.wait()
        out = list(self.kept)
        self._barrier.wait()
        return out

    def leave(self, rank):
        """A rank is gone: nobody waits for it, here or in a collective."""
        self._barrier.abort()
        e = self.engine
        steps = () if e is None else (lambda: e.begin(rank, True), lambda: e.take(rank),
                                      lambda: e.give(rank, _FAILED))
        for step in steps:
            with contextlib.suppress(Error):  # it is within a micro-batch, or has ended
                step()


def run(function, ranks):
    """Calls function(rank) in so many threads, which are the ranks of a training: each makes its
    own model, and calls initialize() and all that follows as a process of its own would. Returns
    what the functions return."""
    shared, out, raised = _Ranks(ranks), [None] * ranks, []

    def main(rank):
        _thread.ranks = shared, rank
        try:
            out[rank] = function(rank)
        except BaseException as e:
            raised.append(e)
            shared.leave(rank)

    threads = [threading.Thread(target=main, args=(i,)) for i in range(ranks)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    for e in sorted(raised, key=_is_of_another):
        raise e
    return out


def _is_of_another(e):
    """Whether what a rank raised follows from what another one did."""
    return isinstance(e, threading.BrokenBarrierError) or (isinstance(e, Error) and e.code == _PEER)


# ---- units ------------------------------------------------------------------------------

def _direct(module):
    return [p for p in module._parameters.values() if p is not None and p.numel()]


def _fits(name, pattern):
    """Whether a name fits a pattern, part by part: h.* fits h.0, not h.0.mlp."""
    a, b = name.split("."), pattern.split(".")
    return len(a) == len(b) and all(map(fnmatch.fnmatchcase, a, b))


def _is_plain(module):
    """A list of modules of which none has modules inside: it is one item of the list around it."""
    return all(not any(m.children()) for m in module.children())


class _Rule:
    """Finds units: lists of (name, module, parameters) that are gathered together. They are modules
    whose names fit a pattern, the items of lists and sequences, and else the outermost modules with
    parameters of their own. The module is None where only its own parameters are the unit."""

    def __init__(self, model, patterns):
        self.names = {m: n for n, m in model.named_modules()}
        self.named, self.units, self.items, self._taken = set(), [], [], set()
        known = [n for n in self.names.values() if n]
        for p in patterns:
            fitting = [m for m, n in self.names.items() if n and _fits(n, p)]
            if not fitting:
                raise ValueError("units: no module has a name like {}; their names are like {}"
                                 .format(p, ", ".join(known[:3]) or "(there are none)"))
            self.named.update(fitting)
        self._walk(model, False)

    def _take(self, module, whole):
        parameters = self._below(module) if whole else _direct(module)
        new = [p for p in parameters if id(p) not in self._taken]
        self._taken.update(id(p) for p in new)
        if new or (whole and any(True for _ in module.parameters())):
            self.units.append((self.names[module] or "(model)", module if whole else None, new))

    def _below(self, module):
        """Parameters of a module, but for those of named modules inside."""
        yield from _direct(module)
        for m in module.children():
            if m not in self.named:
                yield from self._below(m)

    def _has_inside(self, module, what):
        return any(what(m) for m in module.modules() if m is not module)

    def _walk(self, module, is_item):
        is_list = isinstance(module, _CONTAINERS)
        has_named = self._has_inside(module, lambda m: m in self.named)
        has_lists = self._has_inside(module, lambda m: isinstance(m, _CONTAINERS))
        is_block = is_item and not has_named and (not is_list or _is_plain(module))
        if module in self.named or is_block:
            self._take(module, True)
            self.items.append(module)
            for m in module.modules():
                if m is not module and m in self.named:
                    self._take(m, True)
            return
        if _direct(module) and not has_named and not has_lists:
            return self._take(module, True)
        if _direct(module):
            self._take(module, False)
        for m in module.children():
            self._walk(m, is_list)


class _Tensor:
    """A parameter of the module, and where Zeroth has it now."""

    def __init__(self, name, parameter, place):
        self.name, self.p, self.shape = name, parameter, tuple(parameter.shape)
        self.place = place
        self.elements = parameter.numel()
        self.first = parameter.data  # until Zeroth has it
        self.at = None               # address that p.data has
        self.blank = None            # p.data while it is nowhere
        self.low = None              # lowest layer that uses it,
        self.last = None             # and that uses its unit
        self.given = False           # its gradient of this micro-batch is there, at least a part
        self.views = {}

    def declared(self):
        """Its shape in 1 to 4 dimensions: those behind the third are one."""
        if len(self.shape) <= 4:
            return self.shape or (1,)
        last = 1
        for d in self.shape[3:]:
            last *= d
        return self.shape[:3] + (last,)

    def view(self, at, dtype):
        """Zeroth's memory at an address."""
        known = self.views.get((at, dtype))
        if known is None:
            known = self.views[at, dtype] = self.place.view(at, self.shape, dtype)
        return known


class _Layer:
    """A stretch of the forward pass, from where a unit's module begins to where the next one
    does."""

    def __init__(self, name, module):
        self.name, self.module, self.tensors, self.number = name, module, [], None


# ---- the order of a forward pass --------------------------------------------------------

class _Watch(TorchDispatchMode):
    """Says which parameters operations use."""

    def __init__(self, tensors, layers):
        super().__init__()
        self._of = {t.p.untyped_storage().data_ptr(): t for t in tensors}
        self._layers = layers

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        for x in tree_leaves((args, kwargs)):
            if isinstance(x, torch.Tensor) and x.layout == torch.strided:
                t = self._of.get(x.untyped_storage().data_ptr())
                if t is not None and t not in self._layers[-1].tensors:
                    self._layers[-1].tensors.append(t)
        return function(*args, **(kwargs or {}))


def _forked(place):
    """Random numbers are afterwards as before."""
    cards = [] if place.device.type == "cpu" else [place.device.index]
    return torch.random.fork_rng(devices=cards)


@contextlib.contextmanager
def _nothing_changes(model, place):
    """Buffers and random numbers are afterwards as before."""
    kept = [(b, b.detach().clone()) for b in model.buffers()]
    with _forked(place), torch.no_grad():
        yield
        for b, was in kept:
            b.copy_(was)


# ---- the engine -------------------------------------------------------------------------

class Engine:
    """What initialize() returns."""

    def __init__(self, model, config, options, units, example):
        shared, self._here = getattr(_thread, "ranks", None) or (_Ranks(1), 0)
        self._shared, self.module = shared, model
        self._config, self._options = config, dict(options or {})
        self._micro = 0
        self._patterns = [units] if isinstance(units, str) else list(units or [])
        self._engine = self._tensors = None
        self._layers, self._hooks, self._by_address = [], [], {}
        self._state, self._has_values = "new", False
        self._events, self._open, self._call = [], None, None
        self._find_tensors()
        if example is not None:
            args, kwargs = _arguments(example)
            self._start(args, kwargs)

    # -- what there is

    def _find_tensors(self):
        found, places = {}, {}
        some = [(name, p) for name, p in self.module.named_parameters() if p.numel()]
        self._place = place_of(some)
        for name, p in some:
            if p.dtype not in _DTYPES.values():
                raise Error(_INVALID, "{} is {}; parameters are float32, bfloat16 or float16: "
                                      "model.float()".format(name, p.dtype))
            at = p.untyped_storage().data_ptr()
            if at in places:
                raise Error(_INVALID, "{} and {} are two parameters in one memory; make them one "
                                      "Parameter, or two memories".format(places[at], name))
            places[at] = name
            found[id(p)] = _Tensor(name, p, self._place)
        if not found:
            raise Error(_INVALID, "the module has no parameters to train")
        self._tensors = list(found.values())
        self._of = found
        rule = _Rule(self.module, self._patterns)
        self._units, self._items = rule.units, rule.items

    def _start(self, args, kwargs):
        """From the first batch to an engine that is open."""
        self._trace(args, kwargs)
        self._declare()
        self._shared.once(self._here, self._open_engine)
        self._install()
        self._state = "idle"

    def _trace(self, args, kwargs):
        layers, hooks = [_Layer("(before {})".format(self._units[0][0]), None)], []

        def enters(name):
            def hook(module, *_):
                layers.append(_Layer(name, module))
            return hook
        for name, module, _ in self._units:
            if module is not None:
                hooks.append(module.register_forward_pre_hook(enters(name), prepend=True))
        try:
            with _nothing_changes(self.module, self._place), _Watch(self._tensors, layers):
                self.module(*args, **kwargs)
        finally:
            for h in hooks:
                h.remove()
        self._events = [layer for layer in layers if layer.module is not None or layer.tensors]

    def _declare(self):
        """Units, and layers that use them."""
        self._layers = [e for e in self._events if e.tensors]
        used = {id(t) for e in self._layers for t in e.tensors}
        unit_of, units = {}, []
        for name, _, parameters in self._units:
            mine = [self._of[id(p)] for p in parameters]
            if mine:
                for t in mine:
                    unit_of[id(t)] = len(units)
                units.append((name, mine))
        idle = [t for t in self._tensors if id(t) not in used]
        self._frozen = {id(t) for t in self._tensors if not t.p.requires_grad or t in idle}
        if not self._layers:
            raise Error(_INVALID, "the forward pass used no parameter of the module")
        self._declared_units = [(n, [(t.name, t.declared(), id(t) in self._frozen) for t in mine])
                                for n, mine in units]
        self._declared_layers = []
        for i, layer in enumerate(self._layers):
            layer.number = i
            numbers = []
            for t in layer.tensors + (idle if not i else []):
                if unit_of[id(t)] not in numbers:
                    numbers.append(unit_of[id(t)])
            for t in layer.tensors:
                t.low = i if t.low is None else t.low
            layer.tensors = [t for n in numbers for t in units[n][1]]
            for t in layer.tensors:
                t.last = i if t.last is None else t.last
            self._declared_layers.append(("{} {}".format(i, layer.name), numbers))
        self._order = [t for _, mine in units for t in mine]  # as Zeroth numbers them

    def _open_engine(self):
        how = _configured(self._config, self._options)
        if self._shared.n == 1 and _is_launched() and not _says(how, "boot", "plugin"):
            how["options"]["boot.plugin"] = "env"
        self._place.complete(how, functools.partial(_says, how), self._shared.n)
        self._shared.engine = Outside(self._declared_units, self._declared_layers, **how,
                                      ranks=self._shared.n, numbers=self._count_numbers())

    def _install(self):
        self._engine = self._shared.engine
        frozen = self._engine.frozen()
        self._rank = self._engine.rank + self._here
        self.dtype = _DTYPES[self._engine.dtype]
        self._settings = self._shared.once(self._here, self._engine.config)
        local = self._here if self._shared.n > 1 else _local_rank()
        self._place.begin(self._settings, self._engine.stream(self._here), local)
        for t in self._tensors:
            t.trained = not frozen[t.name]
            if not t.trained:
                t.p.requires_grad_(False)
            else:
                self._hooks.append(t.p.register_post_accumulate_grad_hook(self._takes(t)))
        compiled = any(getattr(m, "_compiled_call_impl", None) for m in self.module.modules())
        for name, module, _ in self._units:
            if module is not None:
                enters, leaves = self._enters(module), self._leaves
                if compiled:
                    enters, leaves = map(torch.compiler.disable, (enters, leaves))
                # before hooks that compute with parameters, as those of weight_norm
                self._hooks.append(module.register_forward_pre_hook(enters, prepend=True))
                self._hooks.append(module.register_forward_hook(leaves))
        self._recompute()
        self._names = {m: n or "(model)" for n, m in self.module.named_modules()}

    def _recompute(self):
        """What [activation] asks for: activations are PyTorch's, so it is done by checkpoint()."""
        plugin = self._settings["activation.plugin"]
        if plugin == "keep":
            return
        if plugin != "recompute":
            raise Error(_INVALID, "[activation] plugin = {}: activations are PyTorch's here: keep, or "
                                  "recompute".format(plugin))
        for key, only in (("every", "1"), ("max_bytes", "0"), ("outputs", "keep")):
            value = self._settings.get("activation." + key, only)
            if value != only:
                raise Error(_INVALID, "[activation] {} = {}: modules of PyTorch are computed again "
                                      "one by one: {}".format(key, value, only))
        if not self._items:
            raise Error(_INVALID, "[activation] plugin = recompute: the module has no blocks, which "
                                  "are items of a list or named by units=[...]")
        for module in self._items:
            module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)

    def _ready(self, what):
        if self._state == "new":
            raise Error(_STATE, "{}: the engine is not open before its first batch: call "
                                "engine(batch) before, or initialize(..., example=batch)".format(
                                    what))
        if self._state == "closed":
            raise Error(_STATE, "{}: the engine is closed".format(what))
        if self._state == "failed":
            raise Error(_STATE, "{}: the engine has ended, as a call before failed: close() it"
                        .format(what))
        if self._state == "forwarded":
            raise Error(_STATE, "{} comes between micro-batches: engine.backward(loss) is missing"
                        .format(what))

    def _begin_values(self):
        """Zeroth gets the values that the module has, unless it resumed."""
        if not self._has_values:
            self._check_same()
            self._shared.once(self._here, lambda: self._engine.visit("put", self._gives))
        self._has_values = True
        for t in self._tensors:
            if t.first is not None:
                t.first = None
                self._drop(t)

    def _gives(self, i, first, n, at):
        t = self._order[i]
        _store(t.first, first, n, at)

    def _check_same(self):
        """All ranks begin with the same values."""
        crc = 0
        for t in self._order:
            crc = _crc(t.first, crc)
        if not self._agree(crc):
            raise Error(_INVALID, "the ranks begin with different parameters; give all of them the "
                                  "same, as by torch.manual_seed() before the model is made")

    def _agree(self, number):
        """Whether 32 bits are the same on all ranks."""
        low, high = float(number & 0xffff), float(number >> 16 & 0xffff)
        n, a, b, aa, bb = self._sum([1.0, low, high, low * low, high * high])
        return n * aa == a * a and n * bb == b * b

    def _sum(self, numbers):
        rows = self._shared.gather(self._here, list(numbers))
        return self._shared.once(self._here, lambda: self._engine.sum(rows))

    # -- where parameters are

    def _bind(self, layer, call):
        for k, t in enumerate(layer.tensors):
            at = call.param[k]
            if t.at != at:
                self._by_address.pop(t.at, None)
                t.p.data = t.view(at, self.dtype)
                t.at = at
                self._by_address[at] = t

    def _drop(self, t):
        if t.blank is None:
            t.blank = torch.full((), float("nan"), dtype=self.dtype,
                                 device=self._place.device).expand(t.shape)
        self._by_address.pop(t.at, None)
        t.p.data, t.at = t.blank, None

    def _drop_layer(self, layer, then=()):
        for t in layer.tensors:
            if t not in then:
                self._drop(t)

    def _take(self):
        kind = self._engine.take(self._here)
        self._call = self._engine.call[self._here]
        return kind

    # -- forward

    def _enters(self, module):
        def hook(*_):
            if self._state == "forward":
                self._advance(module)
            elif self._state == "backward":
                self._again(module)
        return hook

    def _leaves(self, module, args, out):
        """The backward pass of a module begins with the gradient of what it returned."""
        if self._state != "forward" or not self._training or self._open is None:
            return
        number = self._open.number

        def reach(_):
            if self._state == "backward" and (self._open is None or self._open.number > number):
                self._reach(number)
        for x in tree_leaves(out):
            if isinstance(x, torch.Tensor) and x.requires_grad:
                x.register_hook(reach)

    def _advance(self, module):
        """The next layer begins with this module."""
        i = self._event
        if i == len(self._events) or self._events[i].module is not module:
            due = "the end" if i == len(self._events) else self._events[i].name
            raise Error(_INVALID, "{} computes where the first forward pass had {}; the order of "
                                  "modules is that of the first batch".format(
                                      self._names[module], due))
        self._event += 1
        if self._events[i].number is not None:
            self._go_to(self._events[i])

    def _go_to(self, layer):
        self._close_layer(layer.tensors)
        self._expect(FORWARD, layer.number)
        self._bind(layer, self._call)
        self._open = layer

    def _expect(self, kind, number):
        got = self._take()
        if got != kind or (number is not None and self._call.layer != number):
            raise Error(_FAILED, "Zeroth is at {} of layer {}, not at {} of {}".format(
                got, self._call.layer, kind, number))

    def _close_layer(self, then=()):
        if self._open is not None:
            self._drop_layer(self._open, then)
            self._open = None
            self._engine.give(self._here)

    def __call__(self, *args, **kwargs):
        """The module on a micro-batch; returns what it returns. Nothing is learned where gradients
        are not enabled or the module is in eval()."""
        args = tuple(args)
        if self._state == "new":
            self._start(args, kwargs)
        self._ready("a forward pass")
        self._begin_values()
        training = torch.is_grad_enabled() and self.module.training
        try:
            return self._forward(training, args, kwargs)
        except BaseException:
            self._fail()
            raise

    def _forward(self, training, args, kwargs):
        self._engine.begin(self._here, training)
        self._state, self._event, self._training = "forward", 0, training
        if self._events[0].module is None:
            self._event = 1
            self._go_to(self._events[0])
        saved = contextlib.nullcontext()
        if training:
            saved = torch.autograd.graph.saved_tensors_hooks(self._pack, self._unpack)
        args, kwargs = self._cast(args), self._cast(kwargs)
        with saved, self._place.computing(), self._drawing():
            out = self.module(*args, **kwargs)
        if self._event < len(self._events):
            raise Error(_INVALID, "the forward pass ended before {}, which the first one had; the "
                                  "order of modules is that of the first batch".format(
                                      self._events[self._event].name))
        self._close_layer()
        self._state = "forwarded"
        if not training:
            self._expect(LOSS, None)
            self._fill_loss(0.0)
            self._engine.give(self._here)
            self._expect(DONE, None)
            self._state = "idle"
        return out

    def _cast(self, given):
        """Numbers with a fraction in the type of the parameters."""
        kind = self._place.device.type
        if self.dtype == torch.float32 or torch.is_autocast_enabled(kind):
            return given

        def cast(x):
            is_real = isinstance(x, torch.Tensor) and x.is_floating_point()
            return x.to(self.dtype) if is_real else x
        return tree_map(cast, given)

    @contextlib.contextmanager
    def _drawing(self):
        """Dropout and the like draw by [train] seed, the step and the micro-batch of the step: the same
        after a resume, and on any number of processes. Threads share one generator, and do not."""
        if self._shared.n > 1 or not self._training:
            yield
            return
        slot = self._micro * self._engine.ranks + self._rank
        words = (self._settings["train.seed"], self._engine.step, slot)
        seed = int.from_bytes(hashlib.blake2b(repr(words).encode(), digest_size=8).digest(), "big")
        with _forked(self._place):
            for generator in [torch.default_generator] + self._place.generators():
                generator.manual_seed(seed)
            yield

    def _fill_loss(self, value):
        row = (ctypes.c_float * self._call.samples).from_address(self._call.loss)
        row[:] = [value] * self._call.samples

    # -- backward

    def _pack(self, x):
        if x.layout != torch.strided:
            return x
        t = self._by_address.get(x.untyped_storage().data_ptr())
        if t is None:
            return x
        return t, self._open.number, x.storage_offset(), x.shape, x.stride()

    def _unpack(self, kept):
        if isinstance(kept, torch.Tensor):
            return kept
        t, number, offset, shape, stride = kept
        if self._state == "backward":
            self._reach(number)
        if t.at is None:
            raise Error(_STATE, "{} is not there; engine.backward(loss) computes gradients".format(
                t.name))
        return t.view(t.at, t.p.dtype).as_strided(shape, stride, offset)

    def _reach(self, number):
        """The backward pass is at this layer, or comes to it."""
        while self._open is None or self._open.number > number:
            at = len(self._layers) if self._open is None else self._open.number
            self._leave(self._layers[at - 1].tensors if at else ())
            self._expect(BACKWARD, at - 1)
            layer = self._layers[at - 1]
            self._bind(layer, self._call)
            self._open = layer
        if self._open.number < number:
            raise Error(_INVALID, "{} is needed again in the backward pass after {}; make them one "
                                  "unit: initialize(..., units=[...])".format(
                                      self._layers[number].name, self._open.name))

    def _leave(self, then):
        """The layer of the backward pass has all its gradients: what came none for is 0, once no
        layer is left from which some could come."""
        if self._open is None:
            return
        for k, t in enumerate(self._open.tensors):
            if t.trained and not t.given and t.last == self._open.number:
                t.view(self._call.dparam[k], torch.float32).zero_()
        self._close_layer(then)

    def _again(self, module):
        """A module computes again in the backward pass, as checkpoint() lets it."""
        at = self._open.number if self._open is not None else len(self._layers)
        below = [e.number for e in self._layers if e.module is module and e.number <= at]
        if not below:
            return
        for layer in self._layers[max(below) + 1:at]:
            if any(t.trained and t.low == layer.number for t in layer.tensors):
                raise Error(_INVALID, "{} is computed again in the backward pass before {} is; where "
                                      "a checkpoint() spans several units make them one: "
                                      "initialize(..., units=[...])".format(
                                          self._names[module], layer.name))
        self._reach(max(below))

    def _takes(self, t):
        def hook(p):
            if self._state != "backward":
                raise Error(_STATE, "a gradient of {} came outside of engine.backward(loss)".format(
                    t.name))
            if self._open is None or t not in self._open.tensors:
                self._reach(t.low)
            k = self._open.tensors.index(t)
            to, gradient = t.view(self._call.dparam[k], torch.float32), p.grad
            with self._place.computing():
                if t.given:
                    to.add_(gradient)
                elif gradient.layout == torch.strided:
                    to.copy_(gradient)
                else:
                    to.zero_().add_(gradient)
            t.given, p.grad = True, None
        return hook

    def backward(self, loss):
        """Computes the gradients of a loss, the mean over the micro-batch, that followed from the
        forward pass before."""
        if self._state != "forwarded":
            raise Error(_STATE, "backward comes after a forward pass that learns: engine(batch) with "
                                "the module in train()")
        if loss.numel() != 1 or not loss.requires_grad:
            raise Error(_INVALID, "backward: expected a loss of one element that depends on "
                                  "parameters; this one has {} and requires_grad={}".format(
                                      loss.numel(), loss.requires_grad))
        try:
            self._backward(loss)
        except BaseException:
            self._fail()
            raise

    def _backward(self, loss):
        self._expect(LOSS, None)
        scale = self._call.scale * self._call.samples
        self._fill_loss(float(loss.detach()))
        self._engine.give(self._here)
        self._state = "backward"
        for t in self._tensors:
            t.given = False
        with self._place.computing():
            loss.backward(torch.full_like(loss, scale))
            if self._lowest() < len(self._layers):
                self._reach(self._lowest())
            self._leave(())
        self._expect(DONE, None)
        self._micro += 1
        self._state = "idle"

    def _lowest(self):
        """The lowest layer that has a backward."""
        return min((t.low for t in self._tensors if t.trained), default=len(self._layers))

    def _fail(self):
        """What was begun cannot go on: other ranks learn that it ended."""
        state, self._state = self._state, "failed"
        if state in ("forward", "forwarded", "backward"):
            try:
                if self._open is None:
                    self._take()
                self._engine.give(self._here, _FAILED)
                self._engine.take(self._here)
            except Error:
                pass
        for t in self._tensors:
            if t.at is not None:
                self._drop(t)

    # -- steps

    def step(self):
        """Ends the step if it has all its micro-batches: a dict of its numbers, whose outcome is
        "applied", "skipped" or "pending"."""
        self._ready("step")
        out = self._once(self._engine.train_step)
        if out["outcome"] != "pending":
            self._micro = 0
        return out

    def _once(self, function):
        return self._shared.once(self._here, function)

    def evaluate(self, batches, loss=None):
        """The mean loss over batches, of all ranks: {"loss": , "batches": }. Each rank gives as
        many. loss: a function of what the module returns and the batch; without it that is the
        loss, or has it as `loss`. The module is in eval() meanwhile."""
        was, total, batches = self.module.training, 0.0, list(batches)
        self.module.eval()
        try:
            if not batches:
                raise Error(_INVALID, "evaluate: no batches")
            if self._state == "new":
                self._start(*_arguments(batches[0]))
            self._ready("evaluate")
            n = float(len(batches))
            ranks, all_n, squares = self._sum([1.0, n, n * n])
            if ranks * squares != all_n * all_n:
                raise Error(_INVALID, "evaluate: {} batches here; all ranks give the same number"
                            .format(len(batches)))
            with torch.no_grad():
                for batch in batches:
                    args, kwargs = _arguments(batch)
                    out = self(*args, **kwargs)
                    total += float(loss(out, batch) if loss else getattr(out, "loss", out))
        finally:
            self.module.train(was)
        return {"loss": self._sum([total])[0] / all_n, "batches": int(all_n)}

    # -- what comes out

    @property
    def global_step(self):
        """Steps of the training so far."""
        return self._engine.step if self._engine else 0

    @property
    def steps(self):
        """Steps of [train] steps."""
        return self._facts("steps", lambda e: e.steps)

    @property
    def micro_batch(self):
        """Samples of a micro-batch, [train] micro_batch_size."""
        return self._facts("micro_batch", lambda e: e.micro_batch)

    @property
    def planned(self):
        """Bytes that Zeroth takes by its plan: all but PyTorch's activations."""
        return self._facts("planned", lambda e: e.planned)

    @property
    def accumulation(self):
        """Micro-batches of a rank and step."""
        return self._facts("accumulation", lambda e: e.accumulation)

    @property
    def world(self):
        return self._facts("world", lambda e: e.ranks)

    @property
    def rank(self):
        return self._facts("rank", lambda e: self._rank)

    def _facts(self, what, get):
        if self._engine is None:
            self._ready(what)
        return get(self._engine)

    def metrics(self):
        """The numbers of the last step by name."""
        self._ready("metrics")
        return self._once(self._engine.metrics)

    def digest(self):
        """Two texts that are the same for equal trainings: of all losses, and of all
        parameters."""
        self._ready("digest")
        self._begin_values()
        return self._once(self._engine.digest)

    def save(self):
        """Saves a checkpoint in the directory of [checkpoint] or [run], with the module's buffers
        as rank 0 has them."""
        self._ready("save")
        self._begin_values()
        self._share_buffers()
        self._buffers_out()
        self._once(self._engine.save)

    def resume(self, path="auto"):
        """Goes on from a checkpoint, before the first micro-batch; returns its step, -1 if "auto"
        finds none."""
        self._ready("resume")
        if self._has_values:
            raise Error(_STATE, "resume comes before the first micro-batch")
        step = self._once(lambda: self._engine.resume(path))
        if step >= 0:
            self._has_values = True
            self._begin_values()
            self._buffers_in()
        return step

    def state_dict(self):
        """The module's state_dict(), parameters in fp32, on all ranks."""
        self._ready("state_dict")
        self._begin_values()
        self._share_buffers()
        values = self._values(self._order)
        out = {}
        for name, x in self.module.state_dict(keep_vars=True).items():
            t = self._of.get(id(x))
            out[name] = x.detach().clone() if t is None else values[t.name].to(x.device)
        return out

    def load_state_dict(self, state):
        """Sets parameters and buffers to those of a state_dict(), on all ranks the same."""
        self._ready("load_state_dict")
        own = self.module.state_dict(keep_vars=True)
        for what, names in (("unknown", set(state) - set(own)), ("missing", set(own) - set(state))):
            if names:
                raise Error(_INVALID, "load_state_dict: {} {}; expected the names of the module's "
                                      "state_dict()".format(what, ", ".join(sorted(names)[:8])))
        given = {}
        for name, x in own.items():
            if x.shape != state[name].shape:
                raise Error(_INVALID, "load_state_dict: {} has shape {}, expected {}".format(
                    name, tuple(state[name].shape), tuple(x.shape)))
            t = self._of.get(id(x))
            if t is not None:
                given[t.name] = state[name]
        self._begin_values()
        self._change(given)
        with torch.no_grad():
            for name, x in own.items():
                if id(x) not in self._of:
                    x.copy_(state[name])

    @contextlib.contextmanager
    def gathered(self, module):
        """The parameters of a module, or of a list of parameters, are there in fp32 within, to be
        read, and changed in place, on all ranks alike. Between steps, by all ranks."""
        self._ready("gathered")
        self._begin_values()
        parameters = module.parameters() if isinstance(module, torch.nn.Module) else module
        unknown = [p for p in parameters if id(p) not in self._of and p.numel()] \
            if not isinstance(module, torch.nn.Module) else []
        if unknown:
            raise Error(_INVALID, "gathered: a parameter of shape {} is none of the module's"
                        .format(tuple(unknown[0].shape)))
        parameters = module.parameters() if isinstance(module, torch.nn.Module) else module
        wanted = [self._of[id(p)] for p in parameters if id(p) in self._of]
        values = {n: x.to(self._place.device) for n, x in self._values(wanted).items()}
        before = {t.name: _crc(values[t.name]) for t in wanted}
        for t in wanted:
            t.p.data = values[t.name]
        try:
            yield module
        finally:
            now = {t.name: t.p.data for t in wanted}
            for t in wanted:
                self._drop(t)
        self._change({name: x for name, x in now.items()
                      if x is not values[name] or _crc(x) != before[name]})

    def unwrap(self):
        """Ends the engine, and gives the module its parameters back, in fp32; returns it."""
        state = self.state_dict()
        self.close()
        own = self.module.state_dict(keep_vars=True)
        for name, x in state.items():
            t = self._of.get(id(own[name]))
            if t is not None:
                t.p.data = x.to(self._place.device, copy=True)
        return self.module

    def _values(self, wanted):
        """Values of tensors in fp32, by name."""
        out = {t.name: torch.empty(t.shape, dtype=torch.float32) for t in wanted}
        rows = self._shared.gather(self._here, out)

        def take(i, first, n, at):
            name = self._order[i].name
            for row in rows:
                if name in row:
                    ctypes.memmove(row[name].data_ptr() + 4 * first, at, 4 * n)
        self._once(lambda: self._engine.visit("get", take))
        return out

    def _change(self, given):
        """Sets tensors of these names to values that are the same on all ranks."""
        crc, given = 0, {n: _on_host(x).to(torch.float32) for n, x in given.items()}
        for name in sorted(given):
            crc = _crc(given[name], zlib.crc32(name.encode(), crc))
        if not self._agree(crc):
            raise Error(_INVALID, "the ranks set parameters to different values; make the same "
                                  "change on all of them")
        if not given:
            return

        def put(i, first, n, at):
            x = given.get(self._order[i].name)
            if x is not None:
                ctypes.memmove(at, x.data_ptr() + 4 * first, 4 * n)
        self._once(lambda: self._engine.visit("change", put))

    # -- buffers, which checkpoints keep as words of 32 bits

    def _kept_buffers(self):
        """Those of the module's state_dict()."""
        return [b for b in self.module.state_dict(keep_vars=True).values()
                if isinstance(b, torch.Tensor) and id(b) not in self._of and b.numel()
                and not isinstance(b, torch.nn.Parameter)]

    def _count_numbers(self):
        n = sum(_words(b) for b in self._kept_buffers())
        if n > _MOST_NUMBERS:
            raise Error(_INVALID, "the module's buffers have {} bytes; checkpoints keep at most {}: "
                                  "register_buffer(..., persistent=False) for those that need not "
                                  "be kept".format(4 * n, 4 * _MOST_NUMBERS))
        return n

    def _share_buffers(self):
        """All ranks get the buffers of rank 0, as DistributedDataParallel does it."""
        if self._engine.ranks == 1:
            return
        for b in self._kept_buffers():
            words = (ctypes.c_uint32 * _words(b))()
            if self._rank == 0:
                _copy_out(b, ctypes.addressof(words))
            for i in range(0, len(words), _MOST_SUMS):
                part = [float(w) for w in words[i:i + _MOST_SUMS]]
                words[i:i + _MOST_SUMS] = [int(w) for w in self._sum(part)]
            _fill(b, ctypes.addressof(words))

    def _buffers_out(self):
        at = self._once(lambda: [self._engine.numbers(i) for i in range(self._shared.n)])[self._here]
        for b in self._kept_buffers():
            _copy_out(b, at)
            at += 4 * _words(b)

    def _buffers_in(self):
        at = self._once(lambda: [self._engine.numbers(i) for i in range(self._shared.n)])[self._here]
        for b in self._kept_buffers():
            _fill(b, at)
            at += 4 * _words(b)

    def close(self):
        """Ends the engine; the module's parameters are NaN then."""
        if self._state == "closed":
            return
        was, self._state = self._state, "closed"
        for h in self._hooks:
            h.remove()
        for module in self._items:
            if isinstance(module.__dict__.get("forward"), functools.partial):
                del module.forward
        if was != "new":
            for t in self._tensors:
                if t.first is None:
                    self._drop(t)
            self._once(self._engine.close)


def _words(buffer):
    return (buffer.numel() * buffer.element_size() + 3) // 4


def _fill(buffer, at):
    raw = bytearray(ctypes.string_at(at, buffer.numel() * buffer.element_size()))
    with torch.no_grad():
        buffer.copy_(torch.frombuffer(raw, dtype=buffer.dtype).view(buffer.shape))


def _is_launched():
    """Whether torchrun, or a script that does as it does, started this process among others."""
    return "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


def _local_rank():
    """The number of this process among those of the training on its machine."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def _says(how, section, key):
    """Whether a configuration says something about a key."""
    if section + "." + key in how["options"]:
        return True
    text, found = how.get("text") or "", ""
    if how.get("config") is not None:
        with open(how["config"], encoding="utf-8", errors="replace") as file:
            text = file.read()
    for line in text.splitlines():
        line = line.strip()
        if line.startswith("["):
            found = line[1:].partition("]")[0].strip()
        elif found == section and line.partition("=")[0].strip() == key:
            return True
    return False


def _is_deepspeed(config):
    """Whether a dict is a configuration of DeepSpeed, which has keys outside of sections."""
    return any("." not in key and not isinstance(value, dict) for key, value in config.items()) \
        or "zero_optimization" in config or "type" in config.get("optimizer", {})


def _command():
    """The command zeroth, of the prefix or the build that the library is of."""
    at = os.path.dirname(os.path.realpath(_lib._name)) if "/" in _lib._name else ""
    for path in (os.path.join(at, "..", "bin", "zeroth"), os.path.join(at, "..", "zeroth")):
        if at and os.access(path, os.X_OK):
            return path
    found = shutil.which("zeroth")
    if not found:
        raise Error(_INVALID, "DeepSpeed's configuration is read by the command zeroth, which is "
                              "neither beside {} nor in PATH: install it, or give an INI".format(
                                  _lib._name))
    return found


def _imported(path):
    """The text of an INI that says what DeepSpeed's file does."""
    done = subprocess.run([_command(), "config", "import", "--device", "cpu", path],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
    said = done.stderr.decode().strip()
    if done.returncode:
        raise Error(_INVALID, said)
    logging.getLogger("zeroth").warning("%s", said)
    return done.stdout.decode()


def _configured(config, options):
    """Arguments of zeroth.Engine for what initialize() was given."""
    options = dict(options or {})
    if isinstance(config, dict) and not _is_deepspeed(config):
        return {"options": {**_flat(config), **options}}
    if isinstance(config, dict):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(config, file, indent=1)
            file.flush()
            return {"text": _imported(file.name), "options": options}
    if config is not None and os.fspath(config).endswith(".json"):
        return {"text": _imported(config), "options": options}
    return {"config": config, "options": options}


def _on_host(x):
    return x.detach().to("cpu").contiguous()


def _store(x, first, n, at):
    """Elements of a tensor in fp32, to an address of the host."""
    part = _on_host(x.detach().reshape(-1)[first:first + n]).to(torch.float32)
    ctypes.memmove(at, part.data_ptr(), 4 * n)


def _crc(x, crc=0):
    x = _on_host(x)
    raw = (ctypes.c_char * (x.numel() * x.element_size())).from_address(x.data_ptr())
    return zlib.crc32(raw, crc)


def _copy_out(x, at):
    """The bytes of a tensor, to an address of the host."""
    x = _on_host(x)
    ctypes.memmove(at, x.data_ptr(), x.numel() * x.element_size())


def _arguments(batch):
    if isinstance(batch, dict):
        return (), batch
    return tuple(batch) if isinstance(batch, (tuple, list)) else (batch,), {}


def _flat(config):
    """A dict of sections, or of "section.key"."""
    out = {}
    for section, value in config.items():
        for key, v in value.items() if isinstance(value, dict) else [(None, value)]:
            name = section if key is None else "{}.{}".format(section, key)
            out[name] = {True: "yes", False: "no"}.get(v, v) if isinstance(v, bool) else v
    return out


def initialize(model, config=None, *, options=None, units=None, example=None):
    """An engine that trains the module. config: the path of an INI file, or a dict {"zero":
    {"plugin": "stage3"}}; or DeepSpeed's configuration, a path of .json or a dict. options: a dict of "section.key" over it. units: patterns of names of
    modules whose parameters are gathered together; what fits none is found by a rule. example: a
    batch by which the engine opens at once, not with the first one: a tuple of arguments, or a dict
    of them by name."""
    return Engine(model, config, options, units, example)


# ---- as an optimizer --------------------------------------------------------------------

class Optimizer:
    """Updates parameters as torch.optim's optimizers do, with any optimizer of Zeroth's and its
    states on any tier, for a training that computes and shares gradients itself.

        optimizer = zeroth.torch.Optimizer(model.named_parameters(), {"optimizer": {"lr": 1e-3}})
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    parameters: as torch.optim takes them, or pairs of name and parameter; they become memory of
    Zeroth's. config, options: as for initialize(); stages 0 to 2. The learning rate is [scheduler]'s.
    A parameter without a gradient gets 0."""

    def __init__(self, parameters, config=None, *, options=None, unit=1 << 22):
        pairs = [p if isinstance(p, tuple) else ("p{}".format(i), p)
                 for i, p in enumerate(parameters)]
        trained = [(name, p) for name, p in pairs if p.requires_grad and p.numel()]
        self._place = place_of(trained)
        self._tensors = [_Tensor(name, p, self._place) for name, p in trained]
        if not self._tensors:
            raise Error(_INVALID, "the optimizer has no parameters to train")
        self._groups = [[]]
        for t in self._tensors:
            if sum(x.elements for x in self._groups[-1]) + t.elements > unit and self._groups[-1]:
                self._groups.append([])
            self._groups[-1].append(t)
        how = _configured(config, options)
        how["options"].setdefault("train.micro_batch_size", 1)
        # nothing is left for a next forward pass: step() returns with the parameters updated
        how["options"]["train.update_in_forward"] = "no"
        units = [("unit {}".format(i), [(t.name, t.declared(), False) for t in group])
                 for i, group in enumerate(self._groups)]
        layers = [(name, [i]) for i, (name, _) in enumerate(units)]
        self._place.complete(how, functools.partial(_says, how), 1)
        self._engine = Outside(units, layers, **how)
        self._place.begin(self._engine.config(), self._engine.stream(0), _local_rank())
        self._begun = False
        self._check()

    def _check(self):
        dtype = _DTYPES[self._engine.dtype]
        for t in self._tensors:
            if t.p.dtype != dtype:
                raise Error(_INVALID, "{} is {}; [precision] has {}".format(t.name, t.p.dtype,
                                                                            dtype))
        if self._engine.accumulation != 1:
            raise Error(_INVALID, "[train] has {} micro-batches in a step; the optimizer gets whole "
                                  "gradients: leave train_batch_size out".format(
                                      self._engine.accumulation))

    def _pass(self, training, each):
        """One pass over all units: each(tensor, address) for what is there of it."""
        e = self._engine
        e.begin(0, training)
        while True:
            kind, call = e.take(0), e.call[0]
            if kind == DONE:
                return
            if kind == LOSS:
                (ctypes.c_float * call.samples).from_address(call.loss)[:] = [0.0] * call.samples
                self._scale = call.scale * call.samples
            elif kind == (BACKWARD if training else FORWARD):
                at = call.dparam if training else call.param
                for k, t in enumerate(self._groups[call.layer]):
                    if at[k]:
                        each(t, at[k])
            e.give(0)

    def _binds(self, t, at):
        t.p.data, t.at = t.view(at, t.p.dtype), at

    def _stores(self, t, at):
        to, gradient = t.view(at, torch.float32), t.p.grad
        if gradient is None:
            to.zero_()
        elif gradient.layout == torch.strided:
            torch.mul(gradient, self._scale, out=to) if gradient.dtype == to.dtype \
                else to.copy_(gradient).mul_(self._scale)
        else:
            to.zero_().add_(gradient, alpha=self._scale)

    def _gives(self, i, first, n, at):
        _store(self._tensors[i].first, first, n, at)

    def _begin(self, resumed=False):
        if self._begun:
            return
        stage = self._engine.config()["zero.plugin"]
        if stage not in ("stage0", "stage1", "stage2"):
            raise Error(_INVALID, "[zero] plugin = {}: an optimizer's parameters are whole between "
                                  "its steps: stage0, stage1 or stage2".format(stage))
        if not resumed:
            self._engine.visit("put", self._gives)
        self._pass(False, self._binds)
        for t in self._tensors:
            t.first = None
        self._begun = True

    def step(self, closure=None):
        """Updates the parameters by their gradients; returns what closure() does."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with torch.no_grad():
            self._begin()
            with self._place.computing():
                self._pass(True, self._stores)
        self._engine.train_step()
        self._place.end()
        return loss

    def zero_grad(self, set_to_none=True):
        for t in self._tensors:
            if set_to_none or t.p.grad is None:
                t.p.grad = None
            else:
                t.p.grad.zero_()

    def metrics(self):
        """The numbers of the last step by name: grad_norm, lr and others."""
        return self._engine.metrics()

    def save(self):
        """Saves parameters and states in the directory of [checkpoint] or [run]."""
        self._begin()
        self._engine.save()

    def resume(self, path="auto"):
        """Goes on from a checkpoint, before the first step; returns its step, -1 if "auto" finds
        none."""
        step = self._engine.resume(path)
        if step >= 0:
            self._begin(resumed=True)
        return step

    def close(self):
        """Ends it; the parameters are PyTorch's again, as they are."""
        for t in self._tensors:
            t.p.data = t.p.data.clone()
        self._engine.close()
