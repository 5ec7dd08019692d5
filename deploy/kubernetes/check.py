"""Renders the overlays with Kustomize's library and checks the result: check.py TOLLGATE."""

import asyncio
import pathlib
import subprocess
import sys
import tempfile

import kubernetes_validate
import pykustomize
import yaml

HERE = pathlib.Path(__file__).parent
COMMON = ["ConfigMap", "Deployment", "NetworkPolicy", "Service", "Service", "ServiceMonitor"]
REPLICAS = ["HorizontalPodAutoscaler", "PodDisruptionBudget"]
KINDS = {
    "memory": COMMON,
    "volume": [*COMMON, "PersistentVolumeClaim"],
    "redis": [*COMMON, *REPLICAS, "Deployment", "NetworkPolicy", "Service"],
    "redis-cluster": [*COMMON, *REPLICAS],
}
# Resources of the Prometheus operator, which Kubernetes' schema does not have.
WITHOUT_SCHEMA = ["ServiceMonitor"]
# Seconds in which connections are still accepted after SIGTERM, and the default of `server.shutdown-timeout`.
ACCEPTS, SHUTDOWN = 1, 30


def matches(selector, labels):
    return selector.items() <= labels.items()


def check_pod(pod, config):
    """Checks that a pod is restricted, and that it has the time that a drain takes."""
    security = pod["securityContext"]
    assert security["runAsNonRoot"] and security["runAsUser"] > 0, security
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}, security
    assert not pod["automountServiceAccountToken"] and not pod["enableServiceLinks"]
    for container in pod["containers"]:
        security = container["securityContext"]
        assert security["readOnlyRootFilesystem"] and not security["allowPrivilegeEscalation"], security
        assert security["capabilities"] == {"drop": ["ALL"]}, security
        ports = {port["name"] for port in container["ports"]}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            for action in ("httpGet", "tcpSocket"):
                assert container.get(probe, {}).get(action, {}).get("port") in {None, *ports}, probe
        if container["name"] != "tollgate":
            continue
        pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
        setting = lambda key, default: int(str(config.get("server", {}).get(key, default)).removesuffix("s"))
        drain = setting("drain-delay", 0) + ACCEPTS + setting("shutdown-timeout", SHUTDOWN)
        assert pod["terminationGracePeriodSeconds"] > pause + drain, "the drain is longer than the grace period"
        assert f"USER {user(pod)}:" in (HERE / "../../Dockerfile").read_text()


def user(pod):
    return pod["securityContext"]["runAsUser"]


def check_state_file(deployment):
    """Checks that buckets are kept on a volume that the process can write to, and that no second pod waits for."""
    pod = deployment["spec"]["template"]["spec"]
    [container] = [found for found in pod["containers"] if found["name"] == "tollgate"]
    [file] = [argument.partition("=")[2] for argument in container["args"] if argument.startswith("--memory.state-file=")]
    [mount] = [mount for mount in container["volumeMounts"] if mount["mountPath"] == str(pathlib.PurePath(file).parent)]
    [volume] = [volume for volume in pod["volumes"] if volume["name"] == mount["name"]]
    assert "persistentVolumeClaim" in volume and not mount.get("readOnly"), volume
    assert pod["securityContext"]["fsGroup"] == pod["securityContext"]["runAsGroup"], pod["securityContext"]
    assert deployment["spec"]["strategy"] == {"type": "Recreate"}, deployment["spec"]["strategy"]


def check_references(resources):
    """Checks that selectors select pods, and that names of ports and ConfigMaps exist."""
    by_kind = lambda kind: [resource for resource in resources if resource["kind"] == kind]
    pods = [deployment["spec"]["template"] for deployment in by_kind("Deployment")]
    selected = lambda selector: [pod for pod in pods if matches(selector, pod["metadata"]["labels"])]
    for service in by_kind("Service"):
        [pod] = selected(service["spec"]["selector"])
        ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports, service
    for policy in by_kind("NetworkPolicy"):
        [pod] = selected(policy["spec"]["podSelector"]["matchLabels"])
        ports = {port["name"] for port in pod["spec"]["containers"][0]["ports"]}
        assert {port["port"] for rule in policy["spec"]["ingress"] for port in rule["ports"]} == ports, policy
    for budget in by_kind("PodDisruptionBudget"):
        assert len(selected(budget["spec"]["selector"]["matchLabels"])) == 1
    for scaler in by_kind("HorizontalPodAutoscaler"):
        target = scaler["spec"]["scaleTargetRef"]["name"]
        [deployment] = [found for found in by_kind("Deployment") if found["metadata"]["name"] == target]
        assert "replicas" not in deployment["spec"], "each `apply` would undo the autoscaler"
        assert deployment["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"]
    for monitor in by_kind("ServiceMonitor"):
        wanted = monitor["spec"]["selector"]["matchLabels"]
        [service] = [found for found in by_kind("Service") if matches(wanted, found["metadata"]["labels"])]
        ports = {port["name"] for port in service["spec"]["ports"]}
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} == ports
        # The job that the alerting rules name.
        assert service["metadata"]["labels"][monitor["spec"]["jobLabel"]] == "tollgate"
    names = {config_map["metadata"]["name"] for config_map in by_kind("ConfigMap")}
    volumes = [volume for pod in pods for volume in pod["spec"].get("volumes", [])]
    mounted = {volume["configMap"]["name"] for volume in volumes if "configMap" in volume}
    claims = {claim["metadata"]["name"] for claim in by_kind("PersistentVolumeClaim")}
    claimed = {volume["persistentVolumeClaim"]["claimName"] for volume in volumes if "persistentVolumeClaim" in volume}
    assert claims == claimed, (claims, claimed)
    assert names == mounted, (names, mounted)
    assert all(name.startswith("tollgate-") for name in names), "a changed file must be a new ConfigMap"


def check_configuration(config_map, tollgate):
    """Runs `tollgate check` on the file of a ConfigMap, and returns the file's content."""
    [(name, text)] = config_map["data"].items()
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, name)
        path.write_text(text)
        done = subprocess.run(
            [tollgate, "check", "--offline", path],
            env={"REDIS_NODES": "redis-1:6379"},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return yaml.safe_load(text)


def check_overlay(overlay, tollgate):
    rendered = asyncio.run(pykustomize.build(overlay)).yaml
    resources = list(yaml.safe_load_all(rendered))
    kinds = sorted(resource["kind"] for resource in resources)
    assert kinds == sorted(KINDS[overlay.name]), kinds
    for resource in resources:
        if resource["kind"] not in WITHOUT_SCHEMA:
            kubernetes_validate.validate(resource, "1.37", strict=True)
    [config_map] = [resource for resource in resources if resource["kind"] == "ConfigMap"]
    config = check_configuration(config_map, tollgate)
    for resource in resources:
        if resource["kind"] == "Deployment":
            check_pod(resource["spec"]["template"]["spec"], config)
            if overlay.name == "volume":
                check_state_file(resource)
    check_references(resources)
    print(f"{overlay.name}: {len(resources)} resources")


overlays = sorted((HERE / "overlays").iterdir())
assert [overlay.name for overlay in overlays] == sorted(KINDS)
for overlay in overlays:
    check_overlay(overlay, sys.argv[1])
