"""What sources say to people: comments and docstrings, and the messages of C++."""
import ast
import io
import pathlib
import re
import subprocess
import tokenize

WIDTH = 100
SOURCES = ("*.h", "*.cc", "*.cu", "*.proto", "*.py", "*.cmake", "*CMakeLists.txt")
# After the code of a line, but for strings with a // of their own, as in https://
SLASHES = re.compile(r"""^((?:[^"/]|/(?!/)|"(?:[^"\\]|\\.)*")*)//(.*)$""")
STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"')
HASH = re.compile(r"^(\s*|.*\s\s)#(?!!)(.*)$")


def sources(root):
    listed = subprocess.run(["git", "ls-files", *SOURCES], cwd=root, capture_output=True, text=True, check=True)
    return [root / name for name in listed.stdout.splitlines()]


def of_python(text):
    lines = text.splitlines()
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            found[token.start[0]] = token.string[1:]
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)) and ast.get_docstring(node):
            for line in range(node.body[0].lineno, node.body[0].end_lineno + 1):
                found[line] = lines[line - 1].replace('"""', "")
    return found


def comments(path):
    """{line: what its comment says}"""
    text = pathlib.Path(path).read_text()
    if path.suffix == ".py":
        return of_python(text)
    form = HASH if path.suffix in (".cmake", ".txt") else SLASHES
    matches = ((number, form.match(line)) for number, line in enumerate(text.splitlines(), 1))
    return {number: match[2] for number, match in matches if match}


def too_wide(path):
    """Lines whose comment ends behind column WIDTH, unless it is one word."""
    lines = path.read_text().splitlines()
    return [number for number, comment in comments(path).items()
            if len(lines[number - 1]) > WIDTH and " " in comment.strip()]


def messages(path):
    """{line: the texts of several words that begin there}, of literals one after the other"""
    text = re.sub(r"^ *(?:#include|//).*$", lambda line: " " * len(line[0]), path.read_text(), flags=re.MULTILINE)
    begun, end = [], 0
    for literal in STRING.finditer(text):
        if not begun or text[end:literal.start()].strip():
            begun.append([text.count("\n", 0, literal.start()) + 1, ""])
        begun[-1][1] += literal[0][1:-1].replace("\\n", " ")
        end = literal.end()
    found = {}
    for line, message in begun:
        if len(message.split()) > 2:
            # A full stop parts it from the next one.
            found[line] = f"{found.get(line, '')}{message}. "
    return found


def as_prose(lines):
    """A text with these lines at their numbers and without `code`."""
    texts = (lines.get(number, "").strip() for number in range(1, max(lines) + 1))
    return "".join(re.sub(r"`[^`]*`", "``", text) + "\n" for text in texts)
