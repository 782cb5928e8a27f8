"""Mounts the models of these tests, has each program load them, and prints a table of what held."""

import argparse
import gzip
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from pathlib import Path
from xml.etree import ElementTree

from dialects import CASES as DIALECTS
from recipes import RECIPES

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ARCHITECTURES = ROOT / "testdata/architectures"
PUBLISHED = ROOT / "testdata/published"
PACKED = ROOT / "testdata/quantise/foreign.zip"
IMAGES = ROOT / "testdata/images"
TOWER_KINDS = ("vision", "audio")
VENVS = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tensorfs-tests/programs"
CHECKS = (  # the program, where it is installed, its checks
    ("transformers-4", "hf4", "check_transformers.py"),
    ("transformers-5", "hf5", "check_transformers.py"),
    ("sentence-transformers", "hf5", "check_embeddings.py"),
    ("mlx-lm", "mlx", "check_mlx.py"),
    ("mlx-lm", "mlx", "check_convert.py"),
    ("transformers-5", "hf5", "check_architectures_hf.py"),
    ("mlx-lm", "mlx", "check_architectures_mlx.py"),
    ("transformers-5", "hf5", "check_fields.py"),
    ("boto3", "settings", "check_settings.py"),
    ("xllamacpp", "llama", "check_pictures.py"),
    ("xllamacpp", "llama", "check_towers.py"),
    ("converter", "convert", "check_converter.py"),
    ("ollama-convert", "llama", "check_dialect.py"),
    ("compressed-tensors", "packed", "check_packed.py"),
    ("gptqmodel", "packed", "check_packed.py"),
    ("bitsandbytes", "packed", "check_packed.py"),
    ("auto-round", "autoround", "check_packed.py"),
    ("diffusers", "images", "check_images.py"),
    ("peft", "peft", "check_lora.py"),
    ("mlx-lm", "mlx", "check_lora_mlx.py"),
    ("mergekit", "merge", "check_merge.py"),
)
# What is written into the stores of other programs.
STORES = (("ollama", "hf5", "check_stores.py"), ("transformers-5", "hf5", "check_stores.py"), ("llama-server", "hf5", "check_server.py"))
# Of the golden models of this repository, from which tensorfs makes GGUF files.
RUST = ("mistralrs", "rust", "check_rust.py")
# The golden model with the tower of a model_type, whose own models have no preprocessor_config.json.
TOWERS = dict(qwen3_vl_moe="qwen3-vl", qwen3_5_moe="qwen3.5", gemma4="gemma4")
PREPROCESSOR = "preprocessor_config.json"
# No program asks another machine for anything: all models are made here.
QUIET = dict(
    HF_HUB_OFFLINE="1",
    HF_HUB_DISABLE_PROGRESS_BARS="1",
    TOKENIZERS_PARALLELISM="false",
    PYTHONPYCACHEPREFIX=str(VENVS / "pycache"),
)


class Trial:
    def __init__(self, tensorfs: Path, work: Path, only: str):
        self.tensorfs, self.work, self.only = tensorfs, work, only
        self.models, self.mounted, self.log = work / "models", work / "mounted", work / "log"
        self.failed: list[tuple[str, str, str]] = []
        self.skipped: list[tuple[str, str]] = []
        self.passed = 0
        self.env = os.environ | QUIET
        self.env |= dict(
            OLLAMA_MODELS=str(work / "ollama"),
            HF_HOME=str(work / "hf-home"),
            TENSORFS=str(self.tensorfs),
            MODELS=str(self.models),
            MOUNTED=str(self.mounted),
            EXPECTED=str(ARCHITECTURES / "expected"),
            ONLY=only,
            OLLAMA=str(VENVS / "ollama/ollama"),
            LLAMA_SERVER=shutil.which("llama-server") or str(VENVS / "llama-server/llama-server"),
            CANDLE=str(VENVS / "candle/debug/check-candle"),
            RUST_LOG="off",
        )

    def python(self, venv: str, script: str, *args: str) -> None:
        with self.log.open("a") as log:
            command = [VENVS / venv / "bin/python", HERE / script, *args]
            done = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=self.env)
        if done.returncode != 0:
            sys.exit(f"{self.said_last()}\n{script} {' '.join(args)} failed, see above")

    def call(self, command: list, **how) -> None:
        """Runs a command that says itself what is wrong."""
        if status := subprocess.run(command, env=self.env, **how).returncode:
            sys.exit(f"exit status {status}: {' '.join(map(str, command))}")

    def said_last(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-15:])

    def make(self) -> None:
        name = self.only.split("/")[0]
        if name not in RECIPES:
            self.architectures(name)
            self.published(name)
            for kind in TOWER_KINDS:
                self.directories(kind, golden(ROOT / "testdata" / kind), name)
            self.packed(name)
            self.images(name)
        if not name or name in RECIPES:
            self.recipes()

    def packed(self, only: str) -> None:
        """Puts the modules that other programs packed where they are mounted."""
        with zipfile.ZipFile(PACKED) as files:
            for name in files.namelist():
                if "/" in name and only in ("", name.split("/")[0]):
                    files.extract(name, self.models / "packed")

    def images(self, only: str) -> None:
        """Puts image models, and GGUF files of several types, where they are mounted."""
        for source in sorted(IMAGES.glob("*/model.safetensors")):
            name = source.parent.name
            if only not in ("", name):
                continue
            (self.models / "images/source").mkdir(parents=True, exist_ok=True)
            shutil.copy(source, self.models / "images/source" / (name + ".safetensors"))
            for kind in ("q8_0", "q5_k_m", "q4_k_m", "q2_k"):
                self.gguf(source, self.models / "images" / kind / (name + ".gguf"), kind)

    def architectures(self, only: str) -> None:
        """Puts the models of testdata/architectures, and the GGUF files that they become, where they are mounted."""
        said("converting models of many architectures with gguf/")
        self.directories("architectures", golden(ARCHITECTURES), only)

    def published(self, only: str) -> None:
        """The same with models whose config.json is as it is published: those of testdata/published, and the toys of its list."""
        toys = self.work / "toys"
        if not only or only in toy_names():
            said("making toys of published config.json")
            self.call(["go", "test", "-vet=off", "-count=1", "-run", "^TestPublished$", "./internal/convert", "-toys", toys], cwd=ROOT, stdout=subprocess.DEVNULL)
        said("converting published models with gguf/")
        self.directories("published", golden(PUBLISHED) + golden(toys), only)

    def directories(self, kind: str, sources: list[Path], only: str) -> None:
        for source in sources:
            if only not in ("", source.name):
                continue
            shutil.copytree(source, self.models / kind / "hf" / source.name)
            file = self.models / kind / "gguf" / (source.name + ".gguf")
            self.golden(source, file)
            tower = self.models / kind / "tower" / source.name
            if file.exists() and b'"vision_config"' in (source / "config.json").read_bytes() and self.golden(self.seeing(source), tower / "mmproj.gguf", "mmproj.gguf"):
                shutil.copy(file, tower / "model.gguf")

    def seeing(self, source: Path) -> Path:
        """The directory, with the preprocessor_config.json of a model with the same tower if it has none."""
        like = TOWERS.get(json.loads((source / "config.json").read_text())["model_type"])
        if not like or (source / PREPROCESSOR).exists():
            return source
        made = shutil.copytree(source, self.work / "seeing" / source.name)
        shutil.copy(ARCHITECTURES / like / PREPROCESSOR, made)
        return made

    def recipes(self) -> None:
        names = [self.only.split("/")[0]] if self.only else []
        for what, venv in (("v4", "hf4"), ("v5", "hf5"), ("q8", "hf5"), ("mlx", "mlx")):
            said(f"making models: {what}")
            self.python(venv, "make.py", what, str(self.models), *names)
        said("converting them with gguf/")
        for form in ("v4", "v5"):
            for directory in sorted((self.models / form / "hf").iterdir()):
                for kind in ("f16", "q8_0"):
                    self.gguf(directory, self.models / form / kind / (directory.name + ".gguf"), kind)
                stored = self.models / form / "q8_0" / (directory.name + ".gguf")
                self.ollama(stored, f"{directory.name.lower()}-{form}")

        if not self.only:
            said("converting the golden models")
            for directory in golden(ROOT / "testdata/whole-gguf") + golden(ARCHITECTURES):
                self.golden(directory, self.work / "golden" / (directory.name + ".gguf"))
            for packed in ROOT.glob("testdata/whole-hf/models/*.gguf.gz"):
                (self.work / "golden" / packed.stem).write_bytes(gzip.decompress(packed.read_bytes()))

    def golden(self, source: Path, out: Path, file: str = "model.gguf") -> bool:
        """Makes a GGUF file of a directory, if there is one."""
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("wb") as f:
            done = subprocess.run([self.tensorfs, "cat", source, f"gguf/{file}"], stdout=f, stderr=subprocess.DEVNULL, env=self.env)
        if done.returncode != 0:
            out.unlink()
        return done.returncode == 0

    def gguf(self, source: Path, out: Path, kind: str) -> None:
        out.parent.mkdir(parents=True, exist_ok=True)
        with out.open("wb") as f:
            again = ["--requantise"] if kind == "q8_0" else []  # experts in MXFP4, too
            command = [self.tensorfs, "cat", "--gguf-type", kind, *again, source, "gguf/model.gguf"]
            self.call(command, stdout=f)

    def ollama(self, model: Path, name: str) -> None:
        """Puts a GGUF file into a store of Ollama under NAME:q8_0."""
        store = self.work / "ollama"
        blobs, manifest = store / "blobs", store / "manifests/registry.ollama.ai/library" / name / "q8_0"
        blobs.mkdir(parents=True, exist_ok=True)
        manifest.parent.mkdir(parents=True, exist_ok=True)

        def blob(data: bytes, kind: str) -> dict:
            digest = hashlib.sha256(data).hexdigest()
            (blobs / f"sha256-{digest}").write_bytes(data)
            return dict(mediaType=kind, digest=f"sha256:{digest}", size=len(data))

        config = blob(b'{"model_format":"gguf"}', "application/vnd.docker.container.image.v1+json")
        layer = blob(model.read_bytes(), "application/vnd.ollama.image.model")
        kind = "application/vnd.docker.distribution.manifest.v2+json"
        manifest.write_text(json.dumps(dict(schemaVersion=2, mediaType=kind, config=config, layers=[layer])))

    def mount(self) -> None:
        for model, name in ((self.models, "models"), ("ollama:", "ollama"), (self.work / "golden", "golden")):
            if not (self.work / name).exists():
                continue  # no such model was asked for
            place = self.mounted / name
            place.mkdir(parents=True)
            self.call([self.tensorfs, "mount", model, place])

    def umount(self) -> bool:
        places = [self.mounted / name for name in ("models", "ollama", "golden")]
        there = [p for p in places if os.path.ismount(p)]
        return not there or subprocess.run([self.tensorfs, "umount", *there], env=self.env).returncode == 0

    def check(self, program: str, venv: str, script: str) -> None:
        said(f"{program} {version(venv, program)}")
        with self.log.open("a") as log:
            command = [VENVS / venv / "bin/python", HERE / script, program]
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, env=self.env, text=True)
        assert process.stdout
        for line in process.stdout:
            if line.startswith("{"):
                self.tell(json.loads(line))
        if process.wait() != 0:
            self.failed.append((program, "ended", f"exit status {process.returncode}\n{self.said_last()}"))

    def package(self) -> None:
        """The Python package, with torch, transformers, vLLM and the tests of safetensors, and as a wheel."""
        said("the Python package")
        command = [ROOT / "scripts/test-python", "--wheel", VENVS / "python/bin/python", "--", "--junit-xml", self.work / "package.xml"]
        env = self.env | dict(TENSORFS_VLLM=str(VENVS / "vllm/bin/python"), TENSORFS_SAFETENSORS=str(VENVS / "safetensors"), TENSORFS_TEST_EVERY="1")
        with self.log.open("a") as log:
            subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, env=env)
        try:
            cases = list(ElementTree.parse(self.work / "package.xml").getroot().iter("testcase"))
        except OSError:
            self.failed.append(("python", "ended", self.said_last()))
            return
        for case in cases:
            name = f"{case.get('classname')} {case.get('name')}"
            wrong = [w for w in case if w.tag in ("failure", "error")]
            left = [w.get("message", "") for w in case if w.tag == "skipped"]
            self.passed += not wrong and not left
            self.failed += [(name, w.tag, w.get("message", "")[:400]) for w in wrong]
            self.skipped += [(name, why) for why in left]
        out(f"  {len(cases)} tests")

    def tell(self, result: dict) -> None:
        case = "{name}/{form}/{source}/{program}".format(**result)
        start = "  {name:<16}{form:<4}{source:<11}".format(**result)
        if "skipped" in result:
            self.skipped.append((case, result["skipped"]))
            out(f"{start}skipped")
            return
        words = []
        for what, wrong in result["checks"].items():
            words.append(f"{what} FAILED" if wrong else what)
            self.passed += not wrong
            if wrong:
                self.failed.append((case, what, wrong))
        out(f"{start}{', '.join(words)}")

    def close(self) -> int:
        if self.skipped:
            print("\nskipped:")
            for why in sorted({why for _, why in self.skipped}):
                cases = [case for case, reason in self.skipped if reason == why]
                print(f"  {cases[0]}{f' and {len(cases) - 1} more' * (len(cases) > 1)}: {why}")
        if self.failed:
            print("\nfailed:")
            for case, what, wrong in self.failed:
                print(f"  {case}, {what}: {wrong}")
                if "/" in case:
                    print(f"    scripts/programs/run --only {case}")
        print(f"{self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped")
        return 1 if self.failed or not self.passed else 0


def golden(root: Path) -> list[Path]:
    """The directories of models below another."""
    return sorted(config.parent for config in root.glob("*/config.json"))


def toy_names() -> list[str]:
    """The toys that TestPublished makes."""
    return [json.loads(line)["model"].replace("/", "--").replace(" ", "-").replace(",", "") for line in (PUBLISHED / "configs.jsonl").read_text().splitlines()]


began = spoke = time.monotonic()


def out(line: str) -> None:
    global spoke
    spoke = time.monotonic()
    print(line, flush=True)


def said(what: str) -> None:
    out(f"== {what} ({time.monotonic() - began:.0f} s)")


def alive() -> None:
    """Says that the work goes on where nothing else is said for long."""
    while True:
        time.sleep(1)
        if time.monotonic() - spoke > 20:
            out(f"  ... {time.monotonic() - began:.0f} s")


def version(venv: str, program: str) -> str:
    if program == "converter":
        return "of " + (VENVS / "converter/made").read_text()
    if program == "ollama-convert":
        return "of Ollama's " + next(line.split()[-1] for line in (HERE / "ollama/go.mod").read_text().splitlines() if "ollama/ollama " in line)
    if program == "llama-server":
        server = shutil.which(program) or str(VENVS / program / program)
        said = subprocess.run([server, "--version"], capture_output=True, text=True) if Path(server).exists() else None
        return (said.stderr + said.stdout).splitlines()[0] if said else "is not here"
    if program == "ollama":
        made = VENVS / "ollama/made"
        return made.read_text() if made.exists() else "is not built"
    package = "transformers" if program.startswith("transformers") else program
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([VENVS / venv / "bin/python", "-c", code], capture_output=True, text=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/programs/run", description=__doc__)
    parser.add_argument("--only", default="", metavar="MODEL/FORM/SOURCE/PROGRAM", help="such a case, or the first parts of one")
    parser.add_argument("--keep", action="store_true", help="leave the models, and print where they are")
    options = parser.parse_args()
    stores = options.only.split("/")[1:2] == ["out"]  # of check_stores.py, which makes what it needs
    fields = options.only.split("/")[0] in ("config_fields", "settings")  # of checks that need no model
    known = [*RECIPES, *DIALECTS, *toy_names(), *(d.name for d in golden(ARCHITECTURES) + golden(PUBLISHED) + [d for kind in TOWER_KINDS for d in golden(ROOT / "testdata" / kind)]), *(f.parent.name for f in IMAGES.glob("*/model.safetensors"))]
    if options.only and not stores and not fields and (name := options.only.split("/")[0]) not in known:
        with zipfile.ZipFile(PACKED) as files:
            if f"{name}/config.json" not in files.namelist():
                parser.error(f"there is no model {name}; there are {', '.join(RECIPES)}, and those of testdata/architectures, testdata/published and {PACKED.name}")
    work = Path(tempfile.mkdtemp(prefix="tensorfs-programs-"))
    trial = Trial(work / "tensorfs", work, options.only)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    threading.Thread(target=alive, daemon=True).start()
    try:
        said("building tensorfs")
        trial.call(["go", "build", "-o", trial.tensorfs, "./cmd/tensorfs"], cwd=ROOT)
        if not stores:
            trial.make()
            trial.mount()
        for program, venv, script in () if stores else CHECKS:
            if options.only.count("/") < 3 or options.only.endswith("/" + program):
                trial.check(program, venv, script)
        if not options.only:
            trial.check(*RUST)
            trial.package()
        if stores or not options.only:
            for program, venv, script in STORES:
                trial.check(program, venv, script)
    finally:
        if not trial.umount():
            trial.failed.append(("the mounts", "unmount", f"they are left below {trial.mounted}"))
        elif options.keep:
            print(f"the models are in {work}")
        else:
            shutil.rmtree(work)
    return trial.close()


if __name__ == "__main__":
    sys.exit(main())
