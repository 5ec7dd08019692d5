"""Registers an instance with a registry, and removes it when standard input ends."""

import sys

kind, registry, upstream = sys.argv[1:]
host, port = registry.split(":")
ip, instance_port = upstream.split(":")[0], int(upstream.split(":")[1])

if kind == "consul":
    import consul

    agent = consul.Consul(host=host, port=int(port)).agent
    check = consul.Check.ttl("30s")
    assert agent.service.register("orders", service_id="o1", address=ip, port=instance_port, tags=["x"], check=check)
    # An instance without a passing check gets no requests.
    agent.check.ttl_pass("service:o1")
    sys.stdin.read()
    agent.service.deregister("o1")
elif kind == "eureka":
    from py_eureka_client import eureka_client

    client = eureka_client.init(
        eureka_server=f"http://{registry}/eureka/",
        app_name="orders",
        instance_host=ip,
        instance_ip=ip,
        instance_port=instance_port,
        renewal_interval_in_secs=1,
        duration_in_secs=5,
        should_discover=False,
    )
    sys.stdin.read()
    eureka_client.stop()
elif kind == "nacos":
    import nacos

    client = nacos.NacosClient(registry, namespace="public")
    assert client.add_naming_instance("orders", ip, instance_port, weight=2.0, metadata={"zone": "eu"})
    client.send_heartbeat("orders", ip, instance_port)
    sys.stdin.read()
    client.remove_naming_instance("orders", ip, instance_port)
