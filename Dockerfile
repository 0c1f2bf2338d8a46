# The `tidegate` binary in a small image:
#
#   docker build -t tidegate .
#   docker run --rm -it tidegate demo
#   docker run --rm -v "$PWD:/scripts" tidegate run /scripts/job.sql
FROM rust:1.95-bookworm AS build
WORKDIR /src
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --locked --package tidegate-cli && cp target/release/tidegate /tidegate

FROM debian:bookworm-slim
COPY --from=build /tidegate /usr/local/bin/tidegate
# Whom to trust: checkpoints may lie on S3.
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY examples /usr/share/tidegate/examples
# The broker's data and the scripts belong to a user without rights.
RUN useradd --create-home --uid 1000 tidegate
USER tidegate
WORKDIR /home/tidegate
# REST, and the broker for development.
EXPOSE 8081 9092
ENTRYPOINT ["tidegate"]
CMD ["--help"]
