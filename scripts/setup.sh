# Sourced by the other scripts: makes $PYTHON, an environment with evalindex and all that its
# tests need. PYTHON_FOR_VENV names another interpreter, EVALINDEX_VENV another folder.
cd "$(dirname "${BASH_SOURCE[0]}")/.."
VENV=${EVALINDEX_VENV:-$PWD/.venv}
PYTHON=$VENV/bin/python
stamp=$VENV/.installed-for
if ! cmp -s pyproject.toml "$stamp"; then
  echo "setting up $VENV" >&2
  "${PYTHON_FOR_VENV:-python3}" -m venv --clear "$VENV"
  "$PYTHON" -m pip install -q --disable-pip-version-check uv
  # uv takes seconds where pip takes a minute, but trusts the system's certificates only if told to.
  UV_SYSTEM_CERTS=1 UV_NATIVE_TLS=1 "$PYTHON" -m uv pip install -q --python "$PYTHON" -e '.[dev]' ||
    "$PYTHON" -m pip install -q --disable-pip-version-check -e '.[dev]'
  cp pyproject.toml "$stamp"
fi
