#!/usr/bin/env python3
"""Every expression of every dashboard and rule, asked of a real Prometheus that scrapes a loaded hydrantd. Ours lie in deploy/grafana;
vLLM's are published with vLLM and are not copied here: put them where VLLMS says. Exit 77: skipped."""

import math
import re
import shutil
import sys
import tempfile
import time
import unittest

import promql
import prometheus_process
import serving
import traffic
from replicas import wait_for

RULES = sorted((serving.ROOT / "deploy" / "prometheus").glob("hydrant_*.yml"))
OURS = sorted((serving.ROOT / "deploy" / "grafana" / "dashboards").glob("*.json"))
VLLMS = sorted((serving.ROOT.parent / "shared" / "data" / "grafana").glob("vllm_*.json"))
LOAD_S = 14  # at least; until every panel is fed on a machine where that takes longer
LOAD_MAX_S = 200
WINDOW = "5s"  # of rates: what Grafana would make of $__rate_interval at this scrape interval

# Expressions that stay at zero, by a part of them, and why. Everything else has to be above zero some time.
ZERO = {
    "hydrant_stalls_total": "a stall is a defect",
    "hydrant_steps_lost_total": "so is a step without memory",
    "vllm:num_preemptions_total": "the server under test has no swap space",
    "hydrant_swap": "the same",
    "hydrant_session_log_errors_total": "the disk is well",
    "hydrant_session_kv_errors_total": "the same",
    "hydrant_session_kv_rejected_total": "the same",
    "hydrant_session_kv_evicted_total": "there is room on it",
    "hydrant_session_kv_passed_total": "the same",
    "hydrant_session_log_damaged_total": "the same",
    "hydrant_session_log_read_only": "the same",
    "hydrant_parks_lost_total": "what makes room is in a file",
    "hydrant_work_rejected_total": "nobody asks for so much beside generations",
    "hydrant_kv_logprob_gap": "it is below zero",
}


def finite(points):
    return [value for series in points for _, value in series if math.isfinite(value)]


def lack(expr, points):
    """What an expression's values lack; empty: nothing."""
    if not points:
        return "no data"
    is_zero = max(points) <= 0 and not any(part in expr for part in ZERO)
    return "nothing but zeros" if is_zero else ""


class Live(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = serving.folder("prometheus")
        sessions = tempfile.mkdtemp(dir=folder)  # mode 0700, as a session directory has to be
        cls.addClassCleanup(shutil.rmtree, sessions)
        flags = (*traffic.FLAGS, "--session-dir", sessions, "--session-dir-unsafe", "--kv-audit", 1)
        cls.server = serving.TenantServer(folder, traffic.TENANTS, flags)
        cls.addClassCleanup(cls.server.stop)
        # Before it has anything else to do.
        cls.server.complete("chats", prompt=list(range(300, 400)), max_tokens=8, ignore_eos=True, kv={"policy": "h2o", "budget": 32})
        wait_for("a turn is audited", lambda: cls.server.metric("hydrant_kv_audits_total", result="done"))
        cls.address = cls.server.admin.removeprefix("http://")
        cpu = cls.server.cpu_s()
        with traffic.Traffic(cls.server) as load:
            # A rule that looks at who has waited throughout would see a moment before, when nobody did.
            wait_for("batch waits", lambda: load.errors or cls.server.metric("hydrant_waiting", tenant="batch", reason="capacity") > 0)
            cls.prometheus = prometheus_process.PrometheusProcess(folder, cls.address, serving.ADMIN_KEY, RULES)
            cls.addClassCleanup(cls.prometheus.stop)
            cls.begin = time.time()
            time.sleep(LOAD_S)
            cls.end = time.time()
            while cls.hungry() and not load.errors and cls.end < cls.begin + LOAD_MAX_S:
                time.sleep(2)
                cls.end = time.time()
        load.check()
        print(f"requests: {load.counts}; the server took {cls.server.cpu_s() - cpu:.1f} s", file=sys.stderr)

    @classmethod
    def choices(cls, variable, values):
        """What Grafana's list of choices for a variable would hold."""
        query = promql.query_of(variable)
        if variable["type"] == "custom":
            return [choice.split(":")[0].strip() for choice in re.split(r"[,\n]", query)]
        if variable["type"] != "query" or not query:
            return []
        selector, label = promql.label_values(promql.substituted(query, values))
        return cls.prometheus.api(f"label/{label}/values", **({"match[]": selector} if selector else {}))

    @classmethod
    def seconds(cls):
        return math.ceil(cls.end - cls.begin)

    @classmethod
    def values_of(cls, dashboard):
        """What Grafana puts into the expressions: all of what may be chosen, or the first of it."""
        values = {"__rate_interval": WINDOW, "__interval": WINDOW, "__range": f"{cls.seconds()}s"}
        for variable in dashboard.variables:
            choices = cls.choices(variable, values)
            if variable["type"] == "query" and promql.query_of(variable):
                assert choices, f"{dashboard.title}: nothing to choose for ${variable['name']}"
            if choices:
                values[variable["name"]] = promql.all_of(variable, choices) if variable.get("includeAll") else choices[0]
        return values

    @classmethod
    def points(cls, expr, values):
        return finite(cls.prometheus.range(promql.substituted(expr, values), cls.begin, cls.end))

    @classmethod
    def hungry(cls):
        """Whether a panel is not fed yet."""
        for path in (*OURS, *VLLMS):
            dashboard = promql.Dashboard(path)
            values = cls.values_of(dashboard)
            if any(lack(expr, cls.points(expr, values)) for panel in dashboard.panels for expr in panel.expressions):
                return True
        return False

    def check_dashboard(self, path):
        dashboard = promql.Dashboard(path)
        values = self.values_of(dashboard)
        for panel in dashboard.panels:
            self.assertTrue(panel.expressions, f"{panel.name} asks nothing")
            for expr in panel.expressions:
                with self.subTest(panel=panel.name, expr=expr):
                    self.assertEqual(lack(expr, self.points(expr, values)), "")

    def test_every_panel_of_ours_is_fed(self):
        self.assertEqual(len(OURS), 4)
        for path in OURS:
            self.check_dashboard(path)

    def test_all_servers_are_ours_alone(self):
        """Beside a target that is none of ours, "All" is what choosing our one server is."""
        for path in OURS:
            dashboard = promql.Dashboard(path)
            every = self.values_of(dashboard)
            ours = every | {"instance": re.escape(self.address).replace("\\", "\\\\")}
            for panel in dashboard.panels:
                for expr in panel.expressions:
                    with self.subTest(panel=panel.name, expr=expr):
                        shown, meant = (self.prometheus.range(promql.substituted(expr, values), self.begin, self.end)
                                        for values in (every, ours))  # fmt: skip
                        self.assertEqual(repr(shown), repr(meant))  # a value may be NaN

    def test_every_panel_of_vllms_dashboards_is_fed(self):
        if not VLLMS:
            self.skipTest("vLLM's dashboards are not in ../shared/data/grafana")
        for path in VLLMS:
            self.check_dashboard(path)

    def test_every_recording_rule_records(self):
        for group in self.prometheus.api("rules")["groups"]:
            for rule in group["rules"]:
                with self.subTest(rule=rule["name"]):
                    self.assertEqual((rule["health"], rule.get("lastError", "")), ("ok", ""))
                    if rule["type"] == "recording":
                        self.assertTrue(finite(self.prometheus.range(rule["name"], self.begin, self.end)), "records nothing")

    def test_every_series_that_an_alert_asks_for_exists(self):
        alerts = [rule for group in self.prometheus.api("rules")["groups"] for rule in group["rules"] if rule["type"] == "alerting"]
        self.assertGreaterEqual(len(alerts), 14)
        names = set(self.prometheus.api("label/__name__/values"))
        for alert in alerts:
            with self.subTest(alert=alert["name"]):
                asked = set(re.findall(r"\b(?:vllm:|hydrant_|process_|scrape_|instance(?:_tenant)?:)\w+(?::\w+)*|\bup\b", alert["query"]))
                self.assertTrue(asked)
                self.assertLessEqual(asked, names)

    def test_prometheus_took_every_scrape_whole(self):
        """Every one that was in time, which a busy machine's need not be: it has a second."""
        took = self.prometheus.value(f'max_over_time(scrape_duration_seconds{{job="hydrant"}}[{self.seconds()}s])')
        failed = 'up{job="hydrant"} == 0 and scrape_duration_seconds{job="hydrant"} < 0.9'
        self.assertIsNone(self.prometheus.value(f"count_over_time(({failed})[{self.seconds()}s:1s])"))
        self.assertEqual(self.prometheus.value(f'max_over_time(up{{job="hydrant"}}[{self.seconds()}s])'), 1)
        print(f"slowest scrape {1e3 * took:.0f} ms", file=sys.stderr)


if __name__ == "__main__":
    if not prometheus_process.installed():
        serving.skip("there is no prometheus, or no promtool (Debian package prometheus; ./hydrant test installs it)")
    serving.folder("prometheus")
    unittest.main(verbosity=2)
