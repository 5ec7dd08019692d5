"""Prints the software bill of materials of the gateway in CycloneDX: the crates of its default features."""

import json
import os
import subprocess
from datetime import datetime, timezone


def output(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout


def component(package, checksums):
    name, version = package["name"], package["version"]
    purl = f"pkg:cargo/{name}@{version}"
    result = {"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl}
    if package["description"]:
        result["description"] = package["description"].strip()
    if package["license"]:
        result["licenses"] = [{"expression": package["license"].replace("/", " OR ")}]
    if package["repository"]:
        result["externalReferences"] = [{"type": "vcs", "url": package["repository"]}]
    if (name, version) in checksums:
        result["hashes"] = [{"alg": "SHA-256", "content": checksums[name, version]}]
    return result


def checksums():
    """Reads the checksums of packages from Cargo.lock."""
    entries, found = open("Cargo.lock", encoding="utf-8").read().split("[[package]]")[1:], {}
    for entry in entries:
        fields = dict(line.split(" = ", 1) for line in entry.splitlines() if " = " in line)
        if "checksum" in fields:
            found[json.loads(fields["name"]), json.loads(fields["version"])] = json.loads(fields["checksum"])
    return found


host = next(line.split()[1] for line in output("rustc", "-vV").splitlines() if line.startswith("host:"))
metadata = json.loads(output("cargo", "metadata", "--locked", "--format-version=1", "--filter-platform", host))
packages = {package["id"]: package for package in metadata["packages"]}
nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
root = metadata["resolve"]["root"]


tree = output("cargo", "tree", "--locked", "--package=tollgate", "--edges=normal,build", "--prefix=none", "--format={p}")
selected = {tuple(line.split()[:2]) for line in tree.splitlines()}


def used(node):
    """Returns the packages that end in the binary, or that build it. `cargo metadata` also has those of other features."""
    found = {dep["pkg"] for dep in nodes[node]["deps"] if any(kind["kind"] != "dev" for kind in dep["dep_kinds"])}
    return [other for other in found if (packages[other]["name"], "v" + packages[other]["version"]) in selected]


reached, waiting = set(), [root]
while waiting:
    node = waiting.pop()
    if node not in reached:
        reached.add(node)
        waiting += used(node)
known = checksums()
components = {node: component(packages[node], known) for node in reached}
refs = {node: components[node]["bom-ref"] for node in reached}
time = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc)
bom = {
    "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
    "bomFormat": "CycloneDX",
    "specVersion": "1.5",
    "version": 1,
    "metadata": {
        "timestamp": time.isoformat().replace("+00:00", "Z"),
        "component": {**components.pop(root), "type": "application"},
        "properties": [{"name": "commit", "value": os.environ.get("TOLLGATE_COMMIT", "")}],
    },
    "components": sorted(components.values(), key=lambda entry: entry["bom-ref"]),
    "dependencies": sorted(
        ({"ref": refs[node], "dependsOn": sorted(refs[other] for other in used(node))} for node in reached),
        key=lambda entry: entry["ref"],
    ),
}
print(json.dumps(bom, indent=2))
