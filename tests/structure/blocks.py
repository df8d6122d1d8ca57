"""The shell blocks of pages that people paste whole: what would not work as it stands."""
import pathlib
import re
import subprocess

# Pages whose blocks run one after the other, from the top of the repository.
PAGES = ("README.md", "docs/usage.md", "docs/security.md")
PROGRAMS = r"tandem(?:-draft|-target|-orchestrator|-model)?"


def blocks(page):
    """(line number, text) of each block that is shell."""
    return [(page[:match.start()].count("\n") + 2, match[1])
            for match in re.finditer(r"^```sh\n(.*?)^```", page, re.DOTALL | re.MULTILINE)]


def commands(block):
    """Lines, continued ones joined, without comments."""
    joined = re.sub(r"\\\n\s*", " ", block)
    return [line for line in (re.sub(r"(^|\s)#.*", "", line).strip() for line in joined.split("\n")) if line]


class Page:
    def __init__(self, name, text, root):
        self.name = name
        self.text = text
        self.root = root
        self.problems = []
        self.path_is_set = False
        self.made = set()  # files that earlier commands wrote

    def check(self):
        for line, block in blocks(self.text):
            self.check_block(line, block)
        return self.problems

    def problem(self, line, what):
        self.problems.append(f"{self.name}:{line}: {what}")

    def check_block(self, line, block):
        done = subprocess.run(["bash", "-n"], input=block, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.problem(line, f"is no shell: {done.stderr.strip()}")
        waiting = None  # a service that was put into the background and is not ready yet
        for command in commands(block):
            self.path_is_set |= command.startswith("export PATH=")
            self.made.update(re.findall(r">\s*([\w./-]+)", command))
            for made in re.findall(r"scripts/certs .*?([\w-]+)$", command):
                self.made.add(made)
            placeholder = re.search(r"\b(HOST|DIR|SMALL_DIR|FILE)\b", command)
            if placeholder:
                self.problem(line, f"'{placeholder[0]}' is no value: {command}")
            if re.match(rf"{PROGRAMS}\b", command) and not self.path_is_set:
                self.problem(line, f"nothing says where the program is: {command}")
            for file in re.findall(r"--(?:token-file|[\w-]*ca|[\w-]*certificate|[\w-]*key)=([\w./-]+)", command):
                if file not in self.made and file.split("/")[0] not in self.made:
                    self.problem(line, f"{file} is not there yet: {command}")
            for path in re.findall(r"(?:^|[\s=])((?:scripts|demo|k8s)/[\w./-]+)", command):
                if not (self.root / path).exists():
                    self.problem(line, f"{path} does not exist: {command}")
            if command.startswith("until "):
                waiting = None
            service = re.search(rf"(tandem serve|tandem-(?:draft|target|orchestrator)) .*&", command)
            if service:
                waiting = service[1]
            elif re.match(r"(tandem-(draft|target|orchestrator)|tandem serve)\b", command):
                self.problem(line, f"what follows is never reached: {command}")
            elif re.match(r"(?:\S*/)?tandem (generate|bench)\b", command) and waiting:
                self.problem(line, f"{waiting} may not be ready: {command}")
            if re.search(r"bench .*--concurrency", command) and not re.search(r"#.*minutes", block):
                self.problem(line, f"it takes minutes, and nothing says so: {command}")


def wrong_blocks(root, pages=PAGES):
    root = pathlib.Path(root)
    return [problem for page in pages for problem in Page(page, (root / page).read_text(), root).check()]
