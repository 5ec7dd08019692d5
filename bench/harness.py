"""What both benches share: the proxies, their processes, the load, and what the kernel says they used.

Everything runs on 127.0.0.1. Proxies are pinned to PROXY_CORE; backend and load generator to LOAD_CORE.
"""

import atexit
import hashlib
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROXY_CORE, LOAD_CORE = 0, 1
PACKAGES = ["gcc", "libc6-dev", "nginx-light", "libnginx-mod-http-lua", "haproxy", "redis-server", "valgrind", "strace", "nghttp2-client", "openssl"]

# limit: (requests a second for each key, which is also the burst), keys: how many ids x-key is drawn from,
# redis: whether they are counted there; h2load: requests of a turn, which h2load sends; streams: open at once on each
# connection (default 1); beside: idle connections meanwhile; idle: idle connections whose memory is measured;
# bar: the most CPU beside the best peer, or beside itself without a log.
SCENARIOS = {
    "plain": {"bar": 1.03},
    "access-log": {"access_log": "combined", "bar": 1.10},
    "access-log-json": {"access_log": "json", "bar": 1.08},
    "limiter-allowed": {"limit": 1000, "keys": 100_000, "bar": 1.00},
    "limiter-denied": {"limit": 1, "keys": 10, "bar": 1.00},
    "redis-allowed": {"limit": 1000, "keys": 100_000, "redis": True, "bar": 0.60},
    "redis-denied": {"limit": 1, "keys": 10, "redis": True},
    "down100k": {"target": "/bytes/102400", "connections": 32, "bar": 0.80},
    "down1m": {"target": "/bytes/1048576", "connections": 16, "bar": 0.80},
    "down10m": {"target": "/bytes/10485760", "connections": 8, "bar": 0.80},
    "tls": {"target": "/bytes/100", "tls": True, "h2load": 20_000, "bar": 0.95},
    "h2c": {"target": "/bytes/100", "connections": 8, "http2": True, "streams": 8, "h2load": 20_000, "bar": 1.10},
    "h2": {"target": "/bytes/100", "connections": 8, "http2": True, "tls": True, "streams": 8, "h2load": 20_000, "bar": 1.10},
    "tls-down1m": {"target": "/bytes/1048576", "connections": 8, "tls": True, "h2load": 400},
    "h2c-down1m": {"target": "/bytes/1048576", "connections": 8, "http2": True, "h2load": 400},
    "h2-down1m": {"target": "/bytes/1048576", "connections": 8, "http2": True, "tls": True, "h2load": 400},
    "up100k": {"body": 102_400, "connections": 32, "bar": 0.80},
    "up10m": {"body": 10_485_760, "connections": 8, "bar": 0.80},
    "idle2000": {"beside": 2000, "bar": 1.05},
    "idle10000": {"beside": 10_000, "bar": 1.05},
    "workers2": {"target": "/bytes/100", "workers": 2, "h2load": 100_000},
    "idle": {"idle": 2000},
    "idle-h2c": {"idle": 2000, "http2": True},
}

_started = []
work = Path(tempfile.mkdtemp(prefix="tollgate-bench-"))
work.chmod(0o711)  # started as root, nginx spools large answers as another user


def stop(process):
    """Ends a process of ours: SIGTERM, and SIGKILL five seconds later."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@atexit.register
def _clean_up():
    for process in reversed(_started):
        stop(process)
    shutil.rmtree(work, ignore_errors=True)


def prepare():
    """Compiles the backend and the load generator, and raises the limit of open files for all that is started."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started is ended
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if len(os.sched_getaffinity(0)) < 2:
        sys.exit("bench: needs two cores: one for the proxy, one for the load")
    for tool in ("gcc", "taskset", "setpriv"):
        if not shutil.which(tool):
            sys.exit(f"bench: {tool} is missing: run `bench/run --install`, or install it by hand")
    for name in ("backend", "loadgen"):
        subprocess.run(["gcc", "-O2", "-o", work / name, HERE / f"{name}.c"], check=True)


def free_port():
    """A port that was free a moment ago."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(name, command, core, **options):
    """Starts a command on a core. It is ended with this program, however this program ends."""
    pinned = ["setpriv", "--pdeathsig", "TERM", "taskset", "-c", str(core), *map(str, command)]
    with open(work / f"{name}.out", "ab") as log:
        options = {"stdin": subprocess.DEVNULL, "stdout": log, **options}
        process = subprocess.Popen(pinned, stderr=log, cwd=work, **options)
    _started.append(process)
    return process


def wait_for_port(name, process, port, secs=15):
    """Waits until the process listens, or ends this program with the tail of what it wrote."""
    end = time.monotonic() + secs
    while time.monotonic() < end and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 0.3).close()
            return
        except OSError:
            time.sleep(0.05)
    tail = (work / f"{name}.out").read_text(errors="replace")[-2000:]
    sys.exit(f"bench: {name} does not listen on {port} (exit status {process.poll()})\n{tail}")


def start_backend():
    """Starts the backend and returns its port."""
    port = free_port()
    wait_for_port("backend", start("backend", [work / "backend", port], LOAD_CORE), port)
    return port


def start_redis():
    """Starts a redis-server that stores nothing on disk; returns its process and its port, or nothing without one."""
    if not shutil.which("redis-server"):
        return None, None
    port = free_port()
    options = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]
    process = start("redis", ["redis-server", *options], LOAD_CORE)
    wait_for_port("redis", process, port)
    return process, port


def can(name, scenario):
    """Whether a proxy can do what a scenario asks for; what it lacks is named on standard error."""
    if scenario.get("h2load") and not shutil.which("h2load"):
        print(f"bench: h2load is not here: {name} is left out", file=sys.stderr)
        return False
    if not scenario.get("redis"):
        return True
    if not shutil.which("redis-server"):
        print(f"bench: redis-server is not here: {name} is left out", file=sys.stderr)
        return False
    if name == "nginx" and not (_nginx_modules() / "ngx_http_lua_module.so").exists():
        print("bench: libnginx-mod-http-lua is not here: nginx is left out", file=sys.stderr)
        return False
    return name != "haproxy"  # its Lua keeps no connections from request to request


def _nginx_modules():
    """Where this nginx looks for its modules."""
    text = subprocess.run(["nginx", "-V"], capture_output=True, text=True).stderr
    found = re.search(r"--modules-path=(\S+)", text)
    return Path(found[1] if found else "/usr/lib/nginx/modules")


class Proxy:
    """A proxy set up for one scenario. `redis`: the port of the Redis that it counts in."""

    def __init__(self, name, scenario, upstream, binary=None, access_log=None, one_process=False, redis=None):
        self.name, self.port = name, free_port()
        self.core = f"{PROXY_CORE},{LOAD_CORE}" if "workers" in scenario else PROXY_CORE
        kind = "tollgate" if binary else name
        limit = scenario.get("limit")
        values = {
            "PORT": self.port,
            "ADMIN_PORT": free_port(),
            "UPSTREAM": upstream,
            "WORK": work,
            "RATE": limit or 1,
            "MASTER": "off" if one_process else "on",
            "ACCESS_LOG": f"{work}/access.log, format: {access_log}" if access_log else "off",
            "WORKERS": scenario.get("workers", 1),
            "LIMIT": _limits(limit)[kind] if limit else "",
            "REDIS": f'redis: {{url: "redis://127.0.0.1:{redis}"}}' if redis else "",
            "LISTEN": _listen(kind, scenario),
            "MODULES": "",
            "INIT": "",
        }
        if redis and kind == "nginx":
            values |= _lua_limit(values, redis)
        template = {"nginx": "nginx.conf", "haproxy": "haproxy.cfg", "tollgate": "tollgate.yaml"}[kind]
        text = (HERE / template).read_text()
        for key, value in values.items():
            text = text.replace(f"@{key}@", str(value))
        config = work / f"{name}-{template}"
        config.write_text(text)
        self.command = {
            "nginx": ["nginx", "-e", work / "nginx.log", "-p", work, "-c", config],
            "haproxy": ["haproxy", "-db", "-f", config],
            "tollgate": [binary, "--config", config],
        }[kind]

    def start(self, under=(), secs=15):
        """Starts it, under another command if one is given."""
        self.process = start(self.name, [*under, *self.command], self.core)
        wait_for_port(self.name, self.process, self.port, secs)
        return self


def _listen(kind, scenario):
    """What a proxy needs to speak TLS and HTTP/2 to clients."""
    http2, tls = scenario.get("http2"), scenario.get("tls")
    if tls:
        _certificate()
    if kind == "nginx":
        files = f"; ssl_certificate {work}/cert.pem; ssl_certificate_key {work}/key.pem"
        return (" http2" if http2 else "") + (f" ssl{files}" if tls else "")
    if kind == "haproxy":
        alpn = "h2" if http2 else "http/1.1"
        return f" ssl crt {work}/both.pem alpn {alpn}" if tls else " proto h2" if http2 else ""
    return f", ssl: {{certificate: {work}/cert.pem, certificate-private-key: {work}/key.pem}}" if tls else ""


def _certificate():
    """Makes a certificate for all proxies."""
    key, cert = work / "key.pem", work / "cert.pem"
    if not cert.exists():
        command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        command += ["-keyout", key, "-out", cert, "-subj", "/CN=localhost", "-days", "2"]
        subprocess.run(command, check=True, capture_output=True)
        (work / "both.pem").write_text(cert.read_text() + key.read_text())


def _lua_limit(values, redis):
    """What nginx needs to count in Redis: the modules, the script, and the code that asks."""
    script = HERE / "token_bucket.lua"
    sha1 = hashlib.sha1(script.read_bytes()).hexdigest()
    ask = (HERE / "nginx-redis.lua").read_text()
    for key, value in {"REDIS_PORT": redis, "RATE": values["RATE"], "SHA1": sha1}.items():
        ask = ask.replace(f"@{key}@", str(value))
    (work / "nginx-redis.lua").write_text(ask)
    modules = [_nginx_modules() / f"{name}_module.so" for name in ("ndk_http", "ngx_http_lua")]
    return {
        "MODULES": "".join(f"load_module {module};\n" for module in modules),
        "INIT": f'init_by_lua_block {{ SCRIPT = io.open("{script}"):read("*a") }}',
        "LIMIT": f"access_by_lua_file {work / 'nginx-redis.lua'};",
    }


def _limits(rate):
    """Each proxy's own in-memory limit of so many requests a second, and as many at once, for each x-key."""
    tollgate = f'replenish-rate: {rate}, burst-capacity: {rate}, key-resolver: "header:x-key"'
    return {
        "nginx": f"limit_req zone=keys burst={rate} nodelay;",
        "haproxy": "stick-table type string len 32 size 1m expire 10s store http_req_rate(1s)\n"
        "  http-request track-sc0 req.hdr(x-key)\n"
        f"  http-request deny deny_status 429 if {{ sc_http_req_rate(0) gt {rate} }}",
        "tollgate": f"{{name: RequestRateLimiter, args: {{{tollgate}}}}}",
    }


def most_idle(count):
    """The number of idle connections that the limit of open files allows: a proxy needs two files for each."""
    return min(count, resource.getrlimit(resource.RLIMIT_NOFILE)[1] // 2 - 250)


def hold_idle(port, count):
    """Opens connections that make one request each and are kept until the returned process ends."""
    command = [work / "loadgen", port, "-i", count]
    holder = start("idle", command, LOAD_CORE, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    if holder.stdout.readline() != b"ready\n":
        sys.exit(f"bench: the idle connections were not kept: {(work / 'idle.out').read_text()}")
    return holder


def load(port, scenario, *options):
    """Runs the load generator to its end and returns what it counted."""
    if scenario.get("h2load"):
        return _h2load(port, scenario, *options)
    command = ["taskset", "-c", str(LOAD_CORE), work / "loadgen", str(port), *map(str, options)]
    for flag, key in (("-k", "keys"), ("-b", "body"), ("-p", "target")):
        if key in scenario:
            command += [flag, str(scenario[key])]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=1800)
    if done.returncode:
        sys.exit(f"bench: the load generator failed: {done.stderr}")
    return json.loads(done.stdout)


def _h2load(port, scenario, *options):
    """Sends `-n` requests over `-c` connections with h2load, and returns what it counted."""
    url = f"http{'s' if scenario.get('tls') else ''}://127.0.0.1:{port}{scenario['target']}"
    version = [] if scenario.get("http2") else ["--h1"]
    command = ["taskset", "-c", str(LOAD_CORE), "h2load", *version, *map(str, options), "-m", str(scenario.get("streams", 1)), url]
    begin = time.monotonic()
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300)
    secs = time.monotonic() - begin
    found = re.search(r"^status codes: (\d+) 2xx", done.stdout, re.M)
    answered, asked = int(found[1]) if found else 0, options[options.index("-n") + 1]
    return {"requests": answered, "secs": secs, "denied": 0, "failed": asked - answered}


def family(pid):
    """The process and all that descend from it."""
    found, todo = [], [pid]
    while todo:
        found.append(pid := todo.pop())
        for task in Path(f"/proc/{pid}/task").glob("*/children"):
            todo += map(int, task.read_text().split())
    return found


def cpu_us(pid):
    """User and system time of a process, its threads and its children, in microseconds."""
    tasks = (task for p in family(pid) for task in Path(f"/proc/{p}/task").glob("*/schedstat"))
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1000


def rss_kb(pid):
    """Resident memory of a process and its children, in KiB. Pages that they share count for each."""
    lines = (line for p in family(pid) for line in Path(f"/proc/{p}/status").read_text().splitlines())
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmRSS"))


def steal():
    """What the host took from the proxy's core, and all of its time, in ticks."""
    for line in Path("/proc/stat").read_text().splitlines():
        name, *ticks = line.split()
        if name == f"cpu{PROXY_CORE}":
            return int(ticks[7]), sum(map(int, ticks[:8]))
    return 0, 1


def proxies_here(tollgates, only):
    """Names and binaries of what can be measured; what is missing is named on standard error."""
    found = []
    for name, binary in [("nginx", None), ("haproxy", None), *tollgates]:
        if only and name not in only:
            continue
        path = shutil.which(str(binary or name), path=None if binary else os.environ["PATH"] + ":/usr/sbin")
        if path:
            found.append((name, Path(path).resolve() if binary else None))
        else:
            print(f"bench: {binary or name} is not here: {name} is left out", file=sys.stderr)
    return found


def add_arguments(parser):
    """The arguments that both benches take."""
    default = Path(os.environ.get("CARGO_TARGET_DIR", HERE.parent / "target")) / "dist" / "tollgate"
    parser.add_argument("--scenario", action="append", metavar="NAME", help="may be given again; all without it")
    parser.add_argument("--only", metavar="NAME,…", help="only these proxies")
    parser.add_argument(
        "--tollgate",
        action="append",
        metavar="[NAME=]BINARY",
        help=f"may be given again, to compare builds (default: {default})",
    )
    parser.set_defaults(default_tollgate=default)


def read_arguments(arguments, scenarios):
    """The proxies and the scenarios that were asked for."""
    tollgates = []
    for text in arguments.tollgate or [str(arguments.default_tollgate)]:
        name, _, binary = text.rpartition("=")
        tollgates.append((name or "tollgate", binary))
    for name in arguments.scenario or []:
        if name not in scenarios:
            sys.exit(f"bench: no scenario is called {name}: there are {', '.join(scenarios)}")
    proxies = proxies_here(tollgates, set(arguments.only.split(",")) if arguments.only else None)
    return proxies, arguments.scenario or scenarios
