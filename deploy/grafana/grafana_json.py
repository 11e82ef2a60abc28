"""Panels and dashboards as Grafana 10 and newer import them: plain functions that return its JSON. What a dashboard shows is in
make_dashboards.py."""

SCHEMA_VERSION = 39  # Grafana 10.4's; newer ones migrate it when they load it
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
GRID_COLUMNS = 24
GREEN, YELLOW, RED = "green", "yellow", "red"


def thresholds(*steps):
    """(value, colour) pairs from low to high; below the first it is green, unless that says otherwise."""
    return {"mode": "absolute", "steps": [{"value": None, "color": GREEN}] + [{"value": value, "color": color} for value, color in steps]}


def target(number, expr, legend, **fields):
    return {
        "refId": chr(ord("A") + number),
        "datasource": DATASOURCE,
        "editorMode": "code",
        "expr": expr,
        "legendFormat": legend,
        "range": True,
    } | fields  # fmt: skip


class Panel:
    """A panel without its place; `targets` are (expression, legend) pairs. `about` says what is shown, and what to do about it."""

    def __init__(self, kind, title, about, targets, unit="short", width=8, height=8, steps=(), **options):
        self.kind, self.title, self.about, self.targets = kind, title, about, targets
        self.unit, self.width, self.height, self.steps, self.options = unit, width, height, steps, options

    def json(self):
        build = {"timeseries": self._timeseries, "stat": self._stat, "heatmap": self._heatmap}[self.kind]
        head = {"type": self.kind, "title": self.title, "description": self.about, "datasource": DATASOURCE}
        return head | build()

    def _defaults(self, custom=None):
        defaults = {"unit": self.unit, "thresholds": thresholds(*self.steps), "color": {"mode": "palette-classic"}, "min": 0}
        if self.unit == "percentunit":
            defaults["max"] = 1
        if custom:
            defaults["custom"] = custom
        return defaults

    def _timeseries(self):
        stacked = self.options.get("stacked", False)
        custom = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 40 if stacked else 8,
            "showPoints": "never",
            "spanNulls": False,
            "stacking": {"mode": "normal" if stacked else "none", "group": "A"},
            "thresholdsStyle": {"mode": "line" if self.steps else "off"},
        }
        return {
            "fieldConfig": {"defaults": self._defaults(custom), "overrides": []},
            "options": {
                "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
                "tooltip": {"mode": "multi", "sort": "desc"},
            },
            "targets": [target(i, expr, legend) for i, (expr, legend) in enumerate(self.targets)],
        }

    def _stat(self):
        defaults = self._defaults() | {"color": {"mode": "thresholds"}}
        return {
            "fieldConfig": {"defaults": defaults, "overrides": []},
            "options": {
                "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
                "colorMode": "value" if self.steps else "none",
                "graphMode": "area",
                "justifyMode": "auto",
                "orientation": "auto",
                "textMode": "auto",
            },
            "targets": [target(i, expr, legend) for i, (expr, legend) in enumerate(self.targets)],
        }

    def _heatmap(self):
        return {
            "fieldConfig": {"defaults": {"custom": {"scaleDistribution": {"type": "linear"}}}, "overrides": []},
            "options": {
                "calculate": False,
                "cellGap": 1,
                "color": {"mode": "scheme", "scheme": "Oranges", "steps": 64, "exponent": 0.5, "fill": "dark-orange"},
                "filterValues": {"le": 1e-9},
                "legend": {"show": True},
                "rowsFrame": {"layout": "auto"},
                "tooltip": {"mode": "single", "showColorScale": False, "yHistogram": False},
                "yAxis": {"axisPlacement": "left", "unit": self.unit, "reverse": False},
            },
            "targets": [target(i, expr, legend, format="heatmap") for i, (expr, legend) in enumerate(self.targets)],
        }


def query_variable(name, label, expr):
    """A choice of one or more values of a label, all of them by default. "All" has no allValue, so it is the list of what may be
    chosen: .+ would be everything else that Prometheus scrapes, too."""
    return {
        "type": "query", "name": name, "label": label, "datasource": DATASOURCE, "definition": expr,
        "query": {"qryType": 1, "query": expr, "refId": "PrometheusVariableQueryEditor-VariableQuery"},
        "current": {"selected": True, "text": ["All"], "value": ["$__all"]},
        "includeAll": True, "multi": True, "refresh": 2, "regex": "", "sort": 1, "hide": 0, "options": [],
    }  # fmt: skip


def datasource_variable():
    return {
        "type": "datasource", "name": "datasource", "label": "Prometheus", "query": "prometheus", "current": {},
        "includeAll": False, "multi": False, "refresh": 1, "regex": "", "hide": 0, "options": [],
    }  # fmt: skip


def placed(rows):
    """`rows` are (title, panels): a row panel each, its panels below from left to right, a new line where they are full."""
    panels, top = [], 0
    for title, contents in rows:
        panels.append({"type": "row", "title": title, "collapsed": False, "panels": [], "gridPos": {"x": 0, "y": top, "w": GRID_COLUMNS, "h": 1}})
        top += 1
        left = height = 0
        for panel in contents:
            if left + panel.width > GRID_COLUMNS:
                left, top, height = 0, top + height, 0
            panels.append(panel.json() | {"gridPos": {"x": left, "y": top, "w": panel.width, "h": panel.height}})
            left, height = left + panel.width, max(height, panel.height)
        top += height
    for number, panel in enumerate(panels, start=1):
        panel["id"] = number
    return panels


def dashboard(uid, title, about, variables, rows):
    return {
        "uid": uid,
        "title": title,
        "description": about,
        "tags": ["hydrant"],
        "schemaVersion": SCHEMA_VERSION,
        "version": 1,
        "editable": True,
        "graphTooltip": 1,  # one crosshair for all panels
        "refresh": "10s",
        "time": {"from": "now-1h", "to": "now"},
        "timepicker": {},
        "timezone": "",
        "weekStart": "",
        "fiscalYearStartMonth": 0,
        "liveNow": False,
        "links": [{
            "type": "dashboards", "title": "Hydrant", "tags": ["hydrant"], "asDropdown": True, "includeVars": True, "keepTime": True,
            "icon": "external link", "tooltip": "", "targetBlank": False, "url": "",
        }],
        "annotations": {"list": [{
            "builtIn": 1, "datasource": {"type": "grafana", "uid": "-- Grafana --"}, "enable": True, "hide": True,
            "iconColor": "rgba(0, 211, 255, 1)", "name": "Annotations & Alerts", "type": "dashboard",
        }]},
        "templating": {"list": variables},
        "panels": placed(rows),
    }  # fmt: skip
