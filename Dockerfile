# docker build -t tollgate .                                                               needs BuildKit, Docker's default
# docker run --rm -p 8080:8080 tollgate                                                    the demo
# docker run --rm -p 8080:8080 -v "$PWD/my.yaml:/etc/tollgate/tollgate.yaml:ro" tollgate    your gateway
# docker run --rm -v "$PWD/my.yaml:/my.yaml:ro" tollgate check /my.yaml                     any other command

FROM rust:1.95-slim-bookworm AS build
WORKDIR /build
COPY . .
# `--version` names it: --build-arg TOLLGATE_COMMIT="$(git rev-parse --short=12 HEAD)"
ARG TOLLGATE_COMMIT
ARG TARGETARCH
# Crates and their artifacts stay in caches, so that a second build compiles only what has changed.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/build/target,id=tollgate-target-$TARGETARCH,sharing=locked \
    cargo build --profile dist --locked --bin tollgate \
    && cp target/dist/tollgate /tollgate

FROM debian:bookworm-slim
COPY --from=build /tollgate /usr/local/bin/tollgate
COPY config /etc/tollgate
# Trusted CA certificates: for https upstreams and key sets.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/

# Numeric, so that Kubernetes can verify that it is not root.
USER 10001:10001
# The admin port listens on loopback inside the container. To publish it, set management.server.address.
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s CMD ["tollgate", "health"]
ENTRYPOINT ["tollgate"]
CMD ["--config", "/etc/tollgate/tollgate.yaml"]
