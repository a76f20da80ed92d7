# The daemon and the command line in an image that holds them, the libraries that they map, and nothing else that runs
# (deploy/image-root). The packages come from deploy/packages, as everywhere.
#
#   docker build -t shardplan .
#   docker run --rm shardplan token ci --tenant vision --scopes read,plan
#   docker run -p 127.0.0.1:8080:8080 -v ./tokens.json:/etc/shardplan/tokens.json:ro -v shardplan:/var/lib/shardplan shardplan
#
# BASE may be any Debian from bookworm on; name it with its digest where builds must repeat.
ARG BASE=docker.io/library/debian:bookworm-slim

FROM ${BASE} AS build
ARG SOURCE_DATE_EPOCH
WORKDIR /src
COPY deploy/packages deploy/install-packages deploy/
RUN deploy/install-packages build run
COPY . .
RUN meson setup /build --buildtype=release --strip -Db_lto=true -Db_ndebug=false -Dtests=false --prefix=/usr/local \
    && ninja -C /build && DESTDIR=/stage meson install -C /build --no-rebuild
RUN deploy/image-root /stage /image && mkdir /volume

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="Shardplan" \
      org.opencontainers.image.description="Plans how an ONNX model runs on several devices, over HTTP" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
COPY --from=build /image/ /
COPY --from=build --chown=65532:65532 /volume/ /var/lib/shardplan/
# Not flags, so that the health check and "docker run IMAGE --OPTION" read them too. The second address serves health and
# metrics without credentials: publish it to your monitoring alone.
ENV PATH=/usr/local/bin \
    SHARDPLAND_LISTEN=0.0.0.0:8080 \
    SHARDPLAND_ADMIN_LISTEN=0.0.0.0:9090 \
    SHARDPLAND_DATA=/var/lib/shardplan \
    SHARDPLAND_TOKENS=/etc/shardplan/tokens.json \
    SHARDPLAND_LOG_FORMAT=json \
    SQLITE_TMPDIR=/var/lib/shardplan
USER 65532:65532
VOLUME /var/lib/shardplan
EXPOSE 8080 9090
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=20s --retries=3 CMD ["shardpland", "--healthcheck"]
ENTRYPOINT ["shardpland"]
