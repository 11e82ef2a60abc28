#!/usr/bin/env python3
"""What can be said of dashboards and rules without a server: they are what their program makes, Grafana finds what it needs in them,
everything is explained, and promtool is content. Standard library only; what promtool does is skipped where it is not installed."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "bench"))

import operations
import promql
import series

GRAFANA, PROMETHEUS = ROOT / "deploy" / "grafana", ROOT / "deploy" / "prometheus"
OPERATIONS = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
BUILT_IN = {"__rate_interval", "__interval", "__range", "__all"}  # Grafana's
UNITS = {"short", "s", "bytes", "percentunit", "ops", "reqps"}


def dashboards():
    return [promql.Dashboard(path) for path in sorted((GRAFANA / "dashboards").glob("*.json"))]


def overlap(one, other):
    return all(one[side] < other[side] + other[size] and other[side] < one[side] + one[size] for side, size in ("xw", "yh"))


class Dashboards(unittest.TestCase):
    def test_they_are_what_their_program_makes(self):
        made = subprocess.run([sys.executable, "-B", GRAFANA / "make_dashboards.py", "--check"], capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, f"not up to date: {made.stdout}; run deploy/grafana/make_dashboards.py")

    def test_a_dashboard_has_what_an_import_needs(self):
        titles = set()
        for dashboard in dashboards():
            have = dashboard.json
            self.assertRegex(have["uid"], r"^[a-z0-9-]{1,40}$")
            self.assertNotIn("id", have, "that is the database's")
            self.assertGreaterEqual(have["schemaVersion"], 38)
            self.assertNotIn(have["title"], titles)
            titles.add(have["title"])
            self.assertEqual(dashboard.variables[0]["type"], "datasource")
            self.assertEqual({link["type"] for link in have["links"]}, {"dashboards"})
            self.assertIn(have["title"], OPERATIONS, "docs/operations.md says what it is for")

    def test_a_panel_has_a_place_a_unit_a_description_and_answers(self):
        for dashboard in dashboards():
            panels = dashboard.json["panels"]
            self.assertEqual([panel["id"] for panel in panels], list(range(1, len(panels) + 1)))
            for i, panel in enumerate(panels):
                place = panel["gridPos"]
                self.assertLessEqual(place["x"] + place["w"], 24)
                self.assertFalse([other["title"] for other in panels[:i] if overlap(place, other["gridPos"])], panel["title"])
                if panel["type"] == "row":
                    continue
                with self.subTest(dashboard=dashboard.title, panel=panel["title"]):
                    self.assertIn(panel["type"], {"timeseries", "stat", "heatmap"})
                    self.assertGreater(len(panel["description"]), 20)
                    self.assertEqual(panel["datasource"], {"type": "prometheus", "uid": "${datasource}"})
                    unit = panel["options"]["yAxis"]["unit"] if panel["type"] == "heatmap" else panel["fieldConfig"]["defaults"]["unit"]
                    self.assertIn(unit, UNITS)
                    references = [target["refId"] for target in panel["targets"]]
                    self.assertEqual(len(references), len(set(references)))
                    self.assertTrue(references)
                    for target in panel["targets"]:
                        self.assertEqual(target["datasource"], panel["datasource"])
                        self.assertIn('instance=~"$instance"', target["expr"])
                        if panel["type"] == "heatmap":
                            self.assertEqual(target["format"], "heatmap")

    def test_variables_are_defined_and_used(self):
        for dashboard in dashboards():
            defined = {variable["name"] for variable in dashboard.variables}
            used = promql.references(json.dumps(dashboard.json)) - BUILT_IN
            self.assertEqual(used, defined, dashboard.title)

    def test_they_ask_for_series_that_exist(self):
        names = set(series.AUDITED)
        for name, (kind, _, _) in series.table(4096, ["a"]).items():
            names |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
        for dashboard in dashboards():
            for panel in dashboard.panels:
                for expr in panel.expressions:
                    asked = set(re.findall(r"\b(?:vllm:|hydrant_|process_)\w+", expr))
                    self.assertLessEqual(asked, names, panel.name)


class Rules(unittest.TestCase):
    ALERTS = re.findall(r"- alert: (\w+)", (PROMETHEUS / "hydrant_alerts.yml").read_text(encoding="utf-8"))

    def promtool(self, *arguments):
        if not shutil.which("promtool"):
            self.skipTest("there is no promtool (Debian package prometheus)")
        ran = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True)
        self.assertEqual(ran.returncode, 0, ran.stdout + ran.stderr)

    def test_every_alert_says_what_to_do_and_is_tested(self):
        text = (PROMETHEUS / "hydrant_alerts.yml").read_text(encoding="utf-8")
        tested = (pathlib.Path(__file__).parent / "rules_test.yml").read_text(encoding="utf-8")
        sections = dict(re.findall(r"^### (\w+)\n(.+(?:\n.+)*)", OPERATIONS, re.MULTILINE))
        self.assertEqual(list(sections), self.ALERTS)
        for alert, severity in zip(self.ALERTS, re.findall(r"severity: (\w+)", text), strict=True):
            self.assertEqual(sections[alert].split(".")[0], severity, alert)
            self.assertIn(f"runbook: docs/operations.md#{alert.lower()}\n", text)
            self.assertRegex(tested, rf"alertname: {alert}\n +exp_alerts:", "no test in which it fires")
            self.assertIn(f"alertname: {alert}}}", tested, "no test in which it does not")

    def test_promtool_finds_the_configuration_sound(self):
        self.promtool("check", "config", PROMETHEUS / "prometheus.yml")
        self.promtool("check", "rules", "--lint=all", "--lint-fatal", *sorted(PROMETHEUS.glob("hydrant_*.yml")))

    def test_alerts_fire_on_their_trouble_and_on_nothing_else(self):
        self.promtool("test", "rules", pathlib.Path(__file__).parent / "rules_test.yml")


class Operations(unittest.TestCase):
    def test_every_series_of_ours_is_explained(self):
        table = OPERATIONS[OPERATIONS.index("## Series") :]
        explained = set(re.findall(r"`(hydrant_\w+)", table))
        ours = {name for name in series.table(4096, ["a"]) if name.startswith("hydrant_")}
        self.assertEqual(explained, ours | set(series.AUDITED))

    def test_a_tenant_costs_what_is_said(self):
        rows = [(kind, labels, buckets) for kind, labels, buckets in series.table(4096, ["a"]).values() if "tenant" in labels[0]]
        named = sum(len(labels) for _, labels, _ in rows)
        samples = sum(len(labels) * (len(buckets) + 3 if kind == "histogram" else 1) for kind, labels, buckets in rows)
        self.assertIn(f"A tenant costs {named} named series, {samples} with buckets", OPERATIONS)

    def test_a_target_that_was_missed_is_called_missed(self):
        section = OPERATIONS[OPERATIONS.index("## How quickly") :].split("\n## ")[0]
        row = r"^\| .+ \| \d+ \| [\d.,]+ \| ([\d.,]+) \| [\d.,]+ \| (\d+) \| (met|missed) \| ([\d.,]+?)(, missed)? \|$"
        rows = re.findall(row, section, re.MULTILINE)
        self.assertEqual(len(rows), section.count("\n| ") - 1, "a row that is not read")  # but its head
        for p99, target, verdict, slower_p99, slower_verdict in rows:
            for value, is_missed in ((p99, verdict == "missed"), (slower_p99, bool(slower_verdict))):
                self.assertEqual(is_missed, float(value.replace(",", "")) >= float(target), f"p99 {value}, target {target}")

    def test_its_bench_fails_where_a_target_is_missed(self):
        for scrape_s, abort_s, code in ((0.01, 0.1, 0), (0.06, 0.1, 1), (0.01, 0.3, 1)):
            nothing = mock.MagicMock()
            with mock.patch.multiple(operations, Server=nothing, Load=nothing, print=mock.DEFAULT, create=True,
                                     measure_scrapes=lambda *_, s=scrape_s: ([s] * 5, 1000), go_away=lambda *_, s=abort_s: s):
                with mock.patch.object(sys, "argv", ["operations"]):
                    self.assertEqual(operations.main(), code, f"scrapes of {scrape_s} s, aborts of {abort_s} s")


if __name__ == "__main__":
    unittest.main(verbosity=2)
