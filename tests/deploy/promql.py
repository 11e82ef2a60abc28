"""Panels of Grafana dashboards and their PromQL, with variables replaced as Grafana would. Standard library only."""

import json
import re


class Panel:
    def __init__(self, dashboard, json_of):
        self.dashboard, self.json = dashboard, json_of
        self.name = f"{dashboard} / {json_of.get('title', '')}"
        self.expressions = [target["expr"] for target in json_of.get("targets", []) if target.get("expr", "").strip()]


class Dashboard:
    def __init__(self, path):
        self.json = json.loads(path.read_text(encoding="utf-8"))
        self.title = self.json["title"]
        self.variables = self.json.get("templating", {}).get("list", [])
        self.panels = [Panel(self.title, one) for one in flat(self.json["panels"]) if one["type"] != "row"]


def flat(panels):
    for panel in panels:
        yield panel
        yield from flat(panel.get("panels", []))


REFERENCE = re.compile(r"\$\{(\w+)(?::\w+)?\}|\$(\w+)")


def references(text):
    return {one or two for one, two in REFERENCE.findall(text)}


def substituted(text, values):
    """`text` with $name and ${name} replaced; KeyError for one that has no value."""
    return REFERENCE.sub(lambda match: values[match[1] or match[2]], text)


def query_of(variable):
    query = variable.get("query", "")
    return query.get("query", "") if isinstance(query, dict) else query


def all_of(variable, choices):
    """What Grafana writes for "All" of a variable of several values."""
    if variable.get("allValue"):
        return variable["allValue"]
    return "(" + "|".join(re.escape(choice).replace("\\", "\\\\") for choice in choices) + ")"


def label_values(query):
    """(metric selector or None, label) of Grafana's label_values()."""
    match = re.fullmatch(r"label_values\((?:(.+),\s*)?(\w+)\)", query.strip())
    return match.groups() if match else None
