# The official PostgreSQL image with pg_skip:
#
#   docker build --build-arg PG_MAJOR=18 -t pg_skip:18 .
#   docker run --rm -e POSTGRES_PASSWORD=secret -p 5432:5432 pg_skip:18
#
# PG_MAJOR is 15, 16, 17 or 18. Then, in each database that is to use it: CREATE EXTENSION pg_skip.
ARG PG_MAJOR=18

FROM postgres:${PG_MAJOR}-bookworm AS build
ARG PG_MAJOR
ARG RUST=1.95.0
RUN apt-get update && apt-get install -y --no-install-recommends \
        build-essential ca-certificates clang curl libclang-dev pkg-config xz-utils "postgresql-server-dev-$PG_MAJOR" \
    && rm -rf /var/lib/apt/lists/*
RUN curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | \
        sh -s -- -y --profile minimal --default-toolchain "$RUST"
ENV PATH=/root/.cargo/bin:$PATH
WORKDIR /pg_skip
# What builds pgrx's command, which changes seldom, before the rest of the tree.
COPY pgrx-config pgrx-config
RUN pgrx-config/setup.sh cargo-pgrx
COPY . .
RUN make install PG_CONFIG="/usr/lib/postgresql/$PG_MAJOR/bin/pg_config"

FROM postgres:${PG_MAJOR}-bookworm
ARG PG_MAJOR
COPY --from=build /usr/lib/postgresql/${PG_MAJOR}/lib/pg_skip.so /usr/lib/postgresql/${PG_MAJOR}/lib/
COPY --from=build /usr/share/postgresql/${PG_MAJOR}/extension/pg_skip* \
        /usr/share/postgresql/${PG_MAJOR}/extension/
