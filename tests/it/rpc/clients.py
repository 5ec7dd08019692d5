"""A gRPC server and clients of grpcio. Prints the port of the server, reads the address of the gateway from standard input,
and prints the results of the calls as JSON."""

import json
import sys
import time
from concurrent import futures

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status


def attempt_of(request, context):
    """Answers a call with the number of attempts before it, as the client tells."""
    metadata = dict(context.invocation_metadata())
    return metadata.get("grpc-previous-rpc-attempts", "0").encode()


class Handler(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(attempt_of)


def call(channel, method, **options):
    """Calls a method; returns what a client can read of its end."""
    started = time.monotonic()
    try:
        reply = channel.unary_unary(method)(b"", timeout=20, **options)
        return {"code": "OK", "attempts": int(reply), "secs": time.monotonic() - started}
    except grpc.RpcError as error:
        seen = {"code": error.code().name, "message": error.details(), "secs": time.monotonic() - started}
        seen["metadata"] = {key: value for key, value in error.trailing_metadata() if isinstance(value, str)}
        status = rpc_status.from_call(error)
        for detail in status.details if status else []:
            retry = error_details_pb2.RetryInfo()
            assert detail.Unpack(retry), detail
            seen["retry_delay"] = retry.retry_delay.ToTimedelta().total_seconds()
            assert (status.code, status.message) == (error.code().value[0], error.details())
        return seen


server = grpc.server(futures.ThreadPoolExecutor(4), handlers=[Handler()])
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
gateway = sys.stdin.readline().strip()
policy = {
    "maxAttempts": 5,
    "initialBackoff": "0.01s",
    "maxBackoff": "0.02s",
    "backoffMultiplier": 1,
    "retryableStatusCodes": ["RESOURCE_EXHAUSTED"],
}
config = json.dumps({"methodConfig": [{"name": [{}], "retryPolicy": policy}]})
plain = [("grpc.enable_retries", 0)]
retrying = [("grpc.service_config", config)]
results = {}
for method in sys.argv[1:]:
    options = retrying if method.startswith("/retried") else plain
    with grpc.insecure_channel(gateway, options=options) as channel:
        results.setdefault(method, []).append(call(channel, method, metadata=[("x-key", "a")]))
print(json.dumps(results), flush=True)
server.stop(0)
