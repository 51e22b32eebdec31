# SPDX-License-Identifier: Apache-2.0
"""zeroth - train with libzeroth from Python, by ctypes.

    import zeroth
    with zeroth.Engine("quickstart.ini", {"zero.plugin": "stage2"}, ranks=2) as engine:
        while engine.step < engine.steps:
            print(engine.train_step()["loss"])
        weights = engine.parameters()        # a dict of arrays

A model of one's own is a list of layers (see Layer), trained by engine.forward(batches),
engine.backward(), engine.train_step(); a module of PyTorch is trained by zeroth.torch. Arrays are
numpy's where it is installed, else memoryviews of floats. Calls that fail raise zeroth.Error with the text of zeroth_error(3).
"""
import ctypes
import ctypes.util
import os
import sysconfig

try:
    import numpy
except ImportError:
    numpy = None

_SIZE = ctypes.c_uint32
_I32, _I64, _U64 = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64
_F64, _TEXT, _AT = ctypes.c_double, ctypes.c_char_p, ctypes.c_void_p
ERROR, WARN, INFO, DEBUG = range(4)
NORMAL, CONST, UNIFORM = 1, 2, 3
_F32 = 1
_OUTCOMES = {1: "applied", 2: "skipped", 3: "pending"}


class Error(RuntimeError):
    """A call that failed; code is one of ZR_E*."""

    def __init__(self, code, text):
        super().__init__(text)
        self.code = code


def _struct(name, *fields):
    return type(name, (ctypes.Structure,), {"_fields_": fields})


_Result = _struct("_Result", ("size", _SIZE), ("outcome", _I32), ("step", _I64), ("loss", _F64),
                  ("grad_norm", _F64), ("lr", _F64), ("loss_scale", _F64), ("seconds", _F64))
_Evaluation = _struct("_Evaluation", ("size", _SIZE), ("rsv", _SIZE), ("loss", _F64),
                      ("accuracy", _F64), ("targets", _I64))
_Info = _struct("_Info", ("size", _SIZE), ("ndim", _I32), ("name", _TEXT), ("dims", _I64 * 4),
                ("elements", _I64), ("flags", _SIZE), ("dtype", _I32))
_Facts = _struct("_Facts", ("size", _SIZE), ("ranks", _I32), ("rank", _I32), ("accumulation", _I32),
                 ("micro_batch", _I64), ("parameters", _I64), ("step", _I64), ("steps", _I64),
                 ("bytes", _U64))
_Metric = _struct("_Metric", ("name", _TEXT), ("value", _F64))
_Tensor = _struct("_Tensor", ("name", _TEXT), ("dims", _I64 * 4), ("ndim", _I32), ("init", _I32),
                  ("mean", _F64), ("std", _F64), ("flags", _SIZE), ("rsv", _SIZE))
_Unit = _struct("_Unit", ("name", _TEXT), ("tensors", ctypes.POINTER(_Tensor)),
                ("n_tensors", _SIZE), ("rsv", _SIZE))
_Call = _struct("_Call", ("size", _SIZE), ("layer", _I32), ("rank", _I32), ("training", _I32),
                ("dtype", _I32), ("rsv", _I32), ("samples", _I64), ("step", _I64), ("slot", _I64),
                ("arg", _AT), ("batch", _AT), ("input", _AT), ("out", _AT), ("saved", _AT),
                ("work", _AT), ("param", ctypes.POINTER(_AT)), ("dparam", ctypes.POINTER(_AT)),
                ("accumulate", ctypes.POINTER(ctypes.c_uint8)), ("dout", _AT), ("din", _AT),
                ("loss", _AT), ("scale", ctypes.c_float), ("right", _AT))
_CALL = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Call))
_Layer = _struct("_Layer", ("name", _TEXT), ("units", ctypes.POINTER(_I32)), ("n_units", _SIZE),
                 ("rsv", _SIZE), ("out", _U64), ("saved", _U64), ("work", _U64),
                 ("forward", _CALL), ("backward", _CALL))
_Model = _struct("_Model", ("size", _SIZE), ("n_units", _SIZE), ("n_layers", _SIZE),
                 ("tensor_size", _SIZE), ("unit_size", _SIZE), ("layer_size", _SIZE),
                 ("units", ctypes.POINTER(_Unit)), ("layers", ctypes.POINTER(_Layer)),
                 ("arg", _AT), ("load", _AT), ("held_out", _I64), ("flags", _SIZE),
                 ("numbers", _I32))
_LOG = ctypes.CFUNCTYPE(None, _AT, ctypes.c_int, _TEXT, _TEXT)
_VALUES = ctypes.CFUNCTYPE(ctypes.c_int, _AT, _I64, _I64, _I64, _AT)


def _beside():
    """The library of a wheel, _prefix beside this file, or of the prefix that this file is installed
    in, PREFIX/share/zeroth/python/zeroth, if it belongs to root, oneself or the owner of this file."""
    here = os.path.realpath(__file__)
    folder = os.path.dirname(here)
    owners = 0, os.geteuid(), os.stat(here).st_uid
    prefixes = [os.path.join(folder, "_prefix")]
    if os.path.basename(os.path.dirname(folder)) == "python":
        prefixes.append(os.path.join(folder, "..", "..", "..", ".."))
    for prefix in prefixes:
        for lib in ("lib", "lib64",
                    os.path.join("lib", sysconfig.get_config_var("MULTIARCH") or "")):
            path = os.path.realpath(os.path.join(prefix, lib, "libzeroth.so.0"))
            if os.path.exists(path) and os.stat(path).st_uid in owners:
                return path
    return None


def _open_library():
    """The library, or what to do where there is none that can be loaded."""
    chosen = os.environ.get("ZEROTH_LIBRARY")
    name = chosen or _beside() or "libzeroth.so.0"
    try:
        return ctypes.CDLL(name)
    except OSError as e:
        found = None if chosen else ctypes.util.find_library("zeroth")
        if found and found != name:
            return ctypes.CDLL(found)
        raise ImportError(
            "the package zeroth needs the library libzeroth: {}. {}".format(
                e, "ZEROTH_LIBRARY names this one" if chosen else
                "Install it with this package (apt install python3-zeroth; or pip install the "
                "wheel, which has both; or make install), or name its file: "
                "ZEROTH_LIBRARY=/usr/local/lib/libzeroth.so.0")) from None


def _load():
    lib = _open_library()
    lib.zeroth_new.restype = _AT
    lib.zeroth_error.restype = lib.zeroth_version.restype = _TEXT
    takes = {
        "set_file": [_TEXT], "set_text": [_TEXT], "set": [_TEXT], "set_ranks": [ctypes.c_int],
        "set_log": [ctypes.c_int, _LOG, _AT], "set_model": [ctypes.POINTER(_Model)], "open": [],
        "resume": [_TEXT, ctypes.POINTER(_I64)], "step": [ctypes.POINTER(_Result)],
        "forward": [ctypes.POINTER(_AT), ctypes.POINTER(_F64)], "backward": [],
        "infer": [ctypes.POINTER(_AT), ctypes.POINTER(_F64)],
        "evaluate": [_TEXT, ctypes.POINTER(_Evaluation)], "save": [], "save_weights": [_TEXT],
        "tensor": [_I64, ctypes.POINTER(_Info)], "get": [_VALUES, _AT], "put": [_VALUES, _AT],
        "metrics": [ctypes.POINTER(ctypes.POINTER(_Metric))],
        "facts": [ctypes.POINTER(_Facts)], "close": [], "error": [],
        "digest": [ctypes.POINTER(_U64), ctypes.POINTER(_U64)],
        "begin": [ctypes.c_int, ctypes.c_int], "take": [ctypes.c_int, ctypes.POINTER(_Call)],
        "give": [ctypes.c_int, ctypes.c_int], "change": [_VALUES, _AT],
        "config": [ctypes.POINTER(_TEXT)], "numbers": [ctypes.c_int, ctypes.POINTER(_AT)],
        "sum": [ctypes.POINTER(ctypes.POINTER(_F64)), _I64],
        "stream": [ctypes.c_int, ctypes.POINTER(_AT)],
    }
    for call, arguments in takes.items():
        if not hasattr(lib, "zeroth_" + call):
            raise ImportError("{}, of version {}, has no zeroth_{}: it is not of this package, {}; "
                              "install both of one version, or name the right one in "
                              "ZEROTH_LIBRARY".format(lib._name, lib.zeroth_version().decode(),
                                                      call, os.path.dirname(__file__)))
        getattr(lib, "zeroth_" + call).argtypes = [_AT] + arguments
    return lib


_lib = _load()
version = _lib.zeroth_version().decode()


def _prefix():
    """Where the command and configurations are: bin/zeroth, share/zeroth; None: not known."""
    at = os.path.dirname(os.path.realpath(_lib._name)) if os.sep in _lib._name else ""
    while at and at != "/":
        if os.path.exists(os.path.join(at, "share", "zeroth", "defaults.ini")):
            return at
        at = os.path.dirname(at)
    usual = [p for p in ("/usr/local", "/usr") if os.path.exists(p + "/share/zeroth/defaults.ini")]
    return usual[0] if usual else None


prefix = _prefix()


def _whole(kind, value, what):
    """The value, which ctypes would cut to the bits that the type in C has."""
    if isinstance(value, int) and kind(value).value != value:
        raise ValueError("{}: {} does not fit in {} bits".format(what, value,
                                                                 8 * ctypes.sizeof(kind)))
    return value


def _floats(at, shape):
    """fp32 values at an address, as an array."""
    n = 1
    for d in shape:
        n *= d
    raw = (ctypes.c_float * n).from_address(at)
    if numpy is not None:
        return numpy.frombuffer(raw, dtype=numpy.float32).reshape(shape)
    return memoryview(raw).cast("B").cast("f")


class Call:
    """What a layer's functions get: x, y (samples x width), saved; params and grads, lists of
    arrays; dy, dx; loss, right (samples); batch, scale, rank, training, step, slot. What is not
    there is None. Gradients are added to grads[i], which is 0 where nothing was added before."""

    def __init__(self, engine, c):
        layers, this = engine._layers, engine._layers[c.layer]
        n = c.samples
        if c.dtype != _F32:
            raise Error(-3, "layers of Python are fp32: [precision] plugin = fp32")
        self.batch, self.scale = engine._batches.get(c.batch), c.scale
        self.rank, self.training, self.step, self.slot = c.rank, c.training, c.step, c.slot
        before = layers[c.layer - 1].out if c.layer else 0

        def rows(at, width):
            return _floats(at, (n, width)) if at and width else None
        self.x, self.y = rows(c.input, before), rows(c.out, this.out)
        self.dy, self.dx = rows(c.dout, this.out), rows(c.din, before)
        self.saved = rows(c.saved, this.saved)
        last = this.out == 0
        self.loss = _floats(c.loss, (n,)) if last else None
        self.right = _floats(c.right, (n,)) if last and c.right else None
        shapes = [t[1] for t in this.tensors]
        self.params = [_floats(c.param[i], s) for i, s in enumerate(shapes)]
        self.grads = None
        if c.dparam:
            self.grads = [_floats(c.dparam[i], s) if c.dparam[i] else None
                          for i, s in enumerate(shapes)]
            for i, g in enumerate(self.grads):
                if g is not None and not c.accumulate[i]:
                    ctypes.memset(c.dparam[i], 0, 4 * _elements(shapes[i]))


def _elements(shape):
    n = 1
    for d in shape:
        n *= d
    return n


def _shortened(names):
    return ", ".join(names if len(names) <= 8 else names[:7] + ["...", names[-1]])


class Layer:
    """A layer with its own parameters. tensors: (name, shape, std) each; out: width of its output,
    0 for the last; saved: floats per sample kept for backward; forward(call), backward(call)."""

    def __init__(self, name, tensors, out, forward, backward, saved=0):
        self.name, self.tensors, self.out, self.saved = name, list(tensors), out, saved
        self.forward, self.backward = forward, backward


class Engine:
    """An engine. config: the path of an INI file; text: or its text; options: a dict of
    "section.key"; ranks: threads of this process; layers: a model of one's own; log: a function
    (level, topic, text)."""

    def __init__(self, config=None, options=None, *, text=None, ranks=1, layers=None, log=None,
                 log_level=WARN):
        self._at = _lib.zeroth_new()
        self._kept, self._batches, self._raised, self._running = [], {}, None, False
        self._ranks, self._layers = ranks, None if layers is None else list(layers)
        if not self._at:
            raise MemoryError("zeroth_new")
        try:
            self._call("set_ranks", ranks)
            if log:
                self._log = _LOG(lambda _, level, topic, line: log(level, topic.decode(),
                                                                   line.decode()))
                self._call("set_log", log_level, self._log, None)
            if config is not None and text is not None:
                raise ValueError("config and text are both given, and are one configuration")
            if config is not None:
                self._call("set_file", os.fsencode(config))
            elif text is not None:
                self._call("set_text", text.encode())
            for key, value in (options or {}).items():
                self._call("set", "{}={}".format(key, value).encode())
            self._set_models()
            self._call("open")
        except BaseException:
            self.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __del__(self):
        self.close()

    def close(self):
        """Ends the engine; not in a function that it calls."""
        if getattr(self, "_running", False):
            raise Error(-7, "zeroth_close: another call of this engine runs")
        at, self._at = getattr(self, "_at", None), None
        if at:
            _lib.zeroth_close(at)

    def _call(self, name, *arguments):
        if not self._at:
            raise Error(-7, "the engine is closed")
        if any(isinstance(a, bytes) and 0 in a for a in arguments):
            raise ValueError("zeroth_{}: a text has a null character".format(name))
        function = getattr(_lib, "zeroth_" + name)
        for kind, a in zip(function.argtypes[1:], arguments):
            if kind in (ctypes.c_int, _I64):
                _whole(kind, a, "zeroth_" + name)
        inside = self._running  # a function that the engine calls made this call
        if not inside:
            self._raised, self._running = None, True
        try:
            rc = function(self._at, *arguments)
        finally:
            self._running = inside
        if rc < 0 and self._raised and not inside:
            raise self._raised
        if rc < 0:
            raise Error(rc, _lib.zeroth_error(self._at).decode())
        return rc

    # -- a model of one's own

    def _guard(self, function):
        def call(c):
            try:
                function(Call(self, c.contents))
                return 0
            except BaseException as e:  # it goes on in the call that led here
                self._raised = e
                return -8
        return _CALL(call)

    def _set_models(self):
        if self._layers is not None:
            self._set_model(self._layers)

    def _set_model(self, layers):
        units, made = (_Unit * len(layers))(), (_Layer * len(layers))()
        for i, layer in enumerate(layers):
            tensors = (_Tensor * len(layer.tensors))()
            for t, (name, shape, std) in zip(tensors, layer.tensors):
                t.name, t.ndim, t.init, t.std = name.encode(), len(shape), NORMAL, std
                dims = [_whole(_I64, d, "layer {}: {}".format(layer.name, name)) for d in shape]
                t.dims[:] = (dims + [1] * 4)[:4]  # the library refuses more of them
            units[i] = _Unit(layer.name.encode(), tensors, len(tensors), 0)
            number = (_I32 * 1)(i)
            out = _whole(_U64, layer.out, "layer {}: out".format(layer.name))
            saved = _whole(_U64, 4 * layer.saved, "layer {}: saved".format(layer.name))
            made[i] = _Layer(layer.name.encode(), number, 1, 0, out, saved, 0,
                             self._guard(layer.forward), self._guard(layer.backward))
            self._kept += [tensors, number, made[i].forward, made[i].backward]
        self._give_model(units, made, 0)

    def _give_model(self, units, layers, flags, numbers=0):
        model = _Model(ctypes.sizeof(_Model), len(units), len(layers), ctypes.sizeof(_Tensor),
                       ctypes.sizeof(_Unit), ctypes.sizeof(_Layer), units, layers, None, None, 0,
                       flags, numbers)
        self._kept += [units, layers, model]
        self._call("set_model", model)

    def _run(self, what, batches):
        if len(batches) != self._ranks:
            raise ValueError("{} batches, expected one for each of {} ranks".format(
                len(batches), self._ranks))
        keys = (_AT * self._ranks)(*range(1, self._ranks + 1))
        self._batches = {i + 1: b for i, b in enumerate(batches)}
        loss = _F64()
        self._call(what, keys, ctypes.byref(loss))
        return loss.value

    def forward(self, batches):
        """One micro-batch for each rank, any object, as call.batch; returns the mean loss."""
        return self._run("forward", batches)

    def infer(self, batches):
        """As forward, but nothing is learned."""
        return self._run("infer", batches)

    def backward(self):
        self._call("backward")

    # -- training

    def train_step(self):
        """One step, or the end of the one that backward() began: a dict of its numbers."""
        r = _Result(size=ctypes.sizeof(_Result))
        self._call("step", ctypes.byref(r))
        out = {f[0]: getattr(r, f[0]) for f in _Result._fields_[2:]}
        out["outcome"] = _OUTCOMES.get(r.outcome, r.outcome)
        return out

    def evaluate(self, name=""):
        """Loss, accuracy and number of targets on what is held out, or on [eval.NAME]."""
        e = _Evaluation(size=ctypes.sizeof(_Evaluation))
        self._call("evaluate", name.encode(), ctypes.byref(e))
        return {"loss": e.loss, "accuracy": e.accuracy, "targets": e.targets}

    def resume(self, path="auto"):
        """Goes on from a checkpoint; returns its step, -1 if "auto" finds none."""
        step = _I64(-1)
        self._call("resume", os.fsencode(path), ctypes.byref(step))
        return step.value

    def save(self):
        self._call("save")

    def save_weights(self, file):
        self._call("save_weights", os.fsencode(file))

    # -- what comes out

    def _facts(self):
        f = _Facts(size=ctypes.sizeof(_Facts))
        self._call("facts", ctypes.byref(f))
        return f

    @property
    def step(self):
        return self._facts().step

    @property
    def steps(self):
        return self._facts().steps

    @property
    def ranks(self):
        return self._facts().ranks

    @property
    def micro_batch(self):
        return self._facts().micro_batch

    @property
    def planned(self):
        """Bytes that the first rank takes by its plan, on host and device."""
        return self._facts().bytes

    def metrics(self):
        """The numbers of the last step by name."""
        m = ctypes.POINTER(_Metric)()
        n = self._call("metrics", ctypes.byref(m))
        return {m[i].name.decode(): m[i].value for i in range(n)}

    def config(self):
        """The whole configuration, with "auto" resolved: a dict of texts by "section.key"."""
        text, out, section = _TEXT(), {}, ""
        self._call("config", ctypes.byref(text))
        for line in text.value.decode().splitlines():
            if line.startswith("["):
                section = line[1:].partition("]")[0]
            elif " =" in line:
                key, _, value = line.partition(" =")
                out[section + "." + key] = value.strip()
        return out

    def digest(self):
        """The two numbers in the last line of `zeroth train`, as texts."""
        a, b = _U64(), _U64()
        self._call("digest", ctypes.byref(a), ctypes.byref(b))
        return "{:016x}".format(a.value), "{:016x}".format(b.value)

    def _tensors(self):
        """(name, shape, flags, dtype) of each, in order."""
        out, t = [], _Info(size=ctypes.sizeof(_Info))
        self._facts()  # fails where the engine is not open
        while _lib.zeroth_tensor(self._at, len(out), ctypes.byref(t)) == 0:
            out.append((t.name.decode(), tuple(t.dims[:t.ndim]), t.flags, t.dtype))
        return out

    def shapes(self):
        """The tensors in order: a dict of shapes by name."""
        return {name: shape for name, shape, _, _ in self._tensors()}

    def _new(self, shape):
        if numpy is not None:
            a = numpy.zeros(shape, dtype=numpy.float32)
            return a, a.ctypes.data
        raw = (ctypes.c_float * _elements(shape))()
        return memoryview(raw).cast("B").cast("f"), ctypes.addressof(raw)

    def parameters(self):
        """All parameters in fp32: a dict of new arrays by name."""
        made = [(name,) + self._new(shape) for name, shape in self.shapes().items()]

        def take(_, i, first, n, at):
            ctypes.memmove(made[i][2] + 4 * first, at, 4 * n)
            return 0
        self._call("get", _VALUES(take), None)
        return {name: array for name, array, _ in made}

    def set_parameters(self, arrays):
        """Sets all parameters: a dict of contiguous fp32 arrays, as parameters() returns it. Arrays
        have the shape of their tensor, or one dimension."""
        views, shapes = [], self.shapes()
        unknown = [str(n) for n in arrays if n not in shapes]
        missing = [n for n in shapes if n not in arrays]
        if unknown or missing:
            raise ValueError("{} {}; expected the {} names of shapes(): {}".format(
                "unknown parameters" if unknown else "missing parameters",
                _shortened(unknown or missing), len(shapes), _shortened(list(shapes))))
        for name, shape in shapes.items():
            try:
                given = memoryview(arrays[name])
            except TypeError:
                raise ValueError("{}: a {}, expected an array of fp32 of shape {}".format(
                    name, type(arrays[name]).__name__, shape)) from None
            flat = given.shape == (_elements(shape),)
            if given.format not in ("f", "<f", "=f") or not (flat or given.shape == shape):
                raise ValueError("{}: {} bytes of format {} and shape {}, expected fp32 of shape "
                                 "{}".format(name, given.nbytes, given.format, given.shape, shape))
            if not given.c_contiguous:
                raise ValueError("{}: not contiguous; expected a copy".format(name))
            views.append(given.cast("B"))

        def give(_, i, first, n, at):
            part = bytes(views[i][4 * first:4 * (first + n)])
            ctypes.memmove(at, part, len(part))
            return 0
        self._call("put", _VALUES(give), None)
