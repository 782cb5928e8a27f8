"""Prints formats/architectures/config_fields.txt: the fields of config.json that the installed transformers, and llama.cpp's
converter, read for each model type that an architecture here has, with the defaults of transformers' classes."""

import ast
import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import golden

FORMATS = Path(__file__).resolve().parents[2] / "formats/architectures"
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# What code calls a configuration by, and what it asks for a part of one.
CONFIG = re.compile(r"(config|cfg|configuration|kwargs|hparams\w*|[vr]params|parameters|scaling|params|dict)$")
READS = ("get", "pop", "setdefault")
FINDS = ("find_hparam", "find_vparam", "find_aparam")  # of the converter
# Code of transformers that serves all classes.
SHARED = "configuration_utils modeling_rope_utils masking_utils cache_utils modeling_layers modeling_utils initialization integrations/moe integrations/heterogeneity/*".split()
OWN = ("configuration", "modeling")  # and what else a directory has does not compute
HEAD = """\
# Fields of config.json that change what a program computes, by model type: read by the classes of transformers {transformers}, and by the
# converter of llama.cpp with {converter}. A field that is not among them changes nothing, for models without code of their own
# (auto_map). scripts/programs/config_fields.py prints this file.
#
#   TYPE[,TYPE...] FIELD[=DEFAULT]...   of the configuration classes of that model_type, as JSON without spaces
#   TYPE... : FIELD[=DEFAULT]...        what else the code of all these reads
#   +CLASS[,CLASS...] FIELD...          what the converter reads for classes that config.json calls so
#   all FIELD[=DEFAULT]...              what transformers reads of any class
#   converter FIELD...                  what the converter reads of any class
#   without TYPE...                     model types that transformers does not have
"""


def parsed(file: Path) -> ast.Module:
    return ast.parse(file.read_text(), str(file))


def last(node: ast.expr) -> str:
    """The last name of a chain such as self.config.text_config."""
    if isinstance(node, ast.Attribute):
        return node.attr
    if isinstance(node, ast.Call):
        return "config" if last(node.func) in ("get_text_config", "get_decoder") else ""
    return node.id if isinstance(node, ast.Name) else ""


def texts(node: ast.expr) -> Iterator[str]:
    """Constants that are names, of one or of a list."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value):
        yield node.value
    elif isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        for item in node.elts:
            yield from texts(item)


class Reads(ast.NodeVisitor):
    """The names that code asks a configuration for: plainly, where one without the name is an error, or as one that may be missing."""

    def __init__(self, *trees: ast.AST, own: bool = False):
        self.plain: set[str] = set()
        self.maybe: dict[str, set[str]] = {}  # with the defaults that code has for them
        self.called: set[ast.expr] = set()
        self.own = own  # the code is of configurations: self is one
        for tree in trees:
            self.visit(tree)
        self.plain = {n for n in self.plain if not n.startswith("__")}

    def add(self, other: "Reads") -> None:
        self.plain |= other.plain
        for name, values in other.maybe.items():
            self.maybe.setdefault(name, set()).update(values)

    def names(self) -> set[str]:
        return self.plain | self.maybe.keys()

    def spelled(self, names: set[str]) -> str:
        """With the default, where code has one."""
        own = {n: self.maybe.get(n, set()) for n in names}
        return " ".join(sorted(n + ("=" + min(v) if len(v) == 1 else "") for n, v in own.items()))

    def may(self, names: ast.expr, value: str = "") -> None:
        for name in texts(names):
            if not name.startswith("__"):
                self.maybe.setdefault(name, set()).update({value} - {""})

    def config(self, node: ast.expr) -> bool:
        name = last(node)
        return bool(CONFIG.search(name)) or self.own and name == "self"

    def visit_Attribute(self, node: ast.Attribute) -> None:
        if CONFIG.search(last(node.value)) and node not in self.called:
            self.plain.add(node.attr)
        self.generic_visit(node)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if self.config(node.value):
            self.may(node.slice)
        self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> None:
        if any(isinstance(op, (ast.In, ast.NotIn)) and self.config(of) for op, of in zip(node.ops, node.comparators)):
            self.may(node.left)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        self.called.add(node.func)
        called = last(node.func)
        of = node.func.value if isinstance(node.func, ast.Attribute) else None
        if called in ("getattr", "hasattr") and len(node.args) > 1 and self.config(node.args[0]):
            self.may(node.args[1], default(node.args[2]) if len(node.args) > 2 else "")
        if node.args and (called in FINDS or called in READS and of and self.config(of)):
            self.may(node.args[0], default(node.args[1]) if len(node.args) > 1 and called in READS else "")
        self.generic_visit(node)

    # Names go through a loop over them: for key in ("a", "b").
    def visit_For(self, node: ast.For) -> None:
        self.may(node.iter)
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        self.may(node.iter)
        self.generic_visit(node)


class Config:
    """A configuration class: what it declares, and with which defaults."""

    def __init__(self, node: ast.ClassDef):
        self.name = node.name
        self.bases = [last(b) for b in node.bases]
        self.model_type = ""
        self.fields: dict[str, str] = {}
        for item in node.body:
            if isinstance(item, ast.Assign):
                self.assign([last(t) for t in item.targets], item.value)
            elif isinstance(item, ast.AnnAssign) and "ClassVar" not in ast.unparse(item.annotation):
                self.assign([last(item.target)], item.value, field=True)
            elif isinstance(item, ast.FunctionDef):
                if any(last(d) in ("property", "setter") for d in item.decorator_list):
                    self.fields.setdefault(item.name, "")

    def assign(self, names: list[str], value: ast.expr | None, field: bool = False) -> None:
        for name in names:
            if name == "model_type" and isinstance(value, ast.Constant):
                self.model_type = value.value
            elif name == "attribute_map" and isinstance(value, ast.Dict):
                for other in value.keys:
                    self.fields.setdefault(ast.literal_eval(other), "")
            elif name == "default_theta" and value is not None:  # of layers that see everything, where others have another
                of = ast.literal_eval(value)
                for kind in ("global", "full_attention"):
                    of = of.get(kind, of) if isinstance(of, dict) else of
                self.fields["rope_theta"] = json.dumps(of, separators=(",", ":"))
            elif field:
                self.fields[name] = default(value)


def default(value: ast.expr | None) -> str:
    """A default as JSON, empty where it is none that JSON has."""
    if isinstance(value, ast.Call):  # interval(min=0.0)(default=0.02)
        value = next((k.value for k in value.keywords if k.arg == "default"), None)
    try:
        text = json.dumps(ast.literal_eval(value), separators=(",", ":"), allow_nan=False) if value else ""
    except (ValueError, TypeError):
        return ""
    return "" if " " in text or len(text) > 100 else text


def wanted() -> tuple[set[str], set[str]]:
    """The classes and the model types that the descriptions name."""
    classes, types = set(), set()
    for file in ("architectures.txt", "projectors.txt", "sounds.txt"):
        word = ""
        for line in (FORMATS / file).read_text().splitlines():
            items = line.split("#")[0]
            if not items.startswith("   "):  # otherwise the line goes on
                word, _, items = items.strip().partition(" ")
            for item in items.split() if word in ("class", "writes") else []:
                name, _, kind = item.partition(":")
                classes.add(name)
                types |= {kind} - {""}
    return classes, types


class Directory:
    """A model of transformers, with its configuration classes."""

    def __init__(self, path: Path):
        self.files = {f: f.read_text() for f in sorted(path.glob("*.py")) if f.stem.startswith(OWN)}
        self.configs: list[Config] = []
        for file, text in self.files.items():
            if file.stem.startswith("configuration"):
                self.configs += [Config(n) for n in parsed(file).body if isinstance(n, ast.ClassDef) and n.name.endswith("Config")]
        self.types = {c.model_type for c in self.configs if c.model_type}
        text = "".join(t for f, t in self.files.items() if f.stem.startswith("configuration"))
        self.names = {a or b for a, b in re.findall(r"""["'](\w+)["']|\b(\w+Config)\b""", text)}
        self.classes = set(re.findall(r"^class (\w+)", "".join(self.files.values()), re.M))

    def reads(self) -> Reads:
        found = Reads()
        for file in self.files:
            more = Reads(parsed(file), own=file.stem.startswith("configuration"))
            found.add(more)
        return found


def transformers(types: set[str], classes: set[str]) -> Iterator[str]:
    root = Path(find_spec("transformers").origin).parent
    shared = [f for pattern in SHARED for f in sorted(root.glob(pattern + ".py"))]
    base = Reads(*map(parsed, shared))
    common = next(Config(n) for n in parsed(root / "configuration_utils.py").body if isinstance(n, ast.ClassDef) and n.name == "PreTrainedConfig")
    everywhere = base.names() | common.fields.keys()
    yield "all " + base.spelled(everywhere)

    directories = [d for f in sorted(root.glob("models/*/__init__.py")) if (d := Directory(f.parent)).types]
    by_name = {c.name: c for d in directories for c in d.configs}

    def fields(config: Config) -> dict[str, str]:
        found: dict[str, str] = {}
        for name in reversed(config.bases):
            if name in by_name and by_name[name] is not config:
                found |= fields(by_name[name])
        return found | config.fields

    chosen = [d for d in directories if d.types & types or d.classes & classes - {""}]
    for d in chosen:  # and the parts of models, which have classes of their own or one by default
        chosen += [o for o in directories if o not in chosen and (o.types | {c.name for c in o.configs}) & d.names]
    for d in sorted(chosen, key=lambda d: min(d.types, default="")):
        reads = d.reads()
        typed = [(c, fields(c)) for c in d.configs if c.model_type]
        for c, own in typed:
            yield c.model_type + " " + " ".join(sorted(k + ("=" + v if v else "") for k, v in own.items()))
        parts = {name for c in d.configs if not c.model_type for name in fields(c)}
        declared = parts.union(*(own for _, own in typed))
        rest = (reads.plain - declared | reads.maybe.keys() | parts) - everywhere - set.intersection(*(set(own) for _, own in typed))
        if rest or len(typed) > 1:
            yield " ".join(c.model_type for c, _ in typed) + " : " + reads.spelled(rest)
    yield "without " + " ".join(sorted(types.difference(*(d.types for d in directories))))


def converter(classes: set[str]) -> Iterator[str]:
    found: dict[str, ast.ClassDef] = {}
    registered: dict[str, list[str]] = {}
    for file in sorted((golden.CONVERTER / "conversion").glob("*.py")):
        for node in parsed(file).body:
            if not isinstance(node, ast.ClassDef):
                continue
            found[node.name] = node
            for d in node.decorator_list:
                if isinstance(d, ast.Call) and last(d.func) == "register":
                    for name in d.args:
                        registered.setdefault(ast.literal_eval(name), []).append(node.name)

    def names(of: str) -> set[str]:
        node = found.get(of)
        if node is None or of in ("ModelBase", "TextModel", "MmprojModel"):
            return set()
        return Reads(node).names().union(*(names(last(b)) for b in node.bases))

    shared = Reads(parsed(golden.CONVERTER / "conversion/base.py")).names()
    yield "converter " + " ".join(sorted(shared))
    rows: dict[str, list[str]] = {}
    for name in sorted(classes & registered.keys()):
        own = set().union(*map(names, registered[name])) - shared
        rows.setdefault(" ".join(sorted(own)), []).append(name)
    for text, of in rows.items():
        if text:
            yield "+" + ",".join(of) + " " + text


def text() -> str:
    made = (golden.CONVERTER / "made").read_text().strip()
    classes, types = wanted()
    lines = [*transformers(types, classes), *converter(classes)]
    return HEAD.format(transformers=version("transformers"), converter=made) + "\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(text())
