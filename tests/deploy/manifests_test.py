#!/usr/bin/env python3
"""Container, compose and Kubernetes files, read as data: no image is built and no cluster is asked here. What they say of
hydrantd (flags, paths, times, metrics) is tried on the real one; what they say of each other has to fit; and whatever
validator is installed (hadolint, docker-compose, kubectl, kubernetes-validate) has its say."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from replicas import BINARY, OPERATORS, ROOT, Process, Replica, ask, skip, small_model

DEPLOY = ROOT / "deploy"
KUBERNETES = DEPLOY / "kubernetes"
LAYERS = ("base", "cuda", "monitoring", "gateway")
JOB = "hydrant"  # Prometheus' name for it, which the rules know
# Between the end of a drain and the end of the process: a last step, the last bytes.
SPARE_S = 10


def setUpModule():
    global MODEL, HELP
    MODEL = small_model()
    HELP = subprocess.run([BINARY, "serve", "--help-all"], capture_output=True, text=True, check=True).stdout


def tearDownModule():
    shutil.rmtree(MODEL.parent)


def flags_of(words):
    return {word.split("=")[0] for word in words if word.startswith("--")}


def known_flags():
    return set(re.findall(r"--[a-z][a-z-]+", HELP))


def seconds(text):
    """"90s", "15m" or a number."""
    number, unit = re.fullmatch(r"(\d+)(s|m|)", str(text)).groups()
    return int(number) * (60 if unit == "m" else 1)


def run_if_there(test, *command, cwd=None):
    """Runs a validator; a program that is not installed has nothing to say."""
    if shutil.which(command[0]):
        environment = dict(os.environ, GRAFANA_PASSWORD="x")
        done = subprocess.run(list(map(str, command)), capture_output=True, text=True, cwd=cwd, env=environment)
        test.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout
    print(f"{command[0]} is not installed", file=sys.stderr)
    return None


class ContainerFile(unittest.TestCase):
    def setUp(self):
        text = re.sub(r"\\\n", " ", (DEPLOY / "Containerfile").read_text())
        self.lines = [line for line in text.splitlines() if line and not line.startswith("#")]

    def of(self, instruction):
        return [line.split(" ", 1)[1] for line in self.lines if line.startswith(instruction + " ")]

    def test_stages_and_sources_exist(self):
        stages = {match[1] for line in self.of("FROM") if (match := re.search(r" AS (\S+)$", line))}
        for device in ("cpu", "cuda"):
            for line in self.of("FROM"):
                base = line.split()[0].replace("${DEVICE}", device)
                self.assertTrue(base in stages or base.startswith("debian:12"), base)
        for line in self.of("COPY"):
            words = line.split()
            if words[0].startswith("--from="):
                self.assertIn(words[0][len("--from=") :], stages)
            else:
                for source in words[:-1]:
                    self.assertTrue((ROOT / source).exists(), source)

    def test_its_package_lists_are_not_empty(self):
        packages = (DEPLOY / "debian-packages.txt").read_text()
        for line in self.of("RUN"):
            for use in re.findall(r'\$1 == "(\w+)"', line):
                self.assertRegex(packages, rf"(?m)^{use}\s+\S")

    def test_its_command_is_one_hydrantd_takes(self):
        (entry,) = self.of("ENTRYPOINT")
        self.assertLessEqual(flags_of(json.loads(entry)), known_flags())

    def test_hadolint_agrees(self):
        run_if_there(self, "hadolint", DEPLOY / "Containerfile")

    def test_the_health_check_tells_a_server_from_none(self):
        def healthy(*arguments):
            return subprocess.run([DEPLOY / "healthcheck", *map(str, arguments)], capture_output=True).returncode == 0

        replica = Replica(MODEL, "--shutdown-delay-s", 60)
        self.addCleanup(replica.end)
        self.assertTrue(healthy("/health", replica.port))
        self.assertTrue(healthy("/ready", replica.port))
        self.assertFalse(healthy("/nothing", replica.port))
        replica.ask_admin("POST", "/admin/drain")
        self.assertTrue(healthy("/health", replica.port))
        self.assertFalse(healthy("/ready", replica.port))
        replica.end()
        self.assertFalse(healthy("/health", replica.port))


class Compose(unittest.TestCase):
    def setUp(self):
        self.file = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
        self.services = self.file["services"]

    def test_every_service_is_locked_down_and_comes_back(self):
        for name, service in self.services.items():
            self.assertTrue(service["read_only"], name)
            self.assertEqual(service["cap_drop"], ["ALL"], name)
            self.assertIn("no-new-privileges:true", service["security_opt"], name)
            self.assertIn("mem_limit", service, name)
            # With `on-failure` it would not come back when the machine has been restarted.
            self.assertEqual(service["restart"], "unless-stopped", name)
            for port in service.get("ports", []):
                self.assertTrue(port.startswith("127.0.0.1:"), port)
            if name != "network":
                self.assertEqual(service["network_mode"], "service:network", name)
                self.assertIn("healthcheck", service, name)
                self.assertLessEqual(set(service["depends_on"]), set(self.services), name)

    def test_what_is_mounted_is_there(self):
        for name, service in self.services.items():
            for volume in service.get("volumes", []):
                source, target, *mode = volume.split(":")
                if source.startswith("."):
                    self.assertEqual(mode, ["ro"], f"{name}: {volume}")
                    if source != "../models":  # fetched, not committed
                        self.assertTrue((DEPLOY / source).is_dir(), f"{name}: {source}")
                else:
                    self.assertIn(source, self.file["volumes"])

    def test_hydrantd_takes_its_command_and_is_given_the_time_to_stop(self):
        service = self.services["hydrant"]
        self.assertLessEqual(flags_of(service["command"]), known_flags())
        times = dict(word.split("=") for word in service["command"] if word.startswith("--shutdown"))
        total = sum(seconds(value) for value in times.values())
        self.assertGreaterEqual(seconds(service["stop_grace_period"]), total + SPARE_S)

    def test_docker_compose_agrees(self):
        files = ["-f", "compose.yaml"], ["-f", "compose.yaml", "-f", "compose.cuda.yaml"]
        for arguments in files:
            run_if_there(self, "docker-compose", *arguments, "config", "--quiet", cwd=DEPLOY)


class Envoy(unittest.TestCase):
    """What is tried on an Envoy only where there is one (tests/deploy/gateways)."""

    def setUp(self):
        (listener,) = yaml.safe_load((DEPLOY / "envoy" / "envoy.yaml").read_text())["static_resources"]["listeners"]
        self.clients = listener["filter_chains"][0]["filters"][0]["typed_config"]
        self.routes = self.clients["route_config"]["virtual_hosts"][0]["routes"]

    def test_a_whole_answer_is_waited_for(self):
        """Nothing of it is sent before its end: no timeout may be the default, of five minutes or 15 s."""
        self.assertEqual(self.clients["stream_idle_timeout"], "0s")
        self.assertEqual(self.routes[-1]["route"]["timeout"], "0s")

    def test_what_is_the_operators_is_not_passed_on(self):
        *refused, rest = self.routes
        self.assertEqual(rest["match"], {"prefix": "/"})
        found = {route["match"]["path"]: route["direct_response"]["status"] for route in refused}
        self.assertEqual(found, dict.fromkeys(OPERATORS, 404))


def by_name(text):
    """The objects of a file, by (kind, name)."""
    return {(one["kind"], one["metadata"]["name"]): one for one in yaml.safe_load_all(text)}


def documents(layer):
    """The objects of a layer's files, by (kind, name)."""
    kustomization = yaml.safe_load((KUBERNETES / layer / "kustomization.yaml").read_text())
    found = {}
    for name in kustomization["resources"]:
        if name.endswith(".yaml"):
            found |= by_name((KUBERNETES / layer / name).read_text())
    return kustomization, found


def member(of, *path):
    """of[path[0]][path[1]]…; None where a part is missing or empty."""
    for name in path:
        of = (of or {}).get(name)
    return of or None


class Kubernetes(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        kustomization, cls.base = documents("base")
        (cls.labels,) = [label["pairs"] for label in kustomization["labels"]]
        cls.spec = cls.base["Deployment", "hydrant"]["spec"]["template"]["spec"]
        (cls.container,) = cls.spec["containers"]
        cls.config = json.loads((KUBERNETES / "base" / "hydrantd.json").read_text())
        entry = re.search(r"^ENTRYPOINT (.*)$", (DEPLOY / "Containerfile").read_text(), re.MULTILINE)[1]
        cls.command = json.loads(entry) + cls.container["args"]
        cls.server = Process(cls.words(cls.command))
        cls.port = int(cls.server.find(r"\blistening on http://127\.0\.0\.1:(\d+)")[1])

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    @classmethod
    def words(cls, command):
        """The pod's command line, with this machine's paths, on loopback."""
        here = {"hydrantd": str(BINARY), "0.0.0.0": "127.0.0.1", "8000": "0", "$(HYDRANT_MODEL)": str(MODEL)}
        keys = MODEL.with_name("api-key")
        keys.write_text("old-key\nnew-key\n", encoding="utf-8")
        keys.chmod(0o400)
        words = [word.replace("/etc/hydrant", str(KUBERNETES / "base")) for word in command]
        return [here.get(word, word.replace("/run/secrets/hydrant/api-key", str(keys))) for word in words]

    def test_the_pods_command_serves_and_its_probes_are_answered(self):
        ports = {port["name"]: port["containerPort"] for port in self.container["ports"]}
        self.assertEqual(ports, {"http": 8000})
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            get = self.container[probe]["httpGet"]
            self.assertIn(get["port"], ports)
            # A kubelet asks by the pod's address, a gateway by the name clients use.
            for host in ("10.1.2.3:8000", "models.example.com"):
                self.assertEqual(ask(self.port, "GET", get["path"], Host=host)[0], 200, probe)

    def test_its_keys_are_those_of_the_secret(self):
        (keys,) = [volume["secret"] for volume in self.spec["volumes"] if volume["name"] == "keys"]
        (mount,) = [mount["mountPath"] for mount in self.container["volumeMounts"] if mount["name"] == "keys"]
        self.assertIn(f"--api-key-file={mount}/api-key", self.command)
        self.assertEqual(keys["defaultMode"], 0o440, "a mode that others may read by is refused")
        for key, status in (("old-key", 200), ("new-key", 200), ("another", 401)):
            self.assertEqual(ask(self.port, "GET", "/v1/models", Authorization=f"Bearer {key}")[0], status, key)

    def test_a_gpu_adds_a_flag_that_exists(self):
        patches = (KUBERNETES / "cuda" / "kustomization.yaml").read_text()
        self.assertLessEqual(flags_of(re.findall(r"--[a-z-]+", patches)), known_flags())

    def test_a_pod_that_goes_has_the_time_its_drain_takes(self):
        drain = self.config["shutdown_delay_s"] + self.config["shutdown_timeout_s"]
        self.assertGreaterEqual(self.spec["terminationGracePeriodSeconds"], drain + SPARE_S)
        ready = self.container["readinessProbe"]
        noticed = ready["failureThreshold"] * (ready["periodSeconds"] + ready["timeoutSeconds"])
        self.assertGreater(self.config["shutdown_delay_s"], noticed, "requests are served until endpoints are updated")
        stalled = self.container["livenessProbe"]
        self.assertGreater(stalled["periodSeconds"] * stalled["failureThreshold"], 10, "a stall is not yet a death")

    def test_it_needs_no_privilege(self):
        security = self.container["securityContext"]
        self.assertTrue(self.spec["securityContext"]["runAsNonRoot"])
        self.assertIn(f"USER {self.spec['securityContext']['runAsUser']}\n", (DEPLOY / "Containerfile").read_text())
        self.assertTrue(security["readOnlyRootFilesystem"])
        self.assertFalse(security["allowPrivilegeEscalation"])
        self.assertEqual(security["capabilities"]["drop"], ["ALL"])
        self.assertFalse(self.spec["automountServiceAccountToken"])

    # Where objects of these kinds say which pods they mean. Without one a disruption budget means none, a network policy all.
    SELECTORS = {
        "Deployment": ("spec", "selector", "matchLabels"),
        "Service": ("spec", "selector"),
        "PodDisruptionBudget": ("spec", "selector", "matchLabels"),
        "NetworkPolicy": ("spec", "podSelector", "matchLabels"),
        "PodMonitor": ("spec", "selector", "matchLabels"),
        "InferencePool": ("spec", "selector", "matchLabels"),
    }

    def test_what_selects_pods_selects_ours_and_no_others(self):
        """As kustomize renders it; read from the files without it."""
        seen = set()
        for layer in LAYERS:
            rendered = run_if_there(self, "kubectl", "kustomize", KUBERNETES / layer)
            for (kind, name), one in (by_name(rendered) if rendered else documents(layer)[1]).items():
                if kind not in self.SELECTORS:
                    continue
                seen.add(kind)
                self.assertEqual(member(one, *self.SELECTORS[kind]), self.labels, f"{layer}: {kind} {name}")
                if kind == "Deployment":
                    self.assertLessEqual(self.labels.items(), one["spec"]["template"]["metadata"]["labels"].items())
        self.assertEqual(set(self.SELECTORS), seen)

    def test_the_example_of_a_way_out_is_applied_as_it_is_written(self):
        with tempfile.TemporaryDirectory() as folder:
            base = shutil.copytree(KUBERNETES / "base", f"{folder}/base")
            network = (KUBERNETES / "base" / "network.yaml").read_text().replace("  egress: []\n", "")
            network = re.sub(r"(?m)^  # ", "  ", network)
            pathlib.Path(base, "network.yaml").write_text(network)
            rendered = run_if_there(self, "kubectl", "kustomize", base)
        written = by_name(network)["NetworkPolicy", "hydrant"]["spec"]["egress"]
        self.assertTrue(any("to" in peer for peer in written), "it names whom it lets the servers out to")
        if rendered:
            self.assertEqual(by_name(rendered)["NetworkPolicy", "hydrant"]["spec"]["egress"], written)

    def test_names_and_ports_fit_each_other(self):
        service = self.base["Service", "hydrant"]["spec"]["ports"][0]
        self.assertEqual(service["targetPort"], self.container["ports"][0]["name"])
        volumes = {volume["name"] for volume in self.spec["volumes"]}
        self.assertEqual({mount["name"] for mount in self.container["volumeMounts"]}, volumes)
        _, gateway = documents("gateway")
        pool = gateway["InferencePool", "hydrant"]["spec"]
        self.assertEqual(pool["targetPorts"], [{"number": self.container["ports"][0]["containerPort"]}])
        for (kind, name), one in gateway.items():
            if kind == "HTTPRoute":
                self.assertIn(("Gateway", one["spec"]["parentRefs"][0]["name"]), gateway)
                for rule in one["spec"]["rules"]:
                    for extension in rule.get("filters", []):
                        self.assertIn((extension["extensionRef"]["kind"], extension["extensionRef"]["name"]), gateway)
                    for backend in rule.get("backendRefs", []):
                        key = (backend.get("kind", "Service"), backend["name"])
                        self.assertTrue(key in gateway or key in self.base, key)
                        if key[0] == "Service":
                            self.assertEqual(backend["port"], service["port"])
        (target,) = gateway["BackendTrafficPolicy", "hydrant-sessions"]["spec"]["targetRefs"]
        self.assertIn((target["kind"], target["name"]), gateway)
        header = gateway["BackendTrafficPolicy", "hydrant-sessions"]["spec"]["loadBalancer"]["consistentHash"]["header"]
        (match,) = gateway["HTTPRoute", "hydrant-sessions"]["spec"]["rules"][0]["matches"][0]["headers"]
        self.assertEqual(header["name"], match["name"])

    def test_what_is_the_operators_is_not_passed_on(self):
        """Of the rules of all routes that match, the Gateway API takes one of an exact path first."""
        _, gateway = documents("gateway")
        rules = [rule for (kind, _), one in gateway.items() if kind == "HTTPRoute" for rule in one["spec"]["rules"]]
        said = gateway.get(("HTTPRouteFilter", "not-found"))
        for path in OPERATORS:
            fits = {"Exact": [], "PathPrefix": []}
            for rule in rules:
                for match in rule["matches"]:
                    if path == match["path"]["value"] or match["path"]["type"] != "Exact" and path.startswith(match["path"]["value"]):
                        fits[match["path"]["type"]].append(rule)
            for rule in fits["Exact"] or fits["PathPrefix"]:
                self.assertNotIn("backendRefs", rule, path)
                self.assertEqual([one["extensionRef"]["name"] for one in rule["filters"]], ["not-found"])
                self.assertEqual(said["spec"]["directResponse"]["statusCode"], 404)

    def test_what_is_scaled_on_is_measured(self):
        _, monitoring = documents("monitoring")
        rules = yaml.safe_load((KUBERNETES / "monitoring" / "adapter-rules.yaml").read_text())["rules"]
        made = {rule["name"]["as"] for rule in rules}
        metrics = monitoring["HorizontalPodAutoscaler", "hydrant"]["spec"]["metrics"]
        self.assertEqual({metric["pods"]["metric"]["name"] for metric in metrics}, made)
        exposed = ask(self.port, "GET", "/metrics")[1]
        wanted = {re.search(r'__name__="([^"]+)"', rule["seriesQuery"])[1] for rule in rules}
        # What the endpoint picker of the inference gateway reads, besides.
        pool = (KUBERNETES / "gateway" / "inference-pool.yaml").read_text()
        contract = set(re.findall(r"vllm:\w+", pool))
        self.assertEqual(len(contract), 4)
        labels = self.base["Deployment", "hydrant"]["spec"]["template"]["metadata"]["labels"]
        self.assertEqual({name.split(":")[0] for name in contract}, {labels.get("llm-d.ai/engine-type")})
        for name in wanted | contract:
            self.assertRegex(exposed, rf"(?m)^{name}[{{ ]")
        monitor = monitoring["PodMonitor", "hydrant"]["spec"]
        # The rules know the job by a name; without a label for it, it would be that of namespace and monitor.
        self.assertEqual(self.labels[monitor["jobLabel"]], JOB)
        self.assertEqual(monitor["podMetricsEndpoints"][0]["port"], self.container["ports"][0]["name"])

    def test_the_operators_rules_are_those_of_prometheus(self):
        made = subprocess.run([sys.executable, "-B", KUBERNETES / "monitoring" / "make_rule.py", "--check"], capture_output=True)
        self.assertEqual(made.returncode, 0, "not up to date; run deploy/kubernetes/monitoring/make_rule.py")
        _, monitoring = documents("monitoring")
        files = [yaml.safe_load((DEPLOY / "prometheus" / f"hydrant_{name}.yml").read_text()) for name in ("recording", "alerts")]
        groups = [group for file in files for group in file["groups"]]
        self.assertEqual(monitoring["PrometheusRule", "hydrant"]["spec"]["groups"], groups)
        named = {job for group in groups for rule in group["rules"] for job in re.findall(r'\bjob="([^"]*)"', rule["expr"])}
        (scraped,) = yaml.safe_load((DEPLOY / "prometheus" / "prometheus.yml").read_text())["scrape_configs"]
        self.assertEqual(named, {scraped["job_name"]})
        self.assertEqual(named, {JOB})

    def test_kustomize_and_the_schemas_agree(self):
        for layer in LAYERS:
            rendered = run_if_there(self, "kubectl", "kustomize", KUBERNETES / layer)
            if rendered is None:
                return
            with tempfile.NamedTemporaryFile("w", suffix=".yaml") as file:
                file.write(rendered)
                file.flush()
                # Kinds that are not Kubernetes' own have no schema there.
                run_if_there(self, "kubernetes-validate", "--strict", "--quiet", "--no-warn", file.name)


if __name__ == "__main__":
    try:
        import yaml
    except ImportError:
        skip("Python has no yaml (package python3-yaml)")
    unittest.main(verbosity=2, warnings="ignore")
