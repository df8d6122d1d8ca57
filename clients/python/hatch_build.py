# SPDX-License-Identifier: Apache-2.0
"""Generates the package's messages out of the public protos, whenever it is packaged.

A wheel has the generated modules. A source distribution has the protos, so that a wheel can be
built of it. Nothing generated is ever committed.
"""

import pathlib
import re
import sys
import tempfile

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PUBLIC = "tandem/v1/generation.proto"
FOLDER = "tandem/v1/"
MODULES = "tandem_client/v1"
IMPORT = re.compile(r'^import\s+(?:public\s+)?"([^"]+)"\s*;', re.MULTILINE)


def proto_root(root):
    """Of a source distribution, or of the repository."""
    for folder in (root / "proto", root.parent.parent / "proto"):
        if (folder / PUBLIC).exists():
            return folder
    raise FileNotFoundError(f"{PUBLIC} lies neither in {root} nor two folders above it")


def public_protos(protos):
    """The API's proto and what it imports, without those that come with Protobuf."""
    found, waiting = [], [PUBLIC]
    while waiting:
        name = waiting.pop()
        if name in found or name.startswith("google/protobuf/"):
            continue
        if not name.startswith(FOLDER):
            raise ValueError(f"{name} is imported and lies outside of {FOLDER}")
        found.append(name)
        waiting += IMPORT.findall((protos / name).read_text(encoding="utf-8"))
    return sorted(found)


def generate(protos, names, out):
    """Writes modules into `out`. Returns their paths."""
    import grpc_tools
    from grpc_tools import protoc

    included = pathlib.Path(grpc_tools.__file__).parent / "_proto"
    words = ["protoc", f"--proto_path={protos}", f"--proto_path={included}", f"--python_out={out}",
             f"--pyi_out={out}", f"--grpc_python_out={out}", *names]
    if protoc.main(words) != 0:
        sys.exit("protoc failed")
    modules = [path for path in (out / FOLDER).iterdir() if not path.name.startswith("__")]
    # A top-level module "tandem" would not be ours alone.
    for path in modules:
        text = path.read_text(encoding="utf-8")
        text = re.sub(r"^from tandem\.v1 import ", "from tandem_client.v1 import ", text, flags=re.MULTILINE)
        text = re.sub(r"'tandem\.v1\.(\w+_pb2)'", r"'tandem_client.v1.\1'", text)
        path.write_text(text, encoding="utf-8")
    package = out / FOLDER / "__init__.py"
    stems = [pathlib.PurePath(name).stem for name in names]
    package.write_text('"""The messages of the API, as proto/tandem/v1 describes them."""\n\n' + "".join(
        f"from tandem_client.v1.{stem}_pb2 import *\n" for stem in stems), encoding="utf-8")
    return [*modules, package]


def needs(modules):
    """Generated modules run with the release that they were generated for, and later ones:
    Protobuf's next major."""
    text = "".join(path.read_text(encoding="utf-8") for path in modules)
    protobuf = re.search(r"^# Protobuf Python Version: (\d+)(\S+)", text, re.MULTILINE)
    grpc = re.search(r"^GRPC_GENERATED_VERSION = '([^']+)'", text, re.MULTILINE)
    return [f"protobuf>={protobuf[1]}{protobuf[2]},<{int(protobuf[1]) + 2}", f"grpcio>={grpc[1]}"]


class Stubs(BuildHookInterface):
    def initialize(self, version, build_data):
        root = pathlib.Path(self.root)
        protos = proto_root(root)
        names = public_protos(protos)
        included = build_data["force_include"]
        if self.target_name == "sdist":
            included.update({str(protos / name): f"proto/{name}" for name in names})
            licence = protos.parent / "LICENSE"
            if licence.exists() and protos.parent != root:
                included[str(licence)] = "LICENSE"
            return
        self._folder = tempfile.TemporaryDirectory()
        modules = generate(protos, names, pathlib.Path(self._folder.name))
        build_data["dependencies"] += needs(modules)
        for path in modules:
            if version == "editable":
                to = root / "src" / MODULES / path.name
                to.parent.mkdir(exist_ok=True)
                to.write_bytes(path.read_bytes())
            else:
                included[str(path)] = f"{MODULES}/{path.name}"

    def finalize(self, version, build_data, artifact_path):
        if self.target_name != "sdist":
            self._folder.cleanup()
