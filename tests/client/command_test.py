"""The commands of `tandem` on the demo pair, as their users call them: in a terminal, and in
pipes."""

import json
import os
import pathlib
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "http"))
from served import PROMPT, Served, demo_target_without, eventually, services  # noqa: E402

TANDEM = str(services.BINARIES / "tandem")
GREEN, END = "\x1b[32m", "\x1b[0m"


def without_colors(text):
    return re.sub("\x1b\\[[0-9;]*m", "", text)


class Terminal:
    """A command in a terminal of its own. Standard error goes there, too, or to the file
    `errors`."""

    def __init__(self, words, errors=None, **environment):
        self.pid, self.side = pty.fork()
        if self.pid == 0:
            if errors:
                os.dup2(os.open(errors, os.O_WRONLY | os.O_CREAT), 2)
            os.environ.update({"TERM": "xterm", "NO_COLOR": "", **environment})
            os.execv(TANDEM, [TANDEM, *words])
        self.seen = ""

    def write(self, text):
        os.write(self.side, text.encode())

    def read(self):
        """False: it has ended."""
        try:
            if select.select([self.side], [], [], 0.1)[0]:
                data = os.read(self.side, 65536)
                self.seen += data.decode(errors="replace")
                return bool(data)
        except OSError:  # Linux's way to say that nobody has the other side
            return False
        return True

    def wait_for(self, text):
        deadline = time.monotonic() + services.PATIENCE
        while text not in self.seen:
            assert self.read() and time.monotonic() < deadline, self.seen
        before, _, self.seen = self.seen.partition(text)
        return before

    def end(self):
        deadline = time.monotonic() + services.PATIENCE
        while self.read():
            assert time.monotonic() < deadline, self.seen
        os.close(self.side)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


class Commands(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.served = Served()
        cls.orchestrator = f"--orchestrator=127.0.0.1:{cls.served.grpc_port}"

    @classmethod
    def tearDownClass(cls):
        cls.served.__exit__()

    def run_tandem(self, *words, text="", code=0, **environment):
        done = subprocess.run([TANDEM, *words], input=text, capture_output=True, text=True, timeout=120, check=False,
                              env={**os.environ, **environment})
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def chat(self, text, *flags, code=0):
        return self.run_tandem("chat", self.orchestrator, "--temperature=0", "--max-tokens=8", *flags, text=text,
                               code=code)

    def continuation(self, prompt):
        return self.served.grpc(f"--prompt={prompt}", "--temperature=0", "--max-tokens=8")["text"]

    # ---- chat ----

    def test_a_conversation_from_a_pipe(self):
        """By the demo's template an answer goes on where the message ends, and messages are
        paragraphs."""
        one = self.continuation("The city was")
        two = self.continuation(f"The city was{one}\n\nThe sea")
        done = self.chat("The city was\n\nThe sea\n", "--draft-tokens=4")
        self.assertEqual(done.stdout, f"{one}\n{two}\n")
        records = done.stderr.splitlines()
        self.assertEqual(len(records), 2, done.stderr)
        for record in records:
            self.assertRegex(record, r"^  8 tokens \(length\) in \d+ rounds, .* draft tokens accepted; .* ms per token")
        self.assertEqual(self.chat("The city was\nThe sea", "--quiet").stderr, "")

    def test_commands_change_what_was_said(self):
        one = self.continuation("The city was")
        for command in ("/reset", "/undo", "/system"):
            done = self.chat(f"The city was\n{command}\nThe city was\n/quit\nThe sea\n")
            self.assertEqual(done.stdout, f"{one}\n{one}\n", command)
        brief = self.continuation("Be brief.\n\nThe\ncity was")
        self.assertEqual(self.chat("The \\\ncity was\n", "--system=Be brief.").stdout,
                         self.continuation("Be brief.\n\nThe \ncity was") + "\n")
        self.assertEqual(self.chat("/system Be brief.\nThe\\\ncity was\n").stdout, brief + "\n")

    def test_the_first_failure_ends_a_script(self):
        done = self.chat("/nothing\nThe city was\n", code=2)
        self.assertEqual(done.stdout, "")
        self.assertIn("'/nothing' is not a command; /help lists them", done.stderr)
        done = self.chat("The city was\nThe sea\n", "--template-arguments=[]", code=1)
        self.assertEqual(done.stdout, "")
        self.assertIn("conversation.template_arguments: must be an object", done.stderr)

    def test_a_model_without_a_template_is_named(self):
        with tempfile.TemporaryDirectory() as folder:
            target = demo_target_without("tokenizer_config.json", folder)
            with Served(target=target) as bare:
                done = self.run_tandem("chat", f"--orchestrator=127.0.0.1:{bare.grpc_port}", text="Hello\n", code=1)
        self.assertIn("the model target has no chat template", done.stderr)
        self.assertIn("hint: the orchestrator reads one from chat_template.jinja", done.stderr)

    def test_in_a_terminal_accepted_tokens_are_green(self):
        terminal = Terminal(["chat", self.orchestrator, "--temperature=0", "--max-tokens=24", "--draft-tokens=4"])
        head = terminal.wait_for("> ")
        self.assertIn("/reset", head)
        self.assertIn(f"{GREEN}green{END}: draft tokens that the target accepted", head)
        terminal.write("The city was\n")
        answer = terminal.wait_for("> ")
        self.assertIn(GREEN, answer)
        plain = without_colors(answer).replace("\r\n", "\n")
        text = self.served.grpc("--prompt=The city was", "--temperature=0", "--max-tokens=24")["text"]
        self.assertIn(f"{text}\n  24 tokens", plain)
        terminal.write("/nothing\n")
        self.assertIn("is not a command", terminal.wait_for("> "))
        terminal.write("\x04")  # the end of input
        self.assertEqual(terminal.end(), 0)

    def test_ctrl_c_stops_an_answer_and_then_the_command(self):
        terminal = Terminal(["chat", self.orchestrator, "--max-tokens=1000", "--logit-bias=0:-100"])
        terminal.wait_for("> ")
        terminal.write("The city was\n")
        eventually(lambda: self.check_requests(1))
        terminal.write("\x03")
        self.assertIn("cancelled; not added to the conversation", terminal.wait_for("> "))
        eventually(lambda: self.check_requests(0))
        terminal.write("\x03")
        self.assertEqual(terminal.end(), 128 + signal.SIGINT)

    def check_requests(self, count):
        assert self.served.metric("tandem:open_calls") == count

    # ---- generate ----

    def test_the_prompt_as_others_write_it(self):
        text = self.continuation(PROMPT) + "\n"
        words = ["--temperature=0", "-n", "8", self.orchestrator]
        for prompt in ([PROMPT], ["-p", PROMPT], ["-f", "-"]):
            self.assertEqual(self.run_tandem("generate", *prompt, *words, text=PROMPT).stdout, text)
        done = self.run_tandem("generate", *words, "--quiet", "--", PROMPT)
        self.assertEqual((done.stdout, done.stderr), (text, ""))
        done = self.run_tandem("generate", "The", "city", *words, code=2)
        self.assertIn("'city' is one text too many; put quotes around one with blanks", done.stderr)

    def test_log_probabilities_come_with_texts(self):
        words = ["generate", PROMPT, "-n", "8", "--temperature=0", "--logprobs=2", "--prompt-logprobs",
                 self.orchestrator]
        last = json.loads(self.run_tandem(*words, "--format=json").stdout.splitlines()[-1])
        self.assertEqual("".join(last["token_texts"]), last["text"])
        self.assertEqual(bytes(sum(last["token_bytes"], [])).decode(), last["text"])
        self.assertEqual(last["top_logprobs"][0][0]["text"], last["token_texts"][0], "temperature 0")
        self.assertTrue(PROMPT.endswith("".join(last["prompt_logprobs"]["token_texts"])))
        self.assertIn(f'  "{last["token_texts"][1]}"\n', self.run_tandem(*words).stderr)

    def test_colors_are_for_terminals_that_want_them(self):
        words = ["generate", self.orchestrator, f"--prompt={PROMPT}", "--temperature=0", "--max-tokens=24",
                 "--draft-tokens=4"]
        text = self.served.grpc(*words[2:])["text"]
        self.assertEqual(self.run_tandem(*words).stdout, text + "\n")
        always = self.run_tandem(*words, "--color=always")
        self.assertIn(GREEN, always.stdout)
        self.assertEqual(without_colors(always.stdout), text + "\n")
        self.assertIn(f"{GREEN}green{END}: draft tokens that the target accepted", always.stderr)
        alone = self.run_tandem(*words[:-1], "--color=always", "--draft-tokens=0").stdout
        self.assertEqual(alone, text + "\n", "nothing was drafted")
        for flags, environment, colored in (([], {}, True), (["--color=never"], {}, False),
                                            ([], {"NO_COLOR": "1"}, False), ([], {"TERM": "dumb"}, False)):
            terminal = Terminal([*words, *flags], errors="/dev/null", **environment)
            self.assertEqual(terminal.end(), 0)
            self.assertEqual(GREEN in terminal.seen, colored, (flags, environment))
            self.assertEqual(without_colors(terminal.seen).replace("\r\n", "\n"), text + "\n")

    # ---- describe, tokenize ----

    def test_what_the_services_say_of_themselves(self):
        table = self.run_tandem("describe", self.orchestrator).stdout
        lines = table.splitlines()
        self.assertEqual([line.split()[0] for line in lines[:4]], ["service", "orchestrator", "target", "draft"])
        for line in lines[1:4]:
            self.assertIn(" ready", line)
        self.assertRegex(table, r"\n  served model       target\n")
        self.assertRegex(table, r"\n  context length     1024\n")
        self.assertRegex(table, r"\n  rules              greedy, ")
        self.assertRegex(table, r"\n  drafters           model, ")
        self.assertRegex(table, r"\n  pass times          rows         ms     ms/row\n +1 ")
        told = json.loads(self.run_tandem("describe", self.orchestrator, "--format=json").stdout)
        self.assertEqual((told["version"], told["models"][0]["id"]), (1, "target"))
        target, draft = told["description"]["peers"]
        self.assertEqual((target["role"], draft["role"]), ("ROLE_TARGET", "ROLE_DRAFT"))
        self.assertIn(target["welcome"]["model_id"], table)
        # `tandem serve` reaches its own services without sockets.
        self.assertEqual({target["address"], draft["address"]}, {"in this process #0"})
        done = self.run_tandem("describe", "--orchestrator=127.0.0.1:1", code=1)
        self.assertIn("no orchestrator answers at 127.0.0.1:1", done.stderr)

    # ---- theory, bench ----

    def test_theory_of_what_was_measured(self):
        self.served.grpc("--prompt=The city was", "--temperature=0", "--max-tokens=16", "--draft-tokens=4")
        done = self.run_tandem("theory", self.orchestrator)
        self.assertRegex(done.stdout, r"^alpha [\d.]+: best K \d+.*, [\d.]+x; (break-even draft time [\d.e+-]+ ms/token|no)")
        self.assertNotIn("not given", done.stdout)
        told = json.loads(self.run_tandem("theory", self.orchestrator, "--json", "--draft-ms=1e6").stdout)
        self.assertEqual((told["draft_us"], told["verdicts"][0]["draft_tokens"]), (1e9, 0))
        done = self.run_tandem("theory", "--orchestrator=127.0.0.1:1", code=1)
        self.assertIn("no orchestrator answers at 127.0.0.1:1", done.stderr)

    def test_bench_of_conversations(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder) / "chats.jsonl"
            file.write_text('{"messages": [{"role": "system", "content": "Be brief."}, '
                            '{"role": "user", "content": "The city was"}]}\n')
            words = ("bench", self.orchestrator, f"--chat={file}", "--repeats=1", "--max-tokens=24", "--json")
            told = json.loads(self.run_tandem(*words, "--draft-tokens=3").stdout)
            self.assertEqual(told["pairs"], 1)
            self.assertGreater(told["alpha_hat"], 0)
            file.write_text('\n{"messages": [{"content": "The city was"}]}\n')
            self.assertIn(f"{file}:2: messages[0].role is missing", self.run_tandem(*words, code=2).stderr)
            self.assertIn("give one", self.run_tandem(*words, f"--prompts-file={file}", code=2).stderr)

    def tokenize(self, *words, **options):
        return self.run_tandem("tokenize", self.orchestrator, *words, **options)

    def test_tokens_of_a_text_and_back(self):
        text = "Naïve <|endoftext|>\n"
        told = json.loads(self.tokenize(text, "--format=json").stdout)
        tokens = told["tokens"]
        self.assertEqual((told["version"], told["count"], told["context_length"]), (1, len(tokens), 1024))
        self.assertEqual(b"".join(bytes(token["bytes"]) for token in tokens), text.encode())
        self.assertIn("<|endoftext|>", [token["text"] for token in tokens])
        ids = self.tokenize(text, "--format=ids").stdout.strip()
        self.assertEqual(ids, ",".join(str(token["id"]) for token in tokens))
        self.assertEqual(self.tokenize(f"--ids={ids}").stdout, "Naïve \n\n")
        back = json.loads(self.tokenize(f"--ids={ids}", "--format=json").stdout)
        self.assertEqual(back, {"version": 1, "text": "Naïve \n"})
        table = self.tokenize("-f", "-", text=text).stdout.splitlines()
        self.assertEqual(len(table), len(tokens))
        self.assertRegex(table[-1], r'^ *\d+ +\d+  "\\n"$')
        plain = self.tokenize(text, "--parse-special-tokens=false", "--format=json").stdout
        self.assertNotIn("<|endoftext|>", [token["text"] for token in json.loads(plain)["tokens"]])
        done = self.tokenize("--ids=999999", code=1)
        self.assertIn("token_ids: ", done.stderr)
        self.assertIn("give the text", self.tokenize(code=2).stderr)
        self.assertIn("give only one of them", self.tokenize("x", "--ids=1", code=2).stderr)

    # ---- the environment ----

    def test_the_environment_says_where_and_who(self):
        where = {"TANDEM_ORCHESTRATOR": f"127.0.0.1:{self.served.grpc_port}"}
        words = ["generate", PROMPT, "-n", "8", "--temperature=0", "--quiet"]
        text = self.continuation(PROMPT) + "\n"
        self.assertEqual(self.run_tandem(*words, **where).stdout, text)
        self.run_tandem(*words, "--orchestrator=127.0.0.1:1", code=1, **where)
        with tempfile.TemporaryDirectory() as folder:
            tokens = pathlib.Path(folder) / "tokens"
            tokens.write_text("right-4f1c9ab2d07e6653\n")
            with Served(f"--token-file={tokens}") as guarded:
                where = {"TANDEM_ORCHESTRATOR": f"127.0.0.1:{guarded.grpc_port}"}
                self.assertIn("UNAUTHENTICATED", self.run_tandem(*words, code=1, **where).stderr)
                self.assertEqual(self.run_tandem(*words, **where, TANDEM_TOKEN="right-4f1c9ab2d07e6653").stdout, text)
                self.assertEqual(self.run_tandem(*words, **where, TANDEM_TOKEN_FILE=str(tokens)).stdout, text)
                wrong = {**where, "TANDEM_TOKEN": "wrong-4f1c9ab2d07e6653"}
                self.assertIn("UNAUTHENTICATED", self.run_tandem(*words, code=1, **wrong).stderr)
                self.assertEqual(self.run_tandem(*words, f"--token-file={tokens}", **wrong).stdout, text)
                short = self.run_tandem(*words, code=2, **where, TANDEM_TOKEN="short").stderr
                self.assertIn("TANDEM_TOKEN: a token of 5 characters", short)

    # ---- completion, installation ----

    def complete(self, line, shell="bash"):
        """What the shell would put in place of the last word."""
        scripts = {
            "bash": 'source <("$0" completion bash); COMP_LINE=$1 COMP_POINT=${#1}; _tandem; printf "%s\\n" '
                    '"${COMPREPLY[@]}"',
            "fish": "$argv[1] completion fish | source; complete -C $argv[2] | string replace -r '\\t.*' ''",
            # What stands in for zsh's own functions prints the completions.
            "zsh": 'compdef() {}; compset() {}; _files() {}; compadd() { print -l -- "${@[$@[(i)--]+1,-1]}" }; '
                   'source <("$0" completion zsh); words=(${=1}) CURRENT=$#words PREFIX=$words[-1]; _tandem',
        }
        if shutil.which(shell) is None:
            self.skipTest(f"no {shell}")
        words = [shell, "-c", scripts[shell], TANDEM, line]
        path = f"{services.BINARIES}:{os.environ['PATH']}"
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False,
                              env={**os.environ, "PATH": path})
        self.assertEqual(done.stderr, "")
        return sorted(done.stdout.split())

    def test_completion_asks_the_program(self):
        for shell in ("bash", "zsh", "fish"):
            with self.subTest(shell):
                # The others complete what follows the '='
                whole = "--color=" if shell == "fish" else ""
                self.assertEqual(self.complete("tandem ge", shell), ["generate"])
                self.assertEqual(self.complete("tandem generate --max-t", shell), ["--max-tokens="])
                self.assertEqual(self.complete("tandem generate --color=a", shell), [whole + "always", whole + "auto"])
                self.assertEqual(self.complete("tandem serve --draft-m", shell), ["--draft-model="])
                self.assertEqual(self.complete("tandem-target --pool-t", shell), ["--pool-tokens="])
                self.assertEqual(self.complete("tandem completion z", shell), ["zsh"])

    def test_every_flag_of_the_help_is_completed(self):
        commands = [line.split("\t")[0] for line in self.run_tandem("--complete", "").stdout.splitlines()]
        self.assertIn("generate", commands)
        for command in set(commands) - {"help", "version", "completion"}:
            flags = re.findall(r"^  (--[a-z-]+)", self.run_tandem(command, "--help").stdout, re.MULTILINE)
            told = [line.split("\t")[0].rstrip("=") for line in
                    self.run_tandem("--complete", command, "--").stdout.splitlines()]
            self.assertEqual(told, flags, command)
            self.assertTrue(flags, command)

    def test_what_cmake_installs(self):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["cmake", "--install", services.BINARIES.parent, f"--prefix={folder}"], check=True,
                           stdout=subprocess.DEVNULL)
            there = {str(path.relative_to(folder)) for path in pathlib.Path(folder).rglob("*") if path.is_file()}
            programs = ["tandem", "tandem-draft", "tandem-target", "tandem-orchestrator"]
            expected = {f"bin/{program}" for program in [*programs, "tandem-model"]}
            expected |= {f"share/bash-completion/completions/{program}" for program in programs}
            expected |= {f"share/fish/vendor_completions.d/{program}.fish" for program in programs}
            expected |= {"share/zsh/site-functions/_tandem", "share/doc/tandem/LICENSE"}
            self.assertEqual(there - {"lib/libtandem_torch.so"}, expected)
            built = (services.BINARIES.parent / "lib/libtandem_torch.so").exists()
            self.assertEqual("lib/libtandem_torch.so" in there, built)
            done = subprocess.run([f"{folder}/bin/tandem", "serve", "--help"], capture_output=True, text=True,
                                  check=True)
            self.assertIn("--target-model", done.stdout, "it finds the program beside it")


if __name__ == "__main__":
    unittest.main()
