"""Uses a tensor of a model through libtensorfs: ctypes_engine.py MODEL VIEW NAME"""
import ctypes as c
import sys


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("text", c.c_char_p)]


class Info(c.Structure):
    _fields_ = [("view", c.c_char_p), ("name", c.c_char_p), ("dtype", c.c_char_p), ("engine_dtype", c.c_int),
                ("bytes", c.c_uint64), ("rank", c.c_size_t), ("shape", c.POINTER(c.c_int64))]


class Tensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("buffer", c.c_void_p), ("buffer_offset", c.c_uint64),
                ("origin", c.c_int), ("file", c.c_char_p), ("info", c.POINTER(Info))]


lib = c.CDLL("libtensorfs.1.dylib" if sys.platform == "darwin" else "libtensorfs.so.1")
lib.tensorfs_error_free.argtypes = [c.POINTER(Error)]
lib.tensorfs_error_free.restype = None


def call(name, result, *args):
    """Calls a function, and raises its error."""
    f, error = getattr(lib, name), c.POINTER(Error)()
    f.restype, f.argtypes = result, [type(a) for a in args] + [c.POINTER(c.POINTER(Error))]
    value = f(*args, c.byref(error))
    if error:
        text = error.contents.text.decode()
        lib.tensorfs_error_free(error)
        raise OSError(text)
    return value


path, view, name = (c.c_char_p(a.encode()) for a in sys.argv[1:])
try:
    model = c.c_void_p(call("tensorfs_open", c.c_void_p, path))
    tensor = call("tensorfs_get", c.POINTER(Tensor), model, view, name)
except OSError as e:
    sys.exit(str(e))
t, info = tensor.contents, tensor.contents.info.contents
# No copy: numpy.frombuffer(pages, dtype="<f2") takes it, too.
pages = (c.c_ubyte * info.bytes).from_address(t.data)
print(name.value.decode(), info.dtype.decode(), info.shape[:info.rank], info.bytes, "bytes, sum", sum(pages))
call("tensorfs_release", c.c_int, tensor)
call("tensorfs_close", c.c_int, model)
