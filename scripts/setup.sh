# Sourced by the other scripts: makes $PYTHON, an environment with evalindex and all that its
# tests need. PYTHON_FOR_VENV names another interpreter, EVALINDEX_VENV another folder. With
# SERVERS=1 also the servers that are no Python packages.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
VENV=${EVALINDEX_VENV:-$PWD/.venv}
PYTHON=$VENV/bin/python
stamp=$VENV/.installed-for
# uv trusts the system's certificates only if told to, here and in the scripts that use it too.
export UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1
if ! cmp -s pyproject.toml "$stamp"; then
  echo "setting up $VENV" >&2
  "${PYTHON_FOR_VENV:-python3}" -m venv --clear "$VENV"
  "$PYTHON" -m pip install -q --disable-pip-version-check uv
  # uv takes seconds where pip takes a minute.
  "$PYTHON" -m uv pip install -q --python "$PYTHON" -e '.[dev]' ||
    "$PYTHON" -m pip install -q --disable-pip-version-check -e '.[dev]'
  cp pyproject.toml "$stamp"
fi
if [ -n "${SERVERS:-}" ]; then
  # What cannot be installed here is named by the tests that want it.
  if [ ! -x /usr/sbin/nginx ] && ! command -v nginx >/dev/null && [ "$(id -u)" = 0 ]; then
    echo "installing nginx" >&2
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 \
      apt-get install -y -qq --no-install-recommends nginx-light; } >/dev/null 2>&1 ||
      echo "nginx could not be installed" >&2
  fi
  if [ ! -e "$VENV/azurite/node_modules/.bin/azurite-blob" ] && ! command -v azurite-blob >/dev/null; then
    echo "installing azurite" >&2
    # As above: without this it does not trust the certificates that the system does.
    NODE_EXTRA_CA_CERTS=${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt} \
      npm install --silent --no-audit --no-fund --prefix "$VENV/azurite" azurite@3.35.0 >/dev/null 2>&1 ||
      echo "azurite could not be installed" >&2
  fi
fi
