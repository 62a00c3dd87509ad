"""What promtool does not know of deploy/: that the dashboard is sound, that alerts say what to do, and that every metric
and label they name is one of docs/reference/metrics.md."""

import json
import pathlib
import re
import sys
import urllib.parse
import urllib.request

DASHBOARD = pathlib.Path("deploy/grafana/mai-gateway.json")
RULES = pathlib.Path("deploy/prometheus/rules.yml")
TESTS = pathlib.Path("deploy/prometheus/rules.test.yml")
REFERENCE = pathlib.Path("docs/reference/metrics.md")

problems = []


def metrics():
    """Name to labels, as Prometheus shows them."""
    rows = re.findall(r"^\| `(mai_\w+)` \| (\w+) \| ([^|]*) \|", REFERENCE.read_text(), re.M)
    known = {}
    for name, kind, labels in rows:
        labels = set(re.findall(r"`(\w+)`", labels))
        if kind == "histogram":
            known[name + "_bucket"] = labels | {"le"}
            known[name + "_sum"] = known[name + "_count"] = labels
        else:
            known[name] = labels
    return known


def check_query(where, query, known):
    for name, selector in re.findall(r"\b(mai_\w+)(?:\{([^}]*)\})?", query):
        if name not in known:
            problems.append(f"{where}: there is no metric `{name}`")
            continue
        for label in re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", selector or ""):
            if label not in known[name] | {"instance", "job"}:
                problems.append(f"{where}: `{name}` has no label `{label}`")


def dashboard(known):
    """Checks the dashboard, and gives its queries by panel."""
    board = json.loads(DASHBOARD.read_text())
    variables = {variable["name"]: variable for variable in board["templating"]["list"]}
    for name in ["datasource", "route", "client"]:
        if name not in variables:
            problems.append(f"dashboard: the variable `{name}` is missing")
    queries, ids, taken = [], set(), set()
    for panel in board["panels"]:
        where = f"dashboard, panel `{panel['title']}`"
        if panel["id"] in ids:
            problems.append(f"{where}: its id is another's")
        ids.add(panel["id"])
        place = panel["gridPos"]
        cells = {(x, y) for x in range(place["x"], place["x"] + place["w"]) for y in range(place["y"], place["y"] + place["h"])}
        if place["x"] + place["w"] > 24 or cells & taken:
            problems.append(f"{where}: it lies over another panel, or over the edge")
        taken |= cells
        if panel["type"] == "row":
            continue
        if not panel.get("description"):
            problems.append(f"{where}: it does not say what it shows")
        for target in panel["targets"]:
            for name in re.findall(r"\$\{?(\w+)", target["expr"]):
                if name not in variables and not name.startswith("__"):
                    problems.append(f"{where}: there is no variable `{name}`")
            if target["datasource"]["uid"] != "${datasource}":
                problems.append(f"{where}: it does not ask the data source that is chosen")
            check_query(where, target["expr"], known)
            queries.append((panel["title"], target["expr"]))
    for variable in variables.values():
        if variable["type"] == "query":
            check_query(f"dashboard, variable `{variable['name']}`", variable["definition"].replace(",", " ", 1), known)
    queries += [("annotations", note["expr"]) for note in board["annotations"]["list"]]
    return queries


def rules(known):
    tests = TESTS.read_text()
    for block in re.split(r"\n      - (?=alert:|record:)", RULES.read_text())[1:]:
        kind, name = re.match(r"(alert|record): *(\S+)", block).groups()
        where = f"rule `{name}`"
        expression = re.search(r"\bexpr: *(.*?)(?=\n        \w+:|\Z)", block, re.S).group(1)
        check_query(where, expression, known)
        if kind == "record":
            continue
        # By its name: in an expectation of its own, or among others as `Mai(Usage|Log)Lost`.
        names = re.findall(r"alertname(?:: *|=~?\")([^\s,\"]+)", tests)
        if not any(re.fullmatch(tested, name) for tested in names):
            problems.append(f"{where}: no test in {TESTS} names it")
        for wanted in ["severity:", "summary:", "description:", "action:"]:
            if wanted not in block:
                problems.append(f"{where}: `{wanted}` is missing")


def ask(base, queries):
    """Asks a Prometheus for every query; an error is a problem, an empty answer is told."""
    empty = []
    for title, query in queries:
        for name, value in [("$__rate_interval", "1m"), ("$route", ".*"), ("$client", ".*")]:
            query = query.replace(name, value)
        url = f"{base}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        try:
            with urllib.request.urlopen(url, timeout=20) as answer:
                result = json.load(answer)["data"]["result"]
        except urllib.error.HTTPError as error:
            problems.append(f"`{title}`: {error.read().decode()}: {query}")
            continue
        if not result:
            empty.append(f"{title}: {query}")
    print(f"{len(queries)} queries asked, {len(empty)} without data")
    for line in empty:
        print(f"  without data: {line}")


known = metrics()
queries = dashboard(known)
rules(known)
if sys.argv[1:2] == ["--live"]:
    ask(sys.argv[2].rstrip("/"), queries)
for problem in problems:
    print(problem, file=sys.stderr)
if problems:
    sys.exit(1)
print(f"deploy: the dashboard asks {len(queries)} queries; every metric and label in them and in the rules is one of the reference")
