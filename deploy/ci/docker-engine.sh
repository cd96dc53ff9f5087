#!/usr/bin/env bash
# A Docker engine for as long as a script runs. It needs root and Debian's packages, and no image registry.
#
#   bash deploy/ci/docker-engine.sh COMMAND...    run COMMAND with an engine, if one can run
#   source deploy/ci/docker-engine.sh             get the two functions below
#
# It touches neither the machine's own engine nor its firewall, and leaves nothing but the packages.

engine_folder="" engine_bridge="" engine_pid=""

# Have an engine answer: the one that does already, or one of our own. Never fails: when there can be none it says
# why, and leaves the reason in NO_DOCKER_ENGINE_BECAUSE for whoever has to do without.
engine_start() {
    unset NO_DOCKER_ENGINE_BECAUSE
    if docker version >/dev/null 2>&1; then
        echo "Docker engine: the one that answers already"
        return
    fi
    if (("$(id -u)" != 0)); then
        engine_none "none answers, and only root can start one"
        return
    fi
    engine_folder=$(mktemp -d -t hookbus-engine.XXXXXX)
    if ! engine_install >"$engine_folder/log" 2>&1; then
        engine_none "docker.io cannot be installed: $(tail -n 1 "$engine_folder/log")"
        return
    fi
    # A bridge of our own, so that a second engine on this machine gives out other addresses.
    engine_bridge="hb$$"
    if ! engine_network >"$engine_folder/log" 2>&1; then
        engine_none "no bridge for the containers can be made: $(tail -n 1 "$engine_folder/log")"
        return
    fi
    # Ports are published on loopback, by the engine's own proxy: no rule, no forwarding, no way out of a container.
    dockerd --host="unix://$engine_folder/socket" --pidfile="$engine_folder/pid" \
        --data-root="$engine_folder/data" --exec-root="$engine_folder/run" --storage-driver=vfs \
        --bridge="$engine_bridge" --iptables=false --ip-forward=false --ip-masq=false \
        </dev/null >"$engine_folder/log" 2>&1 &
    engine_pid=$!
    local attempt
    for ((attempt = 0; attempt < 300; attempt++)); do
        if grep -q "API listen on" "$engine_folder/log"; then
            export DOCKER_HOST="unix://$engine_folder/socket"
            echo "Docker engine: started ($(dockerd --version))"
            return
        fi
        kill -0 "$engine_pid" 2>/dev/null || break
        sleep 0.1
    done
    tail -n 20 "$engine_folder/log" >&2
    engine_none "dockerd does not run here: $(tail -n 1 "$engine_folder/log")"
}

# End the engine if it is ours, and remove what it made. Says nothing, so that the last line stays another's.
engine_stop() {
    if [[ -n $engine_pid ]]; then
        kill "$engine_pid" 2>/dev/null || true
        wait "$engine_pid" || true
    fi
    [[ -z $engine_bridge ]] || ip link delete "$engine_bridge" 2>/dev/null || true
    [[ -z $engine_folder ]] || rm -rf "$engine_folder" || true
    engine_folder="" engine_bridge="" engine_pid=""
}

engine_none() {
    export NO_DOCKER_ENGINE_BECAUSE="no Docker engine: $1"
    printf '\n!!! %s\n!!! The container tests are skipped; everything else runs.\n\n' "$NO_DOCKER_ENGINE_BECAUSE" >&2
}

engine_install() {
    if ! command -v dockerd || ! command -v ip; then
        apt-get update -qq &&
            DEBIAN_FRONTEND=noninteractive apt-get install -qq --no-install-recommends docker.io iproute2
    fi
}

engine_network() {
    ip link add name "$engine_bridge" type bridge &&
        ip address add "10.78.$((RANDOM % 256)).1/24" dev "$engine_bridge" &&
        ip link set "$engine_bridge" up
}

if [[ ${BASH_SOURCE[0]} == "$0" ]]; then
    set -euo pipefail
    trap engine_stop EXIT
    engine_start
    "$@"
fi
