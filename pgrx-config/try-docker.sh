#!/usr/bin/env bash
# Builds the images of the Dockerfile, and uses the extension in them. Where no Docker can be reached, it says so and
# succeeds.
#
#   try-docker.sh [PG_MAJOR…]      default: 15 and 18
set -euo pipefail
cd "$(dirname "$0")/.."
docker info >/dev/null 2>&1 || { echo 'try-docker.sh: left out, no Docker can be reached'; exit 0; }
[ $# != 0 ] || set -- 15 18

container=
trap '[ -z "$container" ] || docker stop "$container" >/dev/null' EXIT
for major in "$@"; do
    docker build --build-arg PG_MAJOR="$major" -t "pg_skip:$major" .
    container=$(docker run -d --rm -e POSTGRES_HOST_AUTH_METHOD=trust "pg_skip:$major")
    # By TCP: the server that the image starts first, to make its database, listens on its socket only.
    sql() { docker exec "$container" psql -h 127.0.0.1 -U postgres -X -v ON_ERROR_STOP=1 -qAt "$@"; }
    for _ in $(seq 60); do sql -c 'SELECT 1' >/dev/null 2>&1 && break || sleep 1; done
    sql -c 'CREATE EXTENSION pg_skip' \
        -c "CREATE TABLE t AS SELECT md5(i::text)::uuid AS k, repeat('x', 100) AS pad
            FROM generate_series(1, 50000) AS i" \
        -c 'CREATE INDEX t_skip ON t USING skip (k)' -c 'ANALYZE t'
    plan=$(sql -c "EXPLAIN (ANALYZE) SELECT * FROM t WHERE k = md5('7')::uuid")
    case $plan in
        *'Skip Index Scan'*) echo "pg_skip:$major: CREATE EXTENSION, an index and a Skip Index Scan work" ;;
        *) echo "pg_skip:$major: no Skip Index Scan: $plan" >&2; exit 1 ;;
    esac
    docker stop "$container" >/dev/null
    container=
done
