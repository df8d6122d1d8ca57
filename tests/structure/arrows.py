"""Says whether the includes between the rooms of the product go one way,
and whether the public API knows nothing internal.

A room is a folder. It may include rooms that stand in a line above its own in ROOMS, and nothing
else: rooms of one line stand side by side and do not know each other. A room that ROOMS does not
name is an error, too.

    python3 tests/structure/arrows.py [ROOT]    prints each wrong arrow; exit code 1 if there is one
"""
import graphlib
import pathlib
import re
import sys

# From the ground up.
ROOMS = """
common/base
common/gguf
common/flags common/random common/concurrency common/theory common/hub
common/process common/sampling common/telemetry common/tokenizer common/scheduling common/admin
common/acceptance common/security
common/messages
common/speculation common/transport
common/serving common/http
torch/kernels
model/cpu model/spec
model/files
model/families
model
torch/library
torch/graphs
torch/aten
torch
target_service/engine draft_service/ngrams
target_service/sequences draft_service/drafters
target_service/answers draft_service/sequences
target_service/passes draft_service/passes
draft_service/serving
target_service draft_service
orchestrator/request
orchestrator/peers orchestrator/accept orchestrator/stream
orchestrator/draft orchestrator/verify
orchestrator/loop
orchestrator/generate
orchestrator/openai
orchestrator/trace orchestrator/metrics orchestrator/log
orchestrator
client/common
client/generate client/bench client/theory client/pull client/chat client/describe client/tokenize client/completion
client all_in_one
"""
# Where sources (a header and its .cc) do not include each other in a circle either.
WITHOUT_CIRCLES = ("model", "torch", "draft_service", "target_service")
PRODUCT = ("common", "model", "torch", "draft_service", "target_service", "orchestrator", "client", "all_in_one")
# Each knows nothing of the others.
SERVICES = ("draft_service", "target_service", "orchestrator")
INCLUDE = re.compile(r'^\s*#\s*include "([^"]+)"', re.MULTILINE)
# What stands for a client of the public API, and what only the services may know.
PUBLIC = ("proto/tandem/v1", "client")
INTERNAL = re.compile(r'^\s*(?:#\s*include|import(?: public)?) "(tandem/internal/[^"]+)"', re.MULTILINE)


def levels(rooms):
    return {room: level for level, line in enumerate(rooms.strip().splitlines()) for room in line.split()}


def room_of(path, known):
    """The nearest folder above a file that is a room; None: there is none."""
    for folder in pathlib.PurePosixPath(path).parents:
        if str(folder) in known:
            return str(folder)
    return None


def wrong_arrows(root, rooms=ROOMS):
    """One line of text for each include that breaks the order."""
    known = levels(rooms)
    problems = []
    for top in PRODUCT:
        for file in sorted((root / top).rglob("*")):
            if file.suffix not in (".h", ".cc"):
                continue
            path = file.relative_to(root).as_posix()
            own = room_of(path, known)
            if own is None:
                problems.append(f"{path}: its folder is not in ROOMS (tests/structure/arrows.py)")
                continue
            for included in INCLUDE.findall(file.read_text(encoding="utf-8")):
                if not included.startswith(tuple(f"{one}/" for one in PRODUCT)):
                    continue
                if top in SERVICES and included.split("/")[0] in set(SERVICES) - {top}:
                    problems.append(f"{path} includes {included}: services never include each other")
                other = room_of(included, known)
                if other == own:
                    continue
                if other is None or known[other] >= known[own]:
                    how = "beside" if other and known[other] == known[own] else "above"
                    problems.append(f"{path} includes {included}: {other} stands {how} {own}")
    return problems


def circles(root, tops=WITHOUT_CIRCLES):
    """The first circle of includes among the sources of `tops`, as a list of no or one line of
    text."""
    arrows = {}
    for top in tops:
        for file in sorted((root / top).rglob("*")):
            if file.suffix in (".h", ".cc"):
                source = file.relative_to(root).with_suffix("").as_posix()
                others = {pathlib.PurePosixPath(one).with_suffix("").as_posix()
                          for one in INCLUDE.findall(file.read_text(encoding="utf-8"))}
                arrows.setdefault(source, set()).update(others - {source})
    try:
        graphlib.TopologicalSorter(arrows).prepare()
    except graphlib.CycleError as error:
        return [" includes ".join(reversed(error.args[1]))]
    return []


def internal_in_public(root):
    """One line of text for each place of the public API, or of its clients, that knows the
    services' own messages."""
    problems = []
    for top in PUBLIC:
        for file in sorted((root / top).rglob("*")):
            if file.suffix in (".h", ".cc", ".proto"):
                path = file.relative_to(root).as_posix()
                problems += [f"{path} knows {internal}, which is internal"
                             for internal in INTERNAL.findall(file.read_text(encoding="utf-8"))]
    return problems


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[2])
    problems = wrong_arrows(root) + circles(root) + internal_in_public(root)
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
