"""Whether formats/architectures/config_fields.txt has the fields that the installed transformers and llama.cpp's converter read."""

import os
import sys

import common
import config_fields


def main() -> None:
    if os.environ["ONLY"].split("/")[0] not in ("", "config_fields"):
        return
    have, want = (set(text.splitlines()) for text in ((config_fields.FORMATS / "config_fields.txt").read_text(), config_fields.text()))
    rows = sorted(row.split("=")[0][:60] for row in have ^ want)
    said = f"it is out of date ({len(rows)} lines, the first is {rows[0]}): run scripts/programs/config_fields.py" if rows else ""
    common.tell("config_fields", "any", "text", sys.argv[1], checks=dict(fields=said))


if __name__ == "__main__":
    main()
