// Clients of @connectrpc/connect. Arguments: the folder of the packages, the address of the gateway. Prints a JSON array of
// the errors that they read, one for each protocol and kind of call.

import { createRequire } from "node:module";

const [folder, gateway] = process.argv.slice(2);
const load = createRequire(`${folder}/`);
const { ConnectError, Code } = load("@connectrpc/connect");
const { createConnectTransport, createGrpcTransport, createGrpcWebTransport } = load("@connectrpc/connect-node");
const { fromBinary } = load("@bufbuild/protobuf");
const { DurationSchema, EmptySchema } = load("@bufbuild/protobuf/wkt");

const method = (methodKind) => ({
  kind: "rpc", name: "Denied", localName: "denied", parent: { typeName: "denied.Service" }, methodKind,
  input: EmptySchema, output: EmptySchema, deprecated: false, toString: () => "rpc",
});
async function* one() {
  yield {};
}
const transports = [
  ["connect", createConnectTransport, "1.1"],
  ["connect-json", (options) => createConnectTransport({ ...options, useBinaryFormat: false }), "1.1"],
  ["connect-http2", createConnectTransport, "2"],
  ["grpc-web", createGrpcWebTransport, "1.1"],
  ["grpc", createGrpcTransport, "2"],
];
const errors = [];
for (const [protocol, create, httpVersion] of transports) {
  for (const kind of ["unary", "server_streaming"]) {
    const transport = create({ baseUrl: `http://${gateway}`, httpVersion, useBinaryFormat: true });
    try {
      if (kind === "unary") {
        await transport.unary(method(kind), undefined, 5000, {}, {}, undefined);
      } else {
        const response = await transport.stream(method(kind), undefined, 5000, {}, one(), undefined);
        for await (const _ of response.message);
      }
      errors.push({ protocol, kind, code: "OK" });
    } catch (reason) {
      const error = ConnectError.from(reason);
      const detail = error.details.find((detail) => detail.type === "google.rpc.RetryInfo");
      const delay = detail && fromBinary(DurationSchema, detail.value.subarray(2));
      errors.push({
        protocol, kind, code: Code[error.code], message: error.rawMessage,
        delay: delay && Number(delay.seconds) + delay.nanos / 1e9, remaining: error.metadata.get("x-ratelimit-remaining"),
      });
    }
  }
}
console.log(JSON.stringify(errors));
process.exit(0);
