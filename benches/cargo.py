"""Programs built by cargo, for the scripts beside this one."""
import json
import os
import subprocess


def built(*arguments, **environment):
    """Name and path of the programs that `cargo ARGUMENTS` makes; `environment` is added to the process's own."""
    command = ["cargo", *arguments, "--message-format=json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, **environment})
    messages = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {message["target"]["name"]: message["executable"] for message in messages if message.get("executable")}
