"""What promtool does not know of deploy/: that the dashboard is sound, that alerts say what to do, that every metric
and label they name is one of docs/reference/metrics.md, and that what the Dockerfile, the compose file and the unit name
is there."""

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

DOCKERFILE = pathlib.Path("deploy/Dockerfile")
COMPOSE = pathlib.Path("deploy/compose.yaml")
UNIT = pathlib.Path("deploy/systemd/mai-gateway.service")
ENVIRONMENT = pathlib.Path("deploy/systemd/mai-gateway.env")
SETTINGS = pathlib.Path("docs/reference/configuration.md")
COMMANDS = pathlib.Path("docs/reference/cli.md")

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


def variables_of_the_program():
    """The environment variables that the program itself reads, as its help says."""
    return set(re.findall(r"\bMAI_[A-Z_]+\b", COMMANDS.read_text()))


def dockerfile():
    """Every path that it copies or runs is there, and the compiler is the one of this house."""
    text = DOCKERFILE.read_text()
    channel = re.search(r'^channel = "([^"]+)"', pathlib.Path("rust-toolchain.toml").read_text(), re.M).group(1)
    compiler = re.search(r"^FROM rust:(\d[\d.]*)", text, re.M)
    if not compiler or compiler.group(1) != channel:
        problems.append(f"{DOCKERFILE}: the image of Rust is not that of rust-toolchain.toml, {channel}")
    ignored = pathlib.Path(f"{DOCKERFILE}.dockerignore").read_text().split()
    binary = re.search(r'\[\[bin\]\]\nname = "([^"]+)"', pathlib.Path("crates/mai/Cargo.toml").read_text()).group(1)
    installed = None
    for line in re.findall(r"^COPY +(.*)$", text, re.M):
        words = line.split()
        stage = words.pop(0) if words[0].startswith("--from=") else None
        *sources, target = words
        for source in sources:
            if stage:
                installed = target
                if pathlib.PurePosixPath(source).name != binary or "/target/release/" not in source:
                    problems.append(f"{DOCKERFILE}: `{source}` is not what the first stage builds, target/release/{binary}")
            elif source != "." and not list(pathlib.Path(".").glob(source)):
                problems.append(f"{DOCKERFILE}: there is no `{source}` to copy")
            elif source in ignored:
                problems.append(f"{DOCKERFILE}: `{source}` is kept out by the .dockerignore")
    entry = re.search(r'^ENTRYPOINT \["([^"]+)"', text, re.M)
    if not entry or entry.group(1) != installed:
        problems.append(f"{DOCKERFILE}: ENTRYPOINT is not what is copied, `{installed}`")
    # What else is read at compile time must not be kept out.
    for wanted in ["Cargo.toml", "Cargo.lock", "crates"]:
        if wanted in ignored or f"**/{wanted}" in ignored:
            problems.append(f"{DOCKERFILE}: `{wanted}` is kept out by the .dockerignore")
    user = re.search(r"^USER +(\S+)", text, re.M)
    if not user or user.group(1) in ("0", "root"):
        problems.append(f"{DOCKERFILE}: it runs as root")


def compose(known):
    """Mounted files are there, ports are those of the image, and variables are known to whoever gets them."""
    text = COMPOSE.read_text()
    for source in re.findall(r"^ +- (\./[^:]+):", text, re.M):
        if not (COMPOSE.parent / source).exists():
            problems.append(f"{COMPOSE}: there is no `{source}` to mount")
    gateway = re.search(r"^  gateway:\n(.*?)(?=^  \w|^\w)", text, re.M | re.S).group(1)
    build = dict(re.findall(r"(context|dockerfile): ([^ ,}]+)", gateway))
    if not (COMPOSE.parent / build["context"] / build["dockerfile"]).is_file():
        problems.append(f"{COMPOSE}: there is no `{build['dockerfile']}` in `{build['context']}`")
    mounted = [COMPOSE.parent / source for source in re.findall(r"^ +- (\./[^:]+):/etc/mai-gateway/", gateway, re.M)]
    written = "".join(re.sub(r"^ *#.*$", "", path.read_text(), flags=re.M) for path in mounted if path.exists())
    named = set(re.findall(r"\$\{(\w+)", written))
    block = re.search(r"^    environment:\n((?:^      .*\n)+)", gateway, re.M).group(1)
    given = set(re.findall(r"^      (\w+):", block, re.M))
    for name in given - known - named:
        problems.append(f"{COMPOSE}: `{name}` is known neither to the program nor to its configuration")
    for name in named - given:
        problems.append(f"{COMPOSE}: the configuration names `${{{name}}}`, and nobody gives it to the gateway")
    exposed = set(re.search(r"^EXPOSE (.*)$", DOCKERFILE.read_text(), re.M).group(1).split())
    for port in re.findall(r'"(?:[\d.]+:)?\d+:(\d+)"', re.search(r"ports: (\[.*\])", gateway).group(1)):
        if port not in exposed:
            problems.append(f"{COMPOSE}: port {port} is none of the image's")
    if not re.search(r'"127\.0\.0\.1:8081:8081"', gateway):
        problems.append(f"{COMPOSE}: the admin port must be published on the loopback alone")


def unit(known):
    """What systemd gives the program is known to it."""
    for name in re.findall(r"^#?(MAI_\w+)=", ENVIRONMENT.read_text(), re.M):
        if name not in known:
            problems.append(f"{ENVIRONMENT}: the program knows no `{name}`")
    if f"EnvironmentFile=/etc/mai-gateway/{ENVIRONMENT.name}" not in UNIT.read_text():
        problems.append(f"{UNIT}: it does not read {ENVIRONMENT.name}")


def stops():
    """Whoever stops the gateway waits for its grace, and for what it writes after that."""
    writing = 30
    grace = int(re.search(r"^\| `shutdown_grace` \|[^|]*\| `(\d+)s` \|", SETTINGS.read_text(), re.M).group(1))
    for path, key in [(COMPOSE, "stop_grace_period: "), (UNIT, "TimeoutStopSec=")]:
        wait = re.search(rf"{key}(\d+)s", path.read_text())
        if not wait or int(wait.group(1)) < grace + writing:
            problems.append(f"{path}: `{key.strip()}` must be {grace + writing}s or more: `shutdown_grace`, and what is written after it")


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
dockerfile()
compose(variables_of_the_program())
unit(variables_of_the_program())
stops()
if sys.argv[1:2] == ["--live"]:
    ask(sys.argv[2].rstrip("/"), queries)
for problem in problems:
    print(problem, file=sys.stderr)
if problems:
    sys.exit(1)
print(f"deploy: the dashboard asks {len(queries)} queries; every metric and label in them and in the rules is one of the reference")
