# The daemon and the command line in a small image. The packages come from deploy/packages, as everywhere.
FROM docker.io/library/debian:bookworm-slim AS build
WORKDIR /src
COPY deploy/packages deploy/install-packages deploy/
RUN deploy/install-packages build
COPY . .
RUN meson setup /build --buildtype=release -Db_lto=true -Db_ndebug=false -Dtests=false --prefix=/usr/local && ninja -C /build \
    && DESTDIR=/stage meson install -C /build --no-rebuild

FROM docker.io/library/debian:bookworm-slim
COPY deploy/packages deploy/install-packages /tmp/deploy/
RUN /tmp/deploy/install-packages run && rm -rf /tmp/deploy /var/lib/apt/lists/* \
    && useradd --system --user-group --no-create-home --shell /usr/sbin/nologin shardplan \
    && install -d -o shardplan -g shardplan -m 0750 /var/lib/shardplan
COPY --from=build /stage/usr/local/bin/ /usr/local/bin/
COPY LICENSE /usr/share/doc/shardplan/
USER shardplan
VOLUME /var/lib/shardplan
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s \
    CMD ["curl", "-fsS", "-o", "/dev/null", "http://127.0.0.1:8080/readyz"]
ENTRYPOINT ["shardpland"]
CMD ["--listen", "0.0.0.0:8080", "--data", "/var/lib/shardplan"]
