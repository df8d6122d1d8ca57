"""Prometheus' configuration and rules, by its own tool: they are valid, and each alert fires on
what it is for."""

import re
import subprocess
import unittest

import services
from services import ROOT

CONFIGURATION = ROOT / "observability/prometheus"
ALERTS = ROOT / "tests/observability/alerts.yml"


class RulesTest(unittest.TestCase):
    def promtool(self, *words):
        done = subprocess.run([services.tool("promtool"), *map(str, words)], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_configuration_and_rules_are_valid(self):
        self.promtool("check", "config", CONFIGURATION / "prometheus.yml")
        self.promtool("check", "rules", CONFIGURATION / "rules.yml")

    def test_alerts_fire_on_what_they_are_for(self):
        self.promtool("test", "rules", ALERTS)

    def test_no_alert_is_without_a_test(self):
        alerts = set(re.findall(r"- alert: (\w+)", (CONFIGURATION / "rules.yml").read_text()))
        fire = set(re.findall(r"- alertname: (\w+)\n\s+eval_time: \w+\n\s+exp_alerts:\n", ALERTS.read_text()))
        self.assertEqual(alerts, fire)


if __name__ == "__main__":
    services.tool("promtool")
    unittest.main(verbosity=2)
