"""Links between the pages, and names of pages in sources: what leads nowhere."""
import pathlib
import re
import subprocess

LINK = re.compile(r"(?<!!)\[(?:[^\[\]]|\[[^\]]*\])*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
# In a comment: a path from the top
NAMED = re.compile(r"(?<![\w./-])((?:[\w-]+/)+[\w.-]+\.md)(#[\w-]+)?")


def without_code(text):
    text = re.sub(r"^ *```.*?^ *```", lambda block: "\n" * block[0].count("\n"), text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "``", text)


def anchors(text):
    """The ids that a page's headings have, as GitHub and mkdocs write them."""
    found = set()
    text = re.sub(r"^ *```.*?^ *```", "", text, flags=re.DOTALL | re.MULTILINE)
    for heading in re.findall(r"^#{1,6} +(.+?) *#*$", text, re.MULTILINE):
        heading = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
        name = re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
        unique, copies = name, 0
        while unique in found:
            copies += 1
            unique = f"{name}-{copies}"
        found.add(unique)
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def dead_links(root, files):
    """Each as page:line: link."""
    root = pathlib.Path(root)
    known = {}

    def leads_nowhere(path, anchor):
        if not path.exists():
            return "no such file"
        if anchor and path.suffix == ".md":
            if path not in known:
                known[path] = anchors(path.read_text())
            if anchor not in known[path]:
                return "no such heading"
        return None

    dead = []
    for name in files:
        path = root / name
        text = path.read_text(errors="replace")
        if path.suffix == ".md":
            targets = [(match.start(), path.parent, match[1] or match[2]) for match in LINK.finditer(without_code(text))]
            text = without_code(text)
        else:
            targets = [(match.start(), root, match[1] + (match[2] or "")) for match in NAMED.finditer(text)]
        for start, base, target in targets:
            if re.match(r"[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            why = leads_nowhere((base / file).resolve() if file else path, anchor)
            if why:
                dead.append(f"{name}:{text[:start].count(chr(10)) + 1}: {target}: {why}")
    return dead


def tracked(root):
    """Pages, and the sources that name pages."""
    names = subprocess.run(["git", "ls-files", "--cached", "--others", "--exclude-standard"], cwd=root, check=True,
                           capture_output=True, text=True).stdout.split("\n")
    sources = (".md", ".h", ".cc", ".cu", ".proto", ".py", ".yaml", ".yml", ".cmake", ".txt", ".json")
    return [name for name in names if name.endswith(sources) and (pathlib.Path(root) / name).is_file()
            and not name.startswith("tests/structure/links")]
