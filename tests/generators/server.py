"""Starts frontdesk on a build."""

import os
import re
import subprocess


def serve(binary, folder, data, base_url=None):
    """Starts frontdesk on a build. Returns the process and its address."""
    environment = dict(os.environ, NO_COLOR="1", FRONTDESK_OPERATOR__SECURITY_EMAIL="security@example.com")
    if base_url:
        environment["FRONTDESK_BASE_URL"] = base_url
    arguments = [binary, "serve", folder, "--listen", "127.0.0.1:0", "--ops-listen", "off", "--data-dir", data]
    process = subprocess.Popen(arguments, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    for line in process.stdout:
        if match := re.match(r"listening on (http://\S+)", line):
            return process, match[1].rstrip("/")
    raise SystemExit(f"{binary} did not start:\n{process.stderr.read()}")
