"""Whether testdata/settings.json has what the installed huggingface_hub, boto3 and requests answer."""

import os
import sys

import common
import settings


def main() -> None:
    if os.environ["ONLY"].split("/")[0] not in ("", "settings"):
        return
    said = "" if settings.OUT.read_text() == settings.answers() else "it is out of date: run scripts/programs/settings.py"
    common.tell("settings", "any", "text", sys.argv[1], checks=dict(answers=said))


if __name__ == "__main__":
    main()
