"""The dashboard, the rules and the pages that name metrics, against a real Prometheus that scrapes
the three services."""

import json
import math
import re
import tempfile
import threading
import unittest
import urllib.error
import urllib.parse

import services
from services import ROOT, eventually, http_get

DASHBOARD = ROOT / "observability/grafana/tandem.json"
PROMETHEUS = ROOT / "observability/prometheus"
PAGE = ROOT / "docs/observability.md"
PREFIXES = ("tandem:", "tandem:target_", "tandem:draft_")
# As Grafana does it, with spans of time that fit a scrape a second.
VARIABLES = {"$__rate_interval": "15s", "$__interval": "5s", "$model": ".*", "$orchestrator": ".*",
             "$target": ".*", "$draft": ".*"}
ADDRESSES = {"127.0.0.1:9050": "orchestrator", "127.0.0.1:9051": "draft", "127.0.0.1:9052": "target"}


def names_in(text):
    """Not the mere prefixes."""
    return {name for name in re.findall(r"tandem:[a-z0-9_]+", text) if not name.endswith("_")}


def exported(text):
    """The families of an exposition, as its TYPE lines say."""
    return dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))


class Prometheus(services.Process):
    """With the repository's own configuration, but for addresses and times."""

    def __init__(self, folder, admin):
        text = (PROMETHEUS / "prometheus.yml").read_text()
        for address, name in ADDRESSES.items():
            assert address in text
            text = text.replace(address, admin[name])
        text = re.sub(r"(scrape|evaluation)_interval: \d+s", r"\1_interval: 1s", text)
        text = text.replace("- rules.yml", f"- {PROMETHEUS / 'rules.yml'}")
        with open(f"{folder}/prometheus.yml", "w", encoding="utf-8") as config:
            config.write(text)
        (port,) = services.free_ports(1)
        self.url = f"http://127.0.0.1:{port}/api/v1"
        super().__init__(
            [services.tool("prometheus"), f"--config.file={folder}/prometheus.yml",
             f"--storage.tsdb.path={folder}/data", f"--web.listen-address=127.0.0.1:{port}"], folder, "prometheus")

    def get(self, path, **parameters):
        try:
            answer = http_get(f"{self.url}/{path}?{urllib.parse.urlencode(parameters)}")
        except urllib.error.HTTPError as error:
            assert error.code != 503, "Prometheus is not ready yet"
            raise RuntimeError(f"{path} {parameters}: {error.read().decode()}") from error
        except OSError as error:
            self.check_alive()
            raise AssertionError(f"Prometheus does not answer: {error}") from error
        return json.loads(answer)["data"]

    def query(self, expression):
        return self.get("query", query=expression)["result"]


class Load:
    """Requests of all kinds, one after another, until it is left."""

    def __init__(self, running):
        self.running = running
        self.over = threading.Event()
        self.failure = None
        self.thread = threading.Thread(target=self._run)

    def _run(self):
        try:
            while not self.over.is_set():
                at_once = [self.running.start_request(prompt=f"Chapter {number}") for number in range(3)]
                replies = [services.finish_request(process) for process in at_once]
                replies.append(self.running.request(prompt="The end", stop={"strings": ["a", "e"]}))
                replies.append(self.running.request(speculation={"fixed": 0}, max_tokens=5))
                replies.append(self.running.request(samples=2, sampling={"temperature": 1}, seed=3, max_tokens=20))
                replies.append(self.running.request(speculation={"auto": True, "drafters": ["auto"]}))
                replies += [self.running.request(cache_scope="ZGFzaGJvYXJk", prompt="Once upon a time " * 20)
                            for _ in range(2)]
                for reply in replies:
                    assert reply.ok, reply.output
                refused = self.running.request(max_tokens=4000000000)
                assert not refused.ok and "InvalidArgument" in refused.output, refused.output
        except Exception as failure:  # pylint: disable=broad-except
            self.failure = failure

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        self.thread.join()


class DashboardTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = cls.enterClassContext(tempfile.TemporaryDirectory())
        # So that every metric is there
        cls.services = cls.enterClassContext(services.Services(encrypted=True))
        cls.prometheus = Prometheus(folder, cls.services.admin)
        cls.addClassCleanup(cls.prometheus.stop)
        cls.load = cls.enterClassContext(Load(cls.services))
        cls.board = json.loads(DASHBOARD.read_text())

    def check_has_numbers(self, expression):
        if self.load.failure:
            raise self.load.failure
        result = self.prometheus.query(expression)
        self.assertTrue(result, f"nothing at all: {expression}")
        for series in result:
            self.assertTrue(math.isfinite(float(series["value"][1])), f"{expression}: {series}")

    def panels(self):
        return [panel for panel in self.board["panels"] if panel["type"] != "row"]

    def test_prometheus_scrapes_all_three_and_the_rules_load(self):

        def look():
            targets = self.prometheus.get("targets")["activeTargets"]
            health = {target["labels"]["job"]: (target["health"], target["lastError"]) for target in targets}
            self.assertEqual(health, {f"tandem-{name}": ("up", "") for name in self.services.admin})

        eventually(look)
        groups = eventually(lambda: self.prometheus.get("rules")["groups"])
        self.assertEqual({group["name"] for group in groups}, {"tandem-speculation", "tandem-alerts"})

    def test_every_query_of_the_dashboard_has_numbers(self):
        count = 0
        for panel in self.panels():
            self.assertTrue(panel["targets"], panel["title"])
            for target in panel["targets"]:
                expression = target["expr"]
                for name, value in VARIABLES.items():
                    expression = expression.replace(name, value)
                self.assertNotIn("$", expression, "a variable that this test does not know")
                with self.subTest(panel=panel["title"], query=expression):
                    eventually(lambda query=expression: self.check_has_numbers(query))
                count += 1
        self.assertGreater(count, 50)

    def test_every_variable_has_values(self):
        known = {"datasource"}
        for variable in self.board["templating"]["list"]:
            known.add(variable["name"])
            if variable["type"] != "query":
                continue
            metric, label = re.fullmatch(r"label_values\((\S+), (\w+)\)", variable["definition"]).groups()
            values = eventually(lambda m=metric, l=label: self._values(m, l))
            self.assertEqual(len(values), 1)
        used = set(re.findall(r"\$\{?([a-z]\w*)", json.dumps(self.board["panels"])))
        self.assertLessEqual(used, known)

    def _values(self, metric, label):
        values = self.prometheus.get(f"label/{label}/values", **{"match[]": metric})
        self.assertTrue(values, metric)
        return values

    def test_every_rule_works(self):
        for group in eventually(lambda: self.prometheus.get("rules")["groups"]):
            for rule in group["rules"]:
                with self.subTest(rule=rule["name"]):
                    if rule["type"] == "recording":
                        eventually(lambda name=rule["name"]: self.check_has_numbers(name))
                    else:
                        # Quiet, since all is well; tests/observability/alerts.yml makes each fire.
                        self.assertEqual(self.prometheus.query(rule["query"]), [])
        for rule in (rule for group in self.prometheus.get("rules")["groups"] for rule in group["rules"]):
            self.assertEqual(rule["health"], "ok", rule)

    def test_names_agree_everywhere(self):
        families = {}
        for address in self.services.admin.values():
            families |= exported(http_get(f"http://{address}/metrics"))
        own = {name for name in families if name.startswith("tandem:")}
        self.assertGreater(len(own), 50)
        parts = {f"{name}_{part}" for name in own if families[name] == "histogram"
                 for part in ("bucket", "sum", "count")}
        used = names_in(DASHBOARD.read_text()) | names_in((PROMETHEUS / "rules.yml").read_text())
        self.assertEqual(used - own - parts, set(), "used, but nobody exports it")
        bases = used | {re.sub("_(bucket|sum|count)$", "", name) for name in used & parts}
        self.assertEqual(own - bases, set(), "exported, but neither the dashboard nor a rule shows it")
        page, in_tables = self.names_on_the_page()
        self.assertEqual(page - own - parts, set(), "on the page, but nobody exports it")
        said = page | {prefix + name for prefix in PREFIXES for name in in_tables}
        self.assertEqual(own - said, set(), "exported, but the page does not say what it is")
        for name in in_tables:
            self.assertTrue(own & {prefix + name for prefix in PREFIXES}, f"{name}: on the page, but nobody exports it")

    def names_on_the_page(self):
        """Those with a prefix, and those that stand without one in the tables of the metrics."""
        text = PAGE.read_text()
        metrics = re.search(r"^## Metrics$(.*?)^## ", text, re.MULTILINE | re.DOTALL).group(1)
        in_tables = set()
        for row in re.findall(r"^\| (.*)$", metrics, re.MULTILINE):
            for cell in row.split(" | "):
                in_tables |= set(re.findall(r"`([a-z0-9_]+_[a-z0-9_]+)(?:\{\w+\})?`", cell))
        self.assertGreater(len(in_tables), 30)
        # `finished_reason` is a label; `--flags` and values are not names.
        return names_in(text), in_tables - {"finished_reason"}


if __name__ == "__main__":
    services.tool("grpcurl")
    services.tool("prometheus")
    unittest.main(verbosity=2)
